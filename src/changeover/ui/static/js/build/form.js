// A form over one document. Keys that it does not show stay in the document as they are.
import { h } from "../dom.js";
import { fieldOf } from "./fields.js";

export class Form {
  constructor(sections, changed) {
    this.fields = [];
    this.kept = {};
    this.element = h("div", { class: "form" }, sections.map((section) => this.#section(section, changed)));
  }

  #section({ title, open, specs, grid }, changed) {
    const made = specs.map((spec) => fieldOf(spec, changed));
    this.fields.push(...made);
    const body = h("div", { class: grid ? "fieldgrid" : "fieldlist" }, made.map((each) => each.element));
    if (!title) return body;
    return open === undefined ? h("section", {}, h("h2", {}, title), body) : h("details", { open }, h("summary", {}, title), body);
  }

  load(document, locked = false) {
    const shown = new Set(this.fields.map((each) => each.key));
    this.kept = Object.fromEntries(Object.entries(document).filter(([key]) => !shown.has(key)));
    for (const each of this.fields) {
      each.write(document[each.key]);
      each.touched = false;
      each.lock(locked);
    }
  }

  get document() {
    const found = this.fields.map((each) => [each.key, each.read()]).filter(([, value]) => value !== undefined);
    return { ...this.kept, ...Object.fromEntries(found) };
  }

  // Show each fault at its field; returns those that belong to none.
  complain(faults, strict) {
    const left = new Set(faults);
    for (const field of this.fields) {
      const own = faults.filter(({ path }) => path === field.key || path.startsWith(`${field.key}.`) || path.startsWith(`${field.key}[`));
      own.forEach((each) => left.delete(each));
      field.complain(own, strict);
      if (own.length && strict) field.element.closest("details:not([open])")?.setAttribute("open", "");
    }
    return [...left];
  }

  get wrong() { return this.fields.find((each) => !each.fault.hidden)?.element; }
}
