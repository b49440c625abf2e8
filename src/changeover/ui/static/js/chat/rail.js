// The rail: who of the team works now, and the context variables with what the current agent changed.
import { BUSY, contextOf } from "../events.js";
import { inPath } from "../api.js";
import { byId, h, root } from "../dom.js";
import { plural, value } from "../format.js";
import { avatar, hueOf, named } from "../team.js";

function workOf(tree) {
  const working = new Map();
  for (const each of tree.values()) {
    if (each.depth && BUSY.includes(each.status)) working.set(each.agent, (working.get(each.agent) ?? 0) + 1);
  }
  return working;
}

// The standing of the agent that has the conversation: it works, waits for a person, or answers the next message.
const standing = (status) => (status === "waiting" ? "waiting" : BUSY.includes(status) ? "active" : "next");

function member({ id, description }, active, count) {
  const word = active || (count > 1 ? `working, ${count}` : count ? "working" : "");
  return h("li", { class: `${hueOf(id)} ${active ? "on" : ""}` }, avatar(id), h("span", { class: "n" }, named(id)), word && h("span", { class: "st" }, h("i", { class: "dot" }), word), description && h("span", { class: "r" }, description));
}

const row = ({ name, value: given, change, was, agent }) =>
  h("tr", { class: change, title: agent ? `set by ${agent}` : undefined }, h("th", { scope: "row" }, change === "new" && [h("span", { "aria-hidden": "true" }, "+ "), h("span", { class: "vh" }, "new ")], h("bdi", {}, name)), h("td", {}, was !== undefined && h("s", {}, value(was)), h("bdi", {}, value(given))));

export function showRail(agents, tree) {
  const first = tree.values().next().value;
  const working = workOf(tree);
  const shown = JSON.stringify([first?.agent, first?.status, [...working], first?.variables, agents.length]);
  const [team, context] = [byId("team"), byId("context")];
  if (team.dataset.shown === shown) return;
  team.dataset.shown = shown;
  team.replaceChildren(...agents.map((each) => member(each, each.id === first?.agent && standing(first.status), working.get(each.id) ?? 0)));
  byId("run").hidden = !first;
  if (first) byId("run").href = `${root}/runs/${inPath(first.id)}`;
  const rows = first ? contextOf(first) : [];
  byId("known").textContent = rows.length ? String(rows.length) : "";
  context.replaceChildren(rows.length ? h("table", {}, h("caption", { class: "vh" }, plural(rows.length, "variable")), h("tbody", {}, rows.map(row))) : h("p", { class: "meta" }, "Variables that travel with handoffs appear here."));
}
