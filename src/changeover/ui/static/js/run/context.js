// The context at a step: each variable, what the current hop changed, and the hop that set it.
import { contextOf } from "../events.js";
import { h, keyed } from "../dom.js";
import { value } from "../format.js";
import { avatar, named } from "../team.js";

function row({ name, value: given, change, was, seq, agent, conversation }, { hopAt, go }) {
  const hop = seq && hopAt(seq, agent, conversation);
  const from = agent ? [avatar(agent, "tiny"), named(agent)] : "user";
  return h("tr", { class: change, role: "row" },
    h("th", { scope: "row", role: "rowheader" }, change === "new" && [h("span", { "aria-hidden": "true" }, "+ "), h("span", { class: "vh" }, "new ")], h("bdi", {}, name)),
    h("td", { role: "cell" }, was !== undefined && h("s", {}, value(was)), h("bdi", { class: "val" }, value(given)),
      seq && h("button", { class: "by", type: "button", onclick: () => go(seq) }, h("span", { class: "vh" }, "set by "), from, hop && h("span", { class: "dim" }, ` hop ${hop.column + 1}`))));
}

// Explicit roles: the rows are CSS grids, and a browser no longer takes them for those of a table.
const table = (...kids) => h("table", { role: "table" }, kids);
const list = (title, found) => Object.keys(found).length > 0 && [h("h3", {}, title), table(h("tbody", { role: "rowgroup" }, Object.entries(found).map(([name, each]) => h("tr", { role: "row" }, h("th", { scope: "row", role: "rowheader" }, h("bdi", {}, name)), h("td", { role: "cell" }, h("bdi", { class: "val" }, value(each)))))))];

const same = (some, others) => others && some.every((each, index) => each === others[index]);

// Only rows that a step changes are made again: the event that set a variable is the revision of its row.
export function showContext(box, frame, where) {
  const around = [frame.conversation, frame.agent, frame.artifacts, frame.workflow];
  const shown = [...around, frame.variables, frame.before];
  if (same(shown, box.shown)) return;
  const rows = contextOf(frame).map((each) => ({ ...each, key: each.name, rev: `${each.seq} ${each.change}` }));
  const body = same(around, box.shown) && box.querySelector(".variables tbody");
  box.shown = shown;
  if (body && rows.length) keyed(body, rows, (each) => row(each, where));
  else fill(box, frame, rows, where);
}

function fill(box, frame, rows, where) {
  const body = h("tbody", { role: "rowgroup" });
  keyed(body, rows, (each) => row(each, where));
  box.replaceChildren(...[
    frame.conversation !== where.root && h("p", { class: "meta of" }, "of the delegate ", named(frame.agent)),
    rows.length ? h("div", { class: "variables" }, table(h("caption", { class: "vh" }, "Variables"), body)) : h("p", { class: "meta none" }, "No variables yet: they appear when a caller, a handoff or a tool sets them."),
    list("Artifacts", frame.artifacts), list("Workflow", frame.workflow),
  ].flat().filter(Boolean));
}
