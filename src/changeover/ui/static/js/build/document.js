// A declaration as a JSON document with its versions: for those that have no form of their own.
import { h } from "../dom.js";
import { Editing } from "./editing.js";
import { showHistory } from "./history.js";

// A form of one field. It reports invalid JSON itself; the server reports all other faults.
class DocumentForm {
  constructor(document, locked, changed) {
    this.text = h("textarea", { class: "in mono", rows: 18, spellcheck: "false", readonly: locked, oninput: changed });
    this.text.value = JSON.stringify(document, null, 2);
    this.fault = h("div", { role: "alert", hidden: true });
    this.element = h("label", {}, "Document, as JSON", this.text, this.fault);
  }

  get document() { return this.#read().document; }
  get wrong() { return this.fault.hidden ? undefined : this.element; }

  #read() {
    try {
      const document = JSON.parse(this.text.value);
      return document !== null && typeof document === "object" && !Array.isArray(document) ? { document } : { error: "The document is not an object." };
    } catch (error) {
      return { error: `The document is not JSON: ${error.message}` };
    }
  }

  complain(faults) {
    const { error } = this.#read();
    const words = error ? [error] : faults.map(({ path, text }) => (path ? `${path}: ${text}` : text));
    this.fault.hidden = !words.length;
    this.fault.replaceChildren(...words.map((each) => h("p", { class: "fault" }, each)));
    return [];
  }
}

export class DocumentEditor {
  // `row` is the current version, null for a new one; `name()` gives its name; `saved(row)` gets each new version.
  constructor({ kind, row, name, draft = {}, locked, saved }) {
    this.saved = saved;
    this.form = new DocumentForm(row?.document ?? draft, locked, () => this.editing.changed());
    this.editing = new Editing({ kind, row, form: this.form, name, page: this }).watch();
    this.button = h("button", { class: "btn primary", type: "button", onclick: () => this.editing.save() }, row ? `Save as v${row.version + 1}` : "Save");
    const versions = h("div", { class: "quiet" }, "Loading…");
    const history = { kind, name: name(), mine: () => this.editing.document, allowed: !locked, restored: saved };
    this.element = h("div", { class: "in-panel starts" }, this.editing.notice, this.form.element, this.editing.rest, locked ? null : h("div", { class: "row" }, this.button),
      row && h("details", { ontoggle: () => showHistory(versions, history) }, h("summary", {}, `Versions, ${row.version} so far`), versions));
    addEventListener("beforeunload", (event) => !locked && this.editing.dirty && event.preventDefault());
    this.state();
  }

  checked() {}
  reload() { location.reload(); }
  state() { this.button.disabled = Boolean(this.editing.row) && !this.editing.dirty; }
}
