// Agent: its form beside the prompt that its model gets; code's agents are shown, and changed in code.
import { call, get, inPath, may, post } from "../api.js";
import { showPrompt } from "../agents/prompt.js";
import { byId, h, icon, root } from "../dom.js";
import { broken, frame } from "../frame.js";
import { avatar, named, nameOf } from "../team.js";

const chosen = () => decodeURIComponent(location.pathname.slice(`${root}/agents/`.length));
const STORE = "It is declared in the store.";

class Agent {
  constructor(who, agents) {
    Object.assign(this, { admin: may(who, "admin"), agents, id: chosen(), row: null, saved_: null, editing: null });
    addEventListener("beforeunload", (event) => this.admin && this.editing?.dirty && event.preventDefault());
  }

  async load() {
    const fresh = !this.id;
    if (!fresh) {
      this.item = await get(`/agents/${inPath(this.id)}`).catch((problem) => (problem.status === 404 ? null : Promise.reject(problem)));
      this.row = await get(`/declarations/agent/${inPath(this.id)}`).catch(() => null);
    }
    byId("work").removeAttribute("aria-busy");
    if (!fresh && !this.item && !this.row) return this.#missing();
    byId("title").replaceChildren(...(fresh ? ["New agent"] : [avatar(this.id, "small"), named(this.id)]));
    byId("version").textContent = this.row && this.item?.origin !== "code" ? `v${this.row.version}` : fresh ? "" : "code";
    if (this.item) this.prompt = await get(`/agents/${inPath(this.id)}/prompt`).catch(() => null);
    if (this.item?.origin === "code" || (fresh && !this.admin)) return this.#read();
    return this.#edit();
  }

