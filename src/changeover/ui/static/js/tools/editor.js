// The editor of a tool of the store: type, name, the form of its type, who has it, a trial, and its versions.
import { call, get, inPath, post } from "../api.js";
import { confirmed } from "../build/dialog.js";
import { Editing } from "../build/editing.js";
import { Form } from "../build/form.js";
import { fieldOf } from "../build/fields.js";
import { byId, h, icon } from "../dom.js";
import { plural } from "../format.js";
import { nameOf } from "../team.js";
import { sight, usedBy } from "./facts.js";
import { trial } from "./trial.js";
import { sectionsOf, TYPES, WAYS, wayOf } from "./types.js";

const CHOICES = Object.entries(TYPES).slice(0, 5);

export class ToolEditor {
  constructor(page, item, type) {
    Object.assign(this, { page, item, type: item?.type ?? (type in TYPES ? type : "handoff"), way: "transfer", row: null });
    this.element = h("div", { class: "editor" });
    this.naming = fieldOf({ key: "name", label: "Name", mono: true, placeholder: "handoff_to_billing", help: "Letters, digits, underscores. The model calls the tool by this name." }, () => this.editing?.changed());
  }

  get dirty() { return this.editing?.dirty && this.page.admin; }

  async load() {
    if (this.item) {
      this.row = await get(`/declarations/tool/${inPath(this.item.name)}`);
      this.way = wayOf(this.row.document);
    }
    this.#draw(this.row?.document ?? {});
  }

  #draw(document) {
    const locked = !this.page.admin;
    const { type: _type, delegate: _delegate, specialist: _specialist, ...own } = document;
    this.form = new Form(sectionsOf(this.type, this.page.agents, this.way), () => this.editing.changed());
    this.form.fields.unshift(this.naming);
    this.form.load({ ...own, name: this.item?.name ?? this.naming.read() }, locked);
    this.naming.control.disabled = Boolean(this.item);
    this.editing = new Editing({ kind: "tool", row: this.row, form: this.form, name: () => this.naming.read() ?? "", page: this, full: (given) => this.#full(given) }).watch();
    this.element.replaceChildren(this.editing.notice, this.#types(locked), this.type === "handoff" ? this.#ways(locked) : "", this.naming.element, this.form.element, this.editing.rest, ...this.#below());
    this.state();
    if (this.page.admin) this.editing.check();
    else sight([this.item]);
  }

  #full({ name: _name, ...given }) {
    const flag = this.type === "handoff" && this.way !== "transfer" ? { [this.way]: true } : {};
    return { type: this.type, ...flag, ...given };
  }

  #tabs(label, choices, current, choose, locked) {
    return h("fieldset", { class: "segments" }, h("legend", {}, label), h("div", {}, choices.map(([value, words]) => {
      const one = h("input", { type: "radio", name: label, value, class: "vh", disabled: locked, onchange: () => choose(value) });
      one.checked = value === current;
      return h("label", {}, one, h("span", {}, words));
    })));
  }

  #types(locked) { return this.#tabs("Type", CHOICES.map(([value, [words]]) => [value, words]), this.type, (value) => ((this.type = value), this.#draw(this.form.document)), locked || Boolean(this.item)); }
  #ways(locked) { return this.#tabs("Kind of handoff", Object.entries(WAYS), this.way, (value) => ((this.way = value), this.#draw(this.form.document), this.editing.changed()), locked); }

