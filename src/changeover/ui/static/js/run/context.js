// The context at a step: each variable, what the current hop changed, and the hop that set it.
import { contextOf } from "../events.js";
import { h } from "../dom.js";
import { plural, value } from "../format.js";
import { avatar, named } from "../team.js";

function row({ name, value: given, change, was, seq, agent, conversation }, { hopAt, go }) {
  const hop = seq && hopAt(seq, agent, conversation);
  const from = agent ? [avatar(agent, "tiny"), named(agent)] : "user";
  return h("tr", { class: change },
    h("th", { scope: "row" }, change === "new" && [h("span", { "aria-hidden": "true" }, "+ "), h("span", { class: "vh" }, "new ")], h("bdi", {}, name)),
    h("td", {}, was !== undefined && h("s", {}, value(was)), h("bdi", { class: "val" }, value(given)),
      seq && h("button", { class: "by", type: "button", onclick: () => go(seq) }, h("span", { class: "vh" }, "set by "), from, hop && h("span", { class: "dim" }, ` hop ${hop.column + 1}`))));
}

const list = (title, found) => Object.keys(found).length > 0 && [h("h3", {}, title), h("table", {}, h("tbody", {}, Object.entries(found).map(([name, each]) => h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, name)), h("td", {}, h("bdi", { class: "val" }, value(each)))))))];

export function showContext(box, frame, where) {
  const shown = [frame.conversation, frame.variables, frame.before, frame.artifacts, frame.workflow];
  if (box.shown && shown.every((each, index) => each === box.shown[index])) return; // the same objects: nothing changed
  box.shown = shown;
  const rows = contextOf(frame);
  box.replaceChildren(...[
    frame.conversation !== where.root && h("p", { class: "meta of" }, "of the delegate ", named(frame.agent)),
    rows.length ? h("table", {}, h("caption", { class: "vh" }, plural(rows.length, "variable")), h("tbody", {}, rows.map((each) => row(each, where)))) : h("p", { class: "meta none" }, "No variables yet: they appear when a caller, a handoff or a tool sets them."),
    list("Artifacts", frame.artifacts), list("Workflow", frame.workflow),
  ].flat().filter(Boolean));
}