  #missing() {
    byId("title").textContent = this.id;
    byId("work").replaceChildren(h("div", { class: "nothing" }, h("h2", {}, "There is no such agent"), h("p", {}, "Neither code nor the store declares it."), h("a", { class: "btn", href: `${root}/agents` }, "All agents")));
  }

  #read() {
    if (!this.item) return this.#missing();
    const { profile, model, tools, skills, receivers, kind } = this.item;
    const list = (names, of) => (names?.length ? h("span", { class: "chips" }, names.map(of)) : "none");
    const tool = (name) => h("a", { class: "chip", href: `${root}/tools/${inPath(name)}?agent=${encodeURIComponent(this.id)}` }, name);
    const who = (id) => h("a", { class: "chip", href: `${root}/agents/${inPath(id)}` }, avatar(id, "small"), named(id));
    const rows = [["Kind", kind], ["For", profile.description || "–"], ["Model", model || (kind === "agent" ? "the team's" : "–")], ["Capabilities", profile.capabilities?.join(", ") || "none"], ["Tools", list(tools, tool)], ["Skills", skills.join(", ") || "none"], ["Hands to", list(receivers, who)]];
    byId("work").replaceChildren(h("div", { class: "facts" }, h("div", { class: "notice" }, icon("lock"), h("p", {}, "It is declared in code. Change it there; here it can be disabled.")), h("dl", { class: "known" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))));
    this.#actions([]);
    showPrompt(this.prompt, undefined, this.prompt ? "" : "It has no model, so there is no prompt.");
  }

  async #edit() {
    const [{ Editing }, { Form }, { sectionsOf }] = await Promise.all([import("../build/editing.js"), import("../build/form.js"), import("../agents/form.js")]);
    const [tools, skills] = await Promise.all([get("/tools"), get("/declarations?kind=skill")]);
    const names = tools.items.filter((each) => each.state !== "removed" && !each.server && each.type !== "skill" && (each.origin === "store" || (each.origin === "code" && each.type !== "handoff")));
    const known = { agents: this.agents, tools: [...new Set(names.map((each) => each.name))], skills: skills.items.map((each) => each.name) };
    const form = new Form(sectionsOf(known), () => this.editing.changed());
    this.naming = form.fields.find((each) => each.key === "id");
    form.load({ ...(this.row?.document ?? {}), id: this.id }, !this.admin);
    this.naming.control.disabled = Boolean(this.id);
    const full = ({ id: _id, ...document }) => document;
    this.editing = new Editing({ kind: "agent", row: this.row, form, name: () => this.naming.read() ?? "", page: this, full }).watch();
    byId("work").replaceChildren(this.editing.notice, form.element, this.editing.rest, this.#past());
    this.state();
    showPrompt(this.prompt, undefined, this.prompt ? "" : STORE);
    if (this.admin) this.editing.check();
  }

  #past() {
    if (!this.row) return "";
    const box = h("div", {}, h("p", { class: "quiet" }, "Loading…"));
    const fill = async () => (await import("../build/history.js")).showHistory(box, { kind: "agent", name: this.id, mine: () => this.editing.document, allowed: this.admin, restored: (row) => this.saved(row) });
    return h("details", { class: "past", id: "past", ontoggle: fill }, h("summary", {}, icon("history", "small"), "History"), box);
  }

  checked({ faults, prompt }) {
    showPrompt(prompt, this.prompt, faults.length ? "Not all fields are right yet." : prompt ? "" : "It has no model, so there is no prompt.");
    this.state();
  }

  state() {
    const dirty = this.editing.dirty;
    const save = h("button", { class: "btn primary", type: "button", disabled: Boolean(this.row) && !dirty && this.row.state !== "removed", onclick: () => this.editing.save() }, this.row ? `Save as v${this.row.version + 1}` : "Save");
    this.#actions([dirty && this.row && h("span", { class: "pill waiting unsaved" }, "Not saved"), this.row?.state === "removed" && h("span", { class: "pill" }, "removed"), this.row && this.row.state !== "removed" && h("button", { class: "btn", type: "button", onclick: () => this.#remove() }, "Remove"), save]);
  }

  #actions(more) {
    if (!this.admin) return;
    const turn = this.item && h("button", { class: "btn", type: "button", onclick: () => this.#turn() }, this.item.enabled ? "Disable" : "Enable");
    const start = this.item && !this.item.start && this.row && this.row.state === "enabled" && h("button", { class: "btn wide-only", type: "button", onclick: () => this.#start() }, "Start here");
    byId("actions").replaceChildren(...[this.item && !this.item.enabled && h("span", { class: "pill waiting" }, "disabled"), start, turn, ...more].filter(Boolean));
  }

  async #turn() {
    this.item = await post(`/agents/${inPath(this.id)}/${this.item.enabled ? "disable" : "enable"}`);
    if (this.editing) this.state();
    else this.#actions([]);
  }

  // New conversations begin with this agent, unless code says with which.
  async #start() {
    const { team } = await get("/version");
    const path = `/declarations/team/${inPath(team)}`;
    const row = await get(path).catch(() => null);
    await call("PUT", path, { ...(row?.document ?? {}), start: this.id }, row ? { "If-Match": `"${row.version}"` } : {});
    this.item = await get(`/agents/${inPath(this.id)}`);
    if (!this.item.start) return this.#say("Code says with which agent conversations begin.");
    return this.state();
  }

  #say(words) {
    this.editing.rest.hidden = false;
    this.editing.rest.replaceChildren(h("p", { class: "fault" }, words));
  }

  async #remove() {
    const { confirmed } = await import("../build/dialog.js");
    if (!(await confirmed(`Remove ${nameOf(this.id)}?`, "It gets nothing from the next run on. Its versions stay, and can be restored.", "Remove"))) return;
    await this.editing.become("removed").catch((problem) => this.#say(problem.message));
  }

  saved(row) {
    this.editing.first = this.editing.document; // so that the page asks nothing
    location.assign(`${root}/agents/${inPath(row.name)}`);
  }

  reload(row) {
    Object.assign(this, { row, id: row.name });
    byId("version").textContent = `v${row.version}`;
    return this.#edit();
  }
}

try {
  const { who, agents } = await frame();
  await new Agent(who, agents).load();
} catch (problem) {
  broken(byId("work"), problem, "The agent cannot be read");
}