  #below() {
    const found = [];
    if (this.type === "mcp_server" && this.page.admin) found.push(this.#discovery());
    if (!this.item) return found;
    found.push(this.#users());
    const called = this.type === "mcp_server" ? [] : [this.page.items.find((each) => each.name === this.item.name && each.agents.length)];
    for (const each of called) if (each && this.type !== "handoff" && this.page.admin) found.push(trial(each));
    const versions = h("div", {}, h("p", { class: "quiet" }, "Loading…"));
    found.push(h("details", { class: "past", ontoggle: () => this.#history(versions) }, h("summary", {}, icon("history", "small"), "History"), versions));
    return found;
  }

  async #history(box) { return (await import("../build/history.js")).showHistory(box, { kind: "tool", name: this.item.name, mine: () => this.editing.document, allowed: this.page.admin, restored: (row) => this.saved(row) }); }

  // Which agents have it; an agent of the store can be given it here.
  #users() {
    const box = usedBy(this.page, this.item);
    if (!this.page.admin || this.row.state !== "enabled") return box;
    const pick = h("select", { class: "in", "aria-label": "Agent that gets it" }, h("option", { value: "" }, "Give it to an agent…"));
    get("/declarations?kind=agent").then(({ items }) => pick.append(...items.filter((each) => !this.item.agents.includes(each.name) && !each.document.person && !each.document.function).map((each) => h("option", { value: each.name }, nameOf(each.name)))));
    const give = async () => {
      if (!pick.value) return;
      const path = `/declarations/agent/${inPath(pick.value)}`;
      const agent = await get(path);
      const tools = [...(agent.document.tools ?? []), this.item.name];
      await call("PUT", path, { ...agent.document, tools }, { "If-Match": `"${agent.version}"` }).then(() => this.#again(this.item.name), (problem) => box.append(h("p", { class: "fault", role: "alert" }, problem.message)));
    };
    box.append(h("div", { class: "row give" }, pick, h("button", { class: "btn small", type: "button", onclick: give }, "Give")));
    return box;
  }

  #discovery() {
    const said = h("div", { class: "said", role: "status" });
    const ask = async () => {
      said.replaceChildren(h("p", { class: "quiet" }, "Asking the server…"));
      try {
        const { items } = await post(`/drafts/tool/${encodeURIComponent(this.naming.read() || "_")}/discover`, { document: this.editing.document });
        said.replaceChildren(h("p", { class: "good" }, icon("circle-check", "small"), `It offers ${plural(items.length, "tool")}.`), h("ul", { class: "offered" }, items.map((each) => h("li", {}, h("b", { class: "mono" }, each.name), h("span", {}, each.description)))));
        sight(items);
      } catch (problem) {
        said.replaceChildren(h("p", { class: "fault" }, problem.message));
      }
    };
    return h("section", { class: "trial", "aria-label": "Its tools" }, h("h2", {}, "Its tools"), h("p", { class: "meta" }, "This connects to the server, or starts its command, and ends it again."), h("div", { class: "acts" }, h("button", { class: "btn", type: "button", onclick: ask }, icon("plug", "small"), "Discover its tools")), said);
  }

  // Called by Editing when a draft was checked, saved or changed.
  checked({ faults, tools = [] }) {
    const server = this.type === "mcp_server" && !faults.length;
    sight(tools, faults.length ? "It appears here when every field is valid." : server ? "The server has to be asked for its tools." : "");
    this.state();
  }

  state() {
    if (!this.page.admin) return;
    const next = this.row ? `Save as v${this.row.version + 1}` : "Save";
    const state = this.row?.state;
    byId("actions").replaceChildren(
      this.editing.dirty && this.row ? h("span", { class: "pill waiting unsaved" }, "Not saved") : "",
      this.row ? h("button", { class: "btn", type: "button", onclick: () => this.#switch(state === "enabled" ? "disabled" : "enabled") }, state === "enabled" ? "Disable" : "Enable") : "",
      this.row ? h("button", { class: "btn", type: "button", onclick: () => this.#remove() }, "Remove") : h("a", { class: "btn", href: location.pathname.replace(/\/tools.*/, "/tools"), "data-in": "1" }, "Discard"),
      h("button", { class: "btn primary", type: "button", disabled: Boolean(this.row) && !this.editing.dirty, onclick: () => this.editing.save() }, next));
  }

  #switch(state) { return this.editing.become(state).catch((problem) => this.editing.rest.replaceChildren(h("p", { class: "fault" }, problem.message))).finally(() => (this.editing.rest.hidden = !this.editing.rest.childElementCount)); }
  async #remove() { if (await confirmed(`Remove ${this.item.name}?`, "Agents do not get it from the next run on. Its versions stay, and can be restored.", "Remove")) this.#switch("removed"); }

  async saved(row) {
    this.editing.first = this.editing.document; // so that the page asks nothing
    if (row.state === "removed") return this.#again("");
    return this.#again(row.name);
  }

  async #again(name) {
    await this.page.load();
    this.page.done(name);
  }

  reload(row) {
    this.row = row;
    this.way = wayOf(row.document);
    this.#draw(row.document);
  }
}
