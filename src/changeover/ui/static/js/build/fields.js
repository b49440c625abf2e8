// Fields of editors: each reads and writes one key of a document, and shows what the server says is wrong with it.
import { h, icon } from "../dom.js";

let count = 0;
const text = (value) => (value === undefined || value === null ? "" : String(value));
const parsed = (words) => {
  try { return JSON.parse(words); } catch { return words; }
};

export class Field {
  touched = false;

  constructor(spec, changed) {
    Object.assign(this, { spec, id: `field${++count}` });
    this.tell = () => ((this.touched = true), changed());
    this.fault = h("p", { class: "fault", id: `${this.id}-fault`, hidden: true });
    this.control = this.make();
    this.element = this.frame();
  }

  get key() { return this.spec.key; }

  attributes() {
    return { class: `in ${this.spec.mono ? "mono" : ""}`, id: this.id, placeholder: this.spec.placeholder, "aria-describedby": `${this.id}-fault`, spellcheck: this.spec.mono ? "false" : undefined, autocomplete: "off", oninput: this.tell };
  }

  make() {
    if (this.spec.kind === "area") return h("textarea", { ...this.attributes(), rows: this.spec.rows ?? 4 });
    return h("input", { ...this.attributes(), type: this.spec.kind === "number" ? "number" : "text", step: "any" });
  }

  frame() {
    return h("div", { class: `entry ${this.spec.wide === false ? "half" : ""}`, "data-key": this.key }, h("label", { for: this.id }, this.spec.label), this.control, this.spec.help && h("small", {}, this.spec.help), this.fault);
  }

  read() {
    const words = this.control.value;
    if (words.trim() === "") return undefined;
    return this.spec.kind === "number" ? Number(words) : words;
  }

  write(value) { this.control.value = text(value); }

  lock(locked) {
    for (const each of [this.control, ...this.control.querySelectorAll("input, select, textarea")]) each.disabled = locked;
    for (const each of this.control.querySelectorAll("button")) each.hidden = locked;
  }

  // What is wrong below this key; only after a person touched it, or wanted to save.
  complain(faults, strict) {
    const shown = strict || this.touched ? faults : [];
    const words = [...new Set(shown.map((each) => each.text))].join(" ");
    this.fault.textContent = words;
    this.fault.hidden = !words;
    this.mark(shown);
  }

  mark(faults) { this.control.setAttribute("aria-invalid", faults.length > 0); }
}

class Check extends Field {
  make() { return h("input", { type: "checkbox", id: this.id, onchange: this.tell, "aria-describedby": `${this.id}-fault` }); }
  frame() { return h("div", { class: "entry tick", "data-key": this.key }, h("label", {}, this.control, this.spec.label), this.spec.help && h("small", {}, this.spec.help), this.fault); }
  read() { return this.control.checked ? true : this.spec.tri && this.touched ? false : undefined; }
  write(value) { this.control.checked = value === true; }
}

class Select extends Field {
  make() { return h("select", { ...this.attributes(), onchange: this.tell, oninput: null }, this.spec.options().map(([value, words]) => h("option", { value }, words))); }
  read() { return this.other !== undefined && this.control.value === "…" ? this.other : this.control.value || undefined; }
  write(value) {
    this.control.querySelector("option[value='…']")?.remove();
    this.other = undefined;
    if (value !== undefined && value !== null && ![...this.control.options].some((each) => each.value === value)) {
      this.other = value;
      this.control.append(h("option", { value: "…" }, typeof value === "string" ? value : JSON.stringify(value)));
      value = "…";
    }
    this.control.value = text(value);
  }
}

// Several texts, one in a line.
class Lines extends Field {
  make() { return h("textarea", { ...this.attributes(), rows: this.spec.rows ?? 2 }); }
  read() {
    const found = this.control.value.split("\n").map((each) => each.trim()).filter(Boolean);
    return found.length ? found : undefined;
  }
  write(value) { this.control.value = (value ?? []).join("\n"); }
}

class Json extends Field {
  make() { return h("textarea", { ...this.attributes(), class: "in mono", rows: this.spec.rows ?? 2, spellcheck: "false" }); }
  read() { return this.control.value.trim() === "" ? undefined : parsed(this.control.value); }
  write(value) { this.control.value = value === undefined || value === null ? "" : JSON.stringify(value, null, 2); }
}

