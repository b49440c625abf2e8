// A declaration under edit: the server checks each draft, and a save says if another person was quicker.
import { call, get, inPath, post } from "../api.js";
import { h, icon } from "../dom.js";
import { day } from "../format.js";
import { live } from "../live.js";
import { dialog } from "./dialog.js";
import { drawn } from "./diff.js";

const PAUSE = 200; // milliseconds after the last key
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export class Editing {
  #timer = 0;
  #asked = 0;
  strict = false;

  // `row` is the current version, null for a new one; `name()` gives its name, `full(document)` what is sent.
  // On `page` it calls checked(drafted), saved(row), and state() after every change.
  constructor({ kind, row, form, name, page, full = (document) => document }) {
    Object.assign(this, { kind, row, form, name, page, full, notice: h("div", { class: "clash", role: "alert", hidden: true }), rest: h("div", { class: "rest-faults", role: "alert", hidden: true }) });
    this.first = this.document;
  }

  get document() { return this.full(this.form.document); }
  get dirty() { return !same(this.document, this.first); }
  get path() { return `/declarations/${this.kind}/${inPath(this.name() || "_")}`; }

  changed() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.check(), PAUSE);
    this.page.state();
  }

  async check() {
    clearTimeout(this.#timer);
    const asked = ++this.#asked;
    const drafted = await post(`/drafts/${this.kind}/${encodeURIComponent(this.name() || "_")}`, { document: this.document }).catch((problem) => ({ faults: [{ path: "", text: problem.message }] }));
    if (asked !== this.#asked) return null; // a later draft is under way
    this.#complain(drafted.faults);
    this.page.checked(drafted);
    return drafted;
  }

  #complain(faults) {
    const rest = this.form.complain(faults, this.strict);
    const words = rest.filter(({ path }) => this.strict || !path).map(({ text }) => text);
    this.rest.hidden = !words.length || !(this.strict || this.dirty);
    this.rest.replaceChildren(...words.map((each) => h("p", { class: "fault" }, each)));
  }

  async save() {
    this.strict = true;
    const drafted = await this.check();
    if (!drafted) return;
    if (drafted.faults.length) return void (this.form.wrong ?? this.rest).scrollIntoView({ block: "center" });
    await this.#put(this.row ? { "If-Match": `"${this.row.version}"` } : { "If-None-Match": "*" });
  }

  async #put(headers) {
    try {
      this.row = await call("PUT", this.path, this.document, headers);
    } catch (problem) {
      if (problem.status === 412) return this.#clash();
      return this.#complain([{ path: "", text: problem.message }]);
    }
    this.first = this.document;
    this.strict = this.notice.hidden = true;
    this.strict = false;
    this.page.saved(this.row);
  }

  // Another person was quicker: nothing of either is lost.
  async #clash() {
    const theirs = await get(this.path);
    const take = () => this.page.reload(theirs);
    const over = () => ((this.row = theirs), this.#put({ "If-Match": `"${theirs.version}"` }));
    const show = () => dialog(`Version ${theirs.version} and yours`, drawn(theirs.document, this.document), ["Save mine over it", over, "primary"], ["Take theirs", take]);
    this.#say(`${theirs.by || "Another person"} saved version ${theirs.version} at ${day(theirs.at)}, while you were editing. Nothing of yours is lost.`, ["Show what differs", show], ["Take theirs", take], ["Save mine over it", over]);
  }

  // Show a conflict as soon as another person has saved, before a save is tried here.
  watch() {
    live.watch("declarations", (said) => {
      const found = (said.items ?? [said.item]).find((each) => each?.kind === this.kind && each.name === this.row?.name);
      if (!found || found.version <= this.row.version || !this.element?.isConnected) return;
      if (this.dirty) this.#clash();
      else get(this.path).then((theirs) => this.page.reload(theirs), () => {});
    });
    return this;
  }

  #say(words, ...actions) {
    this.notice.hidden = false;
    this.notice.replaceChildren(icon("triangle-alert"), h("div", {}, h("p", {}, words), h("div", { class: "acts" }, actions.map(([name, act]) => h("button", { class: "btn small", type: "button", onclick: act }, name)))));
    this.notice.scrollIntoView({ block: "nearest" });
  }

  async become(state) {
    const row = await call("PATCH", this.path, { state }, { "If-Match": `"${this.row.version}"` });
    this.page.saved(row);
  }

  get element() { return this.notice; }
}
