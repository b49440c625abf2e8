// Delegates: a card with one line for each branch, which fills in while they work; branches nest.
import { h, icon } from "../dom.js";
import { cut, plural, took } from "../format.js";
import { avatar, hueOf, named } from "../team.js";
import { details, elapsed } from "./items.js";

const OVER = { returned: ["good", "check", "back"], failed: ["bad", "x", "failed"], rejected: ["bad", "ban", "declined"], expired: ["bad", "hourglass", "too late"], cancelled: ["", "x", "stopped"] };
const MOST = 12; // branches that are shown before a person opens the others

const isOver = (branch) => branch.state in OVER;
const items = (branch) => branch.script?.shown ?? [];
const waits = (branch) => items(branch).some((each) => (each.kind === "approval" && each.state === "waiting") || (each.kind === "delegates" && each.branches.some(waits)));

function status(branch) {
  if (isOver(branch)) {
    const [tone, mark, word] = OVER[branch.state];
    return h("span", { class: `st ${tone}` }, icon(mark, "small"), word);
  }
  if (waits(branch)) return h("span", { class: "st warn" }, icon("hourglass", "small"), "waits for a person");
  return h("span", { class: "st running" }, h("i", { class: "dot pulse" }), branch.state === "offered" ? "asked" : "working");
}

const timer = (branch) => (isOver(branch) ? h("span", { class: "t" }, took((branch.ended ?? branch.began) - branch.began)) : elapsed(branch.began));

function line(branch, opens) {
  return [avatar(branch.receiver, "small"), h("b", {}, named(branch.receiver)), h("span", { class: "task", dir: "auto" }, cut(branch.task, 300)), status(branch), timer(branch), opens && icon("chevron-right", "small turn")];
}

function branchOf(branch, show) {
  const inner = items(branch).filter((each) => each.kind !== "say" || !isOver(branch) || each.text !== branch.text);
  const answer = isOver(branch) && branch.text && h("p", { class: "res", dir: "auto" }, cut(branch.text, 600));
  const body = inner.length > 0 && h("div", { class: "inner" }, inner.map(show));
  const open = !isOver(branch) || waits(branch);
  const box = body ? details(branch.call, open, h("summary", { class: "dl" }, line(branch, true)), body) : h("div", { class: "dl" }, line(branch));
  return h("li", { class: hueOf(branch.receiver) }, box, answer);
}

export function delegates(item, show) {
  const back = item.branches.filter(isOver).length;
  const all = item.branches.length;
  const began = Math.min(...item.branches.map((each) => each.began));
  const last = Math.max(...item.branches.map((each) => each.ended ?? 0));
  const rows = item.branches.map((each) => branchOf(each, show));
  return h("div", { class: "deleg", role: "group", "aria-label": "Delegates" },
    h("header", {}, icon("split"), h("b", {}, all > 1 ? `${all} delegates in parallel` : "1 delegate"), h("span", { class: "meta" }, back === all ? "all back" : `${back} of ${all} back`),
      back === all ? h("span", { class: "t" }, took(last - began)) : elapsed(began)),
    h("ul", {}, rows.slice(0, MOST)),
    rows.length > MOST && details(`${item.key} rest`, false, h("summary", { class: "further" }, `${plural(rows.length - MOST, "more delegate")}`), h("ul", {}, rows.slice(MOST))));
}