class Seconds extends Field {
  make() {
    this.number = h("input", { ...this.attributes(), type: "number", min: "0", step: "any" });
    this.none = h("input", { type: "checkbox", onchange: () => ((this.number.disabled = this.none.checked), this.tell()) });
    return h("div", { class: "row" }, this.number, h("label", { class: "row plain" }, this.none, "No limit"));
  }
  read() { return this.none.checked ? null : this.number.value === "" ? undefined : Number(this.number.value); }
  write(value) {
    this.none.checked = this.number.disabled = value === null;
    this.number.value = text(value);
  }
  mark(faults) { this.number.setAttribute("aria-invalid", faults.length > 0); }
}

// A list whose items are chosen from known names; others may be in it too.
class Choices extends Field {
  make() {
    this.chosen = [];
    this.chips = h("ul", { class: "chips", "aria-label": `Chosen: ${this.spec.label}` });
    this.pick = h("select", { class: "in add", id: this.id, "aria-describedby": `${this.id}-fault`, onchange: () => this.#add() });
    return h("div", { class: "choices" }, this.chips, this.pick);
  }
  #add() {
    if (this.pick.value) this.chosen = [...this.chosen, this.pick.value];
    this.draw();
    this.tell();
  }
  #drop(name) {
    this.chosen = this.chosen.filter((each) => each !== name);
    this.draw();
    this.tell();
    this.pick.focus();
  }
  draw() {
    const shown = this.chosen.filter((each) => typeof each === "string");
    const known = this.spec.options().filter(([value]) => !shown.includes(value));
    this.chips.replaceChildren(...shown.map((each) => h("li", { class: "chip", "data-name": each }, this.spec.mark?.(each), each, h("button", { type: "button", class: "drop", "aria-label": `Take ${each} away`, onclick: () => this.#drop(each) }, icon("x", "small")))), ...this.chosen.filter((each) => typeof each !== "string").map((each) => h("li", { class: "chip", title: "Declared in the document of this agent" }, each.name ?? each.to ?? JSON.stringify(each))));
    this.pick.replaceChildren(h("option", { value: "" }, this.spec.add ?? "Add…"), ...known.map(([value, words]) => h("option", { value }, words)));
  }
  read() { return this.chosen.length || this.spec.empty ? this.chosen : undefined; }
  write(value) {
    this.chosen = Array.isArray(value) ? [...value] : [];
    this.draw();
  }
  mark(faults) {
    const bad = new Set(faults.map((each) => Number(/\[(\d+)\]/.exec(each.path)?.[1] ?? -1)));
    [...this.chips.children].forEach((each, index) => each.classList.toggle("wrong", bad.has(index)));
    this.pick.setAttribute("aria-invalid", faults.length > 0);
  }
}

// Rows of inputs; a subclass says what stands in a row.
class Rows extends Field {
  make() {
    this.body = h("div", { class: `rowset ${this.spec.kind}`, role: "group", "aria-label": this.spec.label }, this.heads());
    const more = h("button", { class: "btn small", type: "button", onclick: () => (this.row(), this.tell(), this.body.lastElementChild.querySelector("input").focus()) }, icon("plus", "small"), this.spec.add);
    return h("div", { class: "rowbox" }, this.body, more);
  }
  heads() { return []; }
  get rows() { return [...this.body.querySelectorAll(".vrow")]; }
  remove() { return h("button", { type: "button", class: "btn quiet square", "aria-label": "Remove this row", onclick: (event) => (event.currentTarget.closest(".vrow").remove(), this.tell()) }, icon("trash-2", "small")); }
  clear() { for (const each of this.rows) each.remove(); }
  frame() { return h("div", { class: "entry", "data-key": this.key }, h("span", { class: "caption" }, this.spec.label), this.spec.help && h("small", {}, this.spec.help), this.control, this.fault); }
  mark(faults) {
    const rows = this.rows;
    for (const each of this.body.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
    for (const { path, text } of faults) {
      const [, index, part] = /\[(\d+)\](?:\.(\w+))?/.exec(path) ?? [];
      const named = index === undefined ? rows.filter((each) => { const name = each.querySelector("input").value; return name && text.includes(`'${name}'`); }) : [rows[Number(index)]];
      for (const row of named) (row?.querySelector(`[name="${part ?? "name"}"]`) ?? row?.querySelector("input"))?.setAttribute("aria-invalid", "true");
    }
  }
}

const TYPES = ["string", "integer", "number", "boolean", "array", "object"];
const input = (name, label, value, tell, more = {}) => h("input", { class: "in", name, "aria-label": label, value: value ?? "", oninput: tell, autocomplete: "off", ...more });

class Variables extends Rows {
  heads() { return h("div", { class: "vhead", "aria-hidden": "true" }, ["Name", "Type", "Required", "Description"].map((each) => h("span", {}, each))); }
  row(given = {}) {
    const type = h("select", { class: "in", name: "type", "aria-label": "Type", onchange: this.tell }, TYPES.map((each) => h("option", { value: each }, each)));
    type.value = given.type ?? "string";
    const required = h("input", { type: "checkbox", name: "required", "aria-label": "Required", onchange: this.tell });
    required.checked = given.required !== false;
    this.body.append(h("div", { class: "vrow" }, input("name", "Name", given.name, this.tell, { class: "in mono", spellcheck: "false" }), type, h("span", { class: "mid" }, required), input("description", "Description", given.description, this.tell), this.remove()));
  }
  read() {
    if (this.model) return this.model;
    const found = this.rows.map((each) => {
      const of = (name) => each.querySelector(`[name="${name}"]`);
      return { name: of("name").value.trim(), ...(of("type").value === "string" ? {} : { type: of("type").value }), ...(of("required").checked ? {} : { required: false }), ...(of("description").value.trim() ? { description: of("description").value.trim() } : {}) };
    });
    return found.length ? found : undefined;
  }
  write(value) {
    this.clear();
    this.model = typeof value === "string" ? value : undefined; // the import path of a pydantic model
    for (const each of Array.isArray(value) ? value : []) this.row(typeof each === "string" ? { name: each } : each);
  }
}

class Pairs extends Rows {
  row([name, value] = ["", ""]) { this.body.append(h("div", { class: "vrow" }, input("name", "Name", name, this.tell, { class: "in mono" }), input("value", "Value", typeof value === "string" ? value : JSON.stringify(value), this.tell, { class: "in mono", placeholder: this.spec.placeholder }), this.remove())); }
  read() {
    const found = Object.fromEntries(this.rows.map((each) => [...each.querySelectorAll("input")].map((one) => one.value)).filter(([name]) => name.trim()));
    return Object.keys(found).length ? found : undefined;
  }
  write(value) {
    this.clear();
    for (const each of Object.entries(value ?? {})) this.row(each);
  }
}

// Fields of a mapping below one key: nothing is written while all are empty.
class Part extends Field {
  make() {
    this.switch = this.spec.switch && h("input", { type: "checkbox", onchange: () => (this.#show(), this.tell()) });
    this.fields = this.spec.fields.map((each) => fieldOf(each, this.tell));
    this.inner = h("div", { class: "inner" }, this.fields.map((each) => each.element));
    return h("fieldset", { class: "part" }, h("legend", {}, this.switch ? h("label", { class: "row plain" }, this.switch, this.spec.label) : this.spec.label), this.spec.help && h("small", {}, this.spec.help), this.inner);
  }
  frame() { return h("div", { class: "entry", "data-key": this.key }, this.control, this.fault); }
  #show() { if (this.switch) this.inner.hidden = !this.switch.checked; }
  read() {
    if (this.switch && !this.switch.checked) return undefined;
    const found = Object.fromEntries(this.fields.map((each) => [each.key, each.read()]).filter(([, value]) => value !== undefined));
    if (this.function) return this.function;
    if (Object.keys(found).length) return this.spec.wrap ? this.spec.wrap(found) : found;
    return this.switch ? true : undefined;
  }
  write(value) {
    this.function = typeof value === "string" ? value : undefined; // by its import path
    if (this.switch) this.switch.checked = Boolean(value);
    const inside = this.spec.unwrap ? this.spec.unwrap(value) : value;
    for (const each of this.fields) each.write(inside && typeof inside === "object" ? inside[each.key] : undefined);
    this.#show();
  }
  mark(faults) { for (const each of this.fields) each.complain(faults.filter(({ path }) => path.split(/[.[]/).includes(each.key)), true); }
}

const KINDS = { check: Check, select: Select, lines: Lines, json: Json, seconds: Seconds, choices: Choices, variables: Variables, pairs: Pairs, part: Part };
// The field of a spec; a kind may be a class of its own.
export const fieldOf = (spec, changed) => new (KINDS[spec.kind] ?? (typeof spec.kind === "function" ? spec.kind : Field))(spec, changed);
