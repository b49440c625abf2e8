// Tools: all tools of the team, and one of them: who declares it, who has it, what models see of it.
import { get, inPath, may } from "../api.js";
import { byId, h, icon, root } from "../dom.js";
import { broken, complain, frame, shortcut } from "../frame.js";
import { live } from "../live.js";
import { avatar, named } from "../team.js";
import { TYPES } from "../tools/types.js";

const chosen = () => decodeURIComponent(location.pathname.slice(`${root}/tools`.length).replace(/^\//, ""));
const wanted = () => new URLSearchParams(location.search);
export const address = (name, more = "") => `${root}/tools${name ? `/${inPath(name)}` : ""}${more}`;

export class Tools {
  constructor(who, agents) {
    Object.assign(this, { who, agents, items: [], editor: null, admin: may(who, "admin") });
    byId("find").addEventListener("input", () => this.list());
    document.addEventListener("click", (event) => this.#follow(event));
    addEventListener("popstate", () => this.show());
    addEventListener("beforeunload", (event) => this.editor?.dirty && event.preventDefault());
    let edition = null;
    live.watch("declarations", (said) => {
      if (said.kind !== "snapshot" || edition) this.load().catch(complain);
      edition = true;
    });
  }

  #follow(event) {
    const link = event.target.closest?.("a[data-in]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (this.editor?.dirty && !confirm("Leave without saving? Your changes are lost.")) return;
    this.open(link.getAttribute("href"));
  }

  // A tool was saved or removed: show it as it is now.
  done(name) {
    history.replaceState({}, "", address(name));
    return this.show();
  }

  open(href) {
    history.pushState({}, "", href);
    this.show();
    byId("work").focus();
  }

  async load() {
    this.items = (await get("/tools")).items;
    complain();
    byId("shelf").removeAttribute("aria-busy");
    this.list();
  }

  get rows() { return this.items.filter((each) => each.state !== "removed" && !each.server); }

  list() {
    const find = byId("find").value.trim().toLowerCase();
    const found = this.rows.filter((each) => `${each.name} ${each.description} ${each.receivers}`.toLowerCase().includes(find));
    byId("count").textContent = this.rows.length || "";
    byId("shelf").replaceChildren(found.length ? h("ul", { class: "shelved" }, found.map((each) => this.#row(each))) : h("p", { class: "quiet" }, find ? "No tool fits." : "There are no tools yet."));
  }

  #row(each) {
    const [words, mark] = TYPES[each.type] ?? [each.type, "wrench"];
    const on = each.name === chosen() && (!wanted().get("agent") || each.agents.includes(wanted().get("agent")));
    const twice = this.rows.filter(({ name }) => name === each.name).length > 1;
    return h("li", {}, h("a", { href: address(each.name, twice ? `?agent=${each.agents[0] ?? ""}` : ""), "data-in": "1", "aria-current": on ? "true" : null },
      icon(mark), h("span", { class: "mono" }, each.name), h("span", { class: "vh" }, `, ${words}`),
      each.state === "disabled" ? h("span", { class: "tag" }, "disabled") : !each.agents.length ? h("span", { class: "tag" }, "unused") : twice && h("span", { class: "tag of" }, "of ", named(each.agents[0]))));
  }

  async show() {
    const [name, fresh] = [chosen(), wanted().get("new")];
    byId("bench").classList.toggle("open", Boolean(name || fresh));
    byId("seen").replaceChildren();
    byId("actions").replaceChildren(this.admin ? h("a", { class: "btn", href: address("", "?new=handoff"), "data-in": "1" }, icon("plus", "small"), "New tool") : "");
    this.editor = null;
    this.list();
    if (fresh && this.admin) return this.#edit(null, fresh);
    if (!name) return this.#nothing();
    const agent = wanted().get("agent");
    const found = this.items.filter((each) => each.name === name);
    const item = found.find((each) => agent && each.agents.includes(agent)) ?? found[0];
    if (!item) return byId("work").replaceChildren(this.#back(), h("div", { class: "nothing" }, h("h2", {}, "There is no such tool"), h("p", {}, `Neither code nor the store declares ${name}.`)));
    return item.origin === "store" ? this.#edit(item) : this.#read(item);
  }

  #back() { return h("a", { class: "back link", href: address(""), "data-in": "1" }, "All tools"); }

  async #edit(item, type) {
    const { ToolEditor } = await import("../tools/editor.js");
    this.editor = new ToolEditor(this, item, type);
    byId("work").replaceChildren(this.#back(), this.editor.element);
    await this.editor.load();
  }

  async #read(item) {
    const { facts, sight, usedBy } = await import("../tools/facts.js");
    byId("work").replaceChildren(this.#back(), facts(item), usedBy(this, item));
    sight([item]);
    if (this.admin && item.type !== "handoff") {
      const { trial } = await import("../tools/trial.js");
      byId("work").append(trial(item));
    }
  }

  #nothing() {
    const kinds = Object.values(TYPES).slice(0, 5).map(([words, mark]) => h("li", {}, icon(mark), words));
    byId("work").replaceChildren(h("div", { class: "nothing" }, h("h2", {}, this.rows.length ? "Choose a tool" : "Tools appear here"), h("p", {}, "What agents can call: functions, requests, SQL functions, the tools of MCP servers, and handoffs to other agents."), h("ul", { class: "kinds" }, kinds), this.admin && h("a", { class: "btn primary", href: address("", "?new=handoff"), "data-in": "1" }, icon("plus", "small"), "New handoff tool")));
  }

  who_has(id) { return h("a", { class: "chip", href: `${root}/agents/${inPath(id)}` }, avatar(id, "small"), named(id)); }
}

try {
  const { who, agents } = await frame();
  const tools = new Tools(who, agents);
  shortcut("/", "Find a tool", () => byId("find").focus());
  await tools.load();
  await tools.show();
} catch (problem) {
  broken(byId("work"), problem, "The tools cannot be read");
}
