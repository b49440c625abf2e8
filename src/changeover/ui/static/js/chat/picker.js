// The list of conversations: search in titles, open, rename, begin a new one.
import { call, get, inPath, may, now, query } from "../api.js";
import { byId, h, icon, root } from "../dom.js";
import { ago } from "../format.js";
import { avatar } from "../team.js";

const titleOf = (row) => row.title || row.id;
const WORDS = { running: "working", waiting: "waits for a person", completed: "", failed: "failed", cancelled: "stopped", idle: "", pending: "waits for a worker" };

export class Picker {
  #timer = 0;

  constructor(who, renamed) {
    Object.assign(this, { who, renamed, dialog: byId("picker"), current: null });
    this.find = h("input", { class: "in", type: "search", placeholder: "Search titles", "aria-label": "Search titles", oninput: () => this.#soon() });
    this.list = h("ul", { class: "talks" });
    this.fault = h("p", { class: "quiet", role: "status" });
    this.dialog.append(h("div", { class: "row" }, this.find, h("a", { class: "btn", href: `${root}/chat` }, icon("plus", "small"), "New"), h("button", { class: "btn quiet square", type: "button", "aria-label": "Close", onclick: () => this.dialog.close() }, icon("x"))), this.list, this.fault);
    this.dialog.addEventListener("close", () => byId("pick").setAttribute("aria-expanded", "false"));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  open(current) {
    this.current = current;
    byId("pick").setAttribute("aria-expanded", "true");
    this.dialog.showModal();
    this.find.focus();
    this.#load();
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#load(), 150);
  }

  async #load() {
    const wanted = this.find.value.trim();
    if (!this.list.children.length) this.fault.textContent = "Loading…";
    try {
      const said = await get(`/conversations${query({ text: wanted, limit: 50 })}`);
      if (wanted !== this.find.value.trim()) return; // a later search is under way
      const rows = said.items ?? said;
      this.list.replaceChildren(...rows.map((row) => this.#row(row)));
      this.fault.textContent = rows.length ? "" : wanted ? `No title has “${wanted}”.` : "Conversations appear here, one for each first message.";
    } catch (problem) {
      this.fault.textContent = problem.message;
    }
  }

  #row(row) {
    const word = WORDS[row.status] ?? row.status;
    const link = h("a", { href: `${root}/chat/${inPath(row.id)}`, "aria-current": row.id === this.current ? "page" : undefined }, avatar(row.agent, "small"), h("span", { class: "title" }, h("bdi", {}, titleOf(row))), h("span", { class: "meta" }, word && `${word}, `, ago(row.updated_at, now())));
    const line = h("li", {}, link);
    if (may(this.who, "operator")) line.append(h("button", { class: "btn quiet square", type: "button", "aria-label": `Rename ${titleOf(row)}`, onclick: () => this.#rename(row, line) }, icon("pencil", "small")));
    return line;
  }

  #rename(row, line) {
    const field = h("input", { class: "in", value: titleOf(row), "aria-label": "New title", maxlength: 200 });
    const form = h("form", { class: "row", onsubmit: (event) => (event.preventDefault(), this.#save(row, field, line)) }, field, h("button", { class: "btn" }, "Save"));
    form.addEventListener("keydown", (event) => event.key === "Escape" && (event.preventDefault(), event.stopPropagation(), line.replaceWith(this.#row(row))));
    line.replaceChildren(form);
    field.select();
  }

  async #save(row, field, line) {
    try {
      const title = field.value.trim();
      await call("PATCH", `/conversations/${inPath(row.id)}`, { title });
      line.replaceWith(this.#row({ ...row, title }));
      this.renamed(row.id, title);
    } catch (problem) {
      this.fault.textContent = problem.message;
    }
  }
}
