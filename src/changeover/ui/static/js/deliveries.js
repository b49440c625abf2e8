// Deliveries: what each subscriber did with an event, on the pages of the bus and of schedules.
import { inPath, now } from "./api.js";
import { h, icon, root } from "./dom.js";
import { cut, day, plural } from "./format.js";
import { avatar, hueOf, named } from "./team.js";

const TONES = { done: "good", waiting: "info", dead: "bad" };
const ICONS = { specialist: "split", workflow: "workflow", webhook: "globe", event: "radio", function: "square-function" };

export const state = (each) => h("span", { class: `pill ${each.state === "waiting" && each.attempts > 1 ? "warn" : TONES[each.state]}` }, each.state === "dead" ? "dead letter" : each.state);

// A sign for the target of a subscription: an agent by its letter and colour, others by their kind.
export const sign = (kind, to) => (kind === "agent" ? avatar(to, "small") : icon(ICONS[kind], "small"));

// The target of a subscription with its name: an agent in its colour, others with their kind.
export const target = (kind, to) => (kind === "agent" ? h("span", { class: `row ${hueOf(to)}` }, avatar(to, "small"), named(to)) : h("span", { class: "row" }, icon(ICONS[kind], "small"), h("span", { class: "vh" }, `${kind} `), h("bdi", {}, to)));

export const runLink = (id) => h("a", { class: "to-run", href: `${root}/runs/${inPath(id)}` }, icon("arrow-right-left", "small"), "Open the run");

function words(each) {
  if (each.error) return h("span", { class: each.state === "dead" ? "bad" : "meta" }, cut(each.error, 300), each.state === "waiting" && `; next try ${each.due_at > now() ? day(each.due_at) : "now"}`);
  if (each.started) return runLink(each.started);
  return h("span", { class: "meta" }, each.state === "done" ? "handled" : "not tried yet");
}

export const deliveries = (event, act = () => null) =>
  h("ul", { class: "deliveries" }, event.deliveries.length ? event.deliveries.map((each) => h("li", {}, h("b", {}, h("bdi", {}, each.subscriber)), state(each), words(each), h("span", { class: "meta" }, each.attempts ? plural(each.attempts, "attempt") : ""), act(each))) : h("li", { class: "meta" }, "No subscriber wanted it."));
