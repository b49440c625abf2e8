// A request to a person within the chat: the sentence, the arguments and the decision; afterwards who decided.
import { h, icon } from "../dom.js";
import { clock, listed, value } from "../format.js";
import { mayDecide, RequestForm, summaryOf, verdictWords } from "../request.js";
import { hueOf, named } from "../team.js";

// `record` is the request in the list of approvals; without it nothing can be decided yet.
export function requestCard(item, record, { who, agents }) {
  const known = record ?? { ...item, id: item.key, kind: item.request, arguments: item.args };
  const title = h("p", { class: "sum", dir: "auto" }, icon("shield-check"), h("b", {}, summaryOf(known)));
  return item.state === "waiting" ? open(item, known, title, record && mayDecide(who, record), agents) : decided(item, title);
}

function open(item, record, title, allowed, agents) {
  const form = new RequestForm(record, { agents, allowed, compact: true });
  const waits = h("p", { class: "meta" }, named(item.agent), " waits for your decision", record.expires_at && [" for ", h("span", { "data-until": record.expires_at })]);
  return h("div", { role: "group", class: `ask ${hueOf(item.agent)}`, "aria-label": "Request to a person" }, title,
    item.rule && h("p", { class: "meta" }, `The rule ${item.rule} asks for a person.`),
    item.receiver && item.message && h("p", { class: "soft", dir: "auto" }, item.message), form.element, waits);
}

function decided(item, title) {
  const { note, text, receiver, arguments: edited } = item.decision ?? {};
  const words = [verdictWords(item), item.decidedAt && `, ${clock(item.decidedAt)}`, receiver && [", to ", named(receiver)], note && `: ${note}`];
  return h("div", { role: "group", class: "ask done", "aria-label": "Request to a person" }, title, pairs(edited ?? item.args, item.args), h("p", { class: "meta" }, words), text && h("p", { class: "meta", dir: "auto" }, text));
}

function pairs(given, before) {
  const old = (name) => before[name] !== undefined && value(before[name]) !== value(given[name]) && h("s", {}, listed(before[name]));
  const rows = Object.keys(given).map((name) => [h("dt", {}, h("bdi", {}, name)), h("dd", {}, old(name), h("bdi", {}, listed(given[name])))]);
  return rows.length > 0 && h("dl", { class: "pairs" }, rows);
}
