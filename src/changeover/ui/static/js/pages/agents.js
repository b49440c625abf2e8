// Agents: the team as a map or a list, who would get a task, and the team as a document.
import { get, inPath, may, post } from "../api.js";
import { bid } from "../agents/bid.js";
import { legend, TeamMap } from "../agents/map.js";
import { byId, h, icon, root } from "../dom.js";
import { broken, complain, frame, shortcut } from "../frame.js";
import { plural } from "../format.js";
import { live } from "../live.js";
import { avatar, named, nameOf } from "../team.js";

const view = () => (new URLSearchParams(location.search).get("show") === "list" ? "list" : "map");
const KINDS = { function: "Function", person: "Person", other: "Not in this team" };
const counted = ({ length }, one) => h("td", { class: length ? "" : "none" }, length ? plural(length, one) : "–");
const link = (id) => `${root}/agents/${inPath(id)}`;

class Agents {
  constructor(who) {
    Object.assign(this, { admin: may(who, "admin"), items: [], map: null });
    byId("find").addEventListener("input", () => (view() === "list" ? this.draw() : this.list()));
    addEventListener("popstate", () => this.draw());
    const button = (words, mark, act) => h("button", { class: "btn square", type: "button", title: words, "aria-label": words, onclick: () => import("../agents/exchange.js").then(act) }, icon(mark, "small"));
    byId("actions").append(button("Export", "download", (it) => it.showExport()), ...(this.admin ? [button("Import", "upload", (it) => it.showImport(() => location.reload())), h("a", { class: "btn primary", href: link("").replace(/\/$/, "/?new") }, icon("plus", "small"), h("span", { class: "lbl" }, "New agent"))] : []));
    let begun = false;
    live.watch("declarations", (said) => {
      if (said.kind !== "snapshot" || begun) this.load().catch(complain);
      begun = true;
    });
  }

  async load() {
    const [agents, graph, rules, version] = await Promise.all(["/agents", "/graph", "/rules", "/version"].map(get));
    Object.assign(this, { items: agents.items.filter((each) => !each.removed), graph, rules: rules.items });
    byId("count").textContent = `Team “${version.team}”, ${plural(this.items.length, "member")}`;
    byId("shelf").removeAttribute("aria-busy");
    complain();
    if (!byId("bid").childElementCount) byId("bid").replaceChildren(...bid(this.items));
    this.draw();
  }

  draw() {
    byId("tabs").replaceChildren(...[["map", "Map"], ["list", "List"]].map(([name, words]) => h("a", { href: `?show=${name}`, "aria-current": view() === name ? "page" : null, onclick: (event) => (event.preventDefault(), history.pushState({}, "", `?show=${name}`), this.draw()) }, words)));
    byId("crew").classList.toggle("listed", view() === "list");
    this.list();
    if (!this.items.length) return byId("stage").replaceChildren(nothing(this.admin));
    if (view() === "list") return byId("stage").replaceChildren(this.table(), this.rulebook());
    this.map = new TeamMap(this.graph, this.rules);
    return byId("stage").replaceChildren(legend(), this.map.element, this.rulebook());
  }

  get find() { return byId("find").value.trim().toLowerCase(); }
  get found() { return this.items.filter(({ id, profile }) => `${id} ${profile.name ?? ""} ${profile.description ?? ""} ${profile.capabilities ?? ""}`.toLowerCase().includes(this.find)); }

  list() {
    const { found } = this;
    byId("shelf").replaceChildren(found.length ? h("ul", { class: "people" }, found.map((each) => this.#row(each))) : h("p", { class: "quiet" }, this.find ? "No agent fits." : ""));
  }

  lost(id) { return this.graph.members.some((each) => each.place.id === id && !each.reachable) && !this.rules.some((each) => each.goto === id); }

  #row(each) {
    const about = !each.enabled ? "disabled" : this.lost(each.id) ? "No handoff leads to it" : KINDS[each.kind] ?? (each.model || "team's model");
    return h("li", {}, h("a", { href: link(each.id), onpointerenter: () => this.map?.light(each.id) }, avatar(each.id, each.kind === "person" ? "round" : ""), h("span", { class: "two" }, h("b", {}, named(each.id)), h("span", { class: `meta ${this.lost(each.id) || !each.enabled ? "warn" : ""}` }, about)), h("span", { class: "tag" }, each.start ? "start" : each.version ? `v${each.version}` : "code")),
      view() === "map" && h("button", { class: "btn quiet square", type: "button", "aria-label": `Show ${nameOf(each.id)} on the map`, onclick: () => this.map.show(each.id) }, icon("search", "small")));
  }

  table() {
    const cells = (each) => [h("td", {}, h("a", { class: "row", href: link(each.id) }, avatar(each.id, "small"), h("b", {}, named(each.id)))), h("td", { class: "about" }, each.profile.description || each.profile.specialization || ""), h("td", {}, each.model ? h("span", { class: "mono" }, each.model) : KINDS[each.kind] ?? h("span", { class: "dim" }, "team's model")), counted(each.tools, "tool"), counted(each.receivers, "receiver"), h("td", {}, each.version ? `store, v${each.version}` : "code"), h("td", {}, this.#switch(each))];
    return h("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "List of agents" }, h("table", { class: "grid" }, h("thead", {}, h("tr", {}, ["Agent", "For", "Model", "Tools", "Hands to", "Declared in", "State"].map((each) => h("th", { scope: "col" }, each)))), h("tbody", {}, this.found.map((each) => h("tr", {}, cells(each))))));
  }

  #switch(each) {
    const words = h("span", { class: `pill ${each.enabled ? "completed" : "waiting"}` }, each.enabled ? "enabled" : "disabled");
    if (!this.admin) return words;
    const turn = () => post(`/agents/${inPath(each.id)}/${each.enabled ? "disable" : "enable"}`).then(() => this.load(), complain);
    return h("span", { class: "row" }, words, h("button", { class: "btn small", type: "button", "aria-label": `${each.enabled ? "Disable" : "Enable"} ${nameOf(each.id)}`, onclick: turn }, each.enabled ? "Disable" : "Enable"));
  }

  rulebook() {
    const effect = (each) => each.goto ? ["goes to ", h("b", {}, named(each.goto))] : each.end ? [`ends with “${each.end}”`] : each.deny ? [`hands nothing over: ${each.deny}`] : ["needs approval"];
    return h("ul", { class: "rulebook", "aria-label": "Rules", hidden: !this.rules.length }, this.rules.map((each) => h("li", {}, h("span", { class: "tag" }, "rule"), h("span", {}, `When ${each.condition}, the conversation${each.agents.length ? ` of ${each.agents.map(nameOf).join(", ")}` : ""} `, effect(each), each.approval && each.goto ? " after approval" : "", "."))));
  }
}

const nothing = (admin) => h("div", { class: "nothing" }, icon("bot"), h("h2", {}, "The team appears here"), h("p", {}, "Who can hand work to whom, by which tool, and when. Declare agents here, in code, or in a YAML file."), admin && h("a", { class: "btn primary", href: `${root}/agents/?new` }, icon("plus", "small"), "New agent"));

try {
  const { who } = await frame();
  const agents = new Agents(who);
  shortcut("/", "Find an agent", () => byId("find").focus());
  await agents.load();
} catch (problem) {
  broken(byId("stage"), problem, "The team cannot be read");
}
