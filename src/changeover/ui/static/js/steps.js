// The steps of a workflow: a graph where the server has placed them, and a table that says how far each one is.
import { course } from "./agents/map.js";
import { now } from "./api.js";
import { h, icon, root, s } from "./dom.js";
import { count, cut, day, left, plural, sentence, took, value } from "./format.js";
import { scrolling } from "./panel.js";
import { avatar, hueOf, nameOf } from "./team.js";

const WORDS = { pending: "waits", compensated: "undone" };
const TONES = { done: "good", failed: "bad", running: "info", compensated: "warn", asks: "warn", retries: "warn" };
const PART = 21; // letters of a name that fit into a box
const SHORT = 90; // letters of an output that are shown unasked

// The state of a step in one word: one that waits for a person, or for its next attempt, is not at work.
export const stateOf = (step, run) => (run.waits_for[step.id] ? "asks" : step.status === "running" && run.next_tries[step.id] > now() ? "retries" : step.status);

const isOver = (run) => !["running", "rolling back"].includes(run.status);

function words(step, run) {
  const state = stateOf(step, run);
  const counted = step.items === null ? "" : `, ${step.items_done} of ${step.items}`;
  return (state === "asks" ? "waits for a person" : state === "retries" ? `next try in ${left(run.next_tries[step.id] - now())}` : state === "pending" && isOver(run) ? "not begun" : WORDS[state] ?? state) + counted;
}

const member = (id) => (id === "a function" ? id : nameOf(id));

function head(points) {
  const [[ax, ay], [bx, by]] = points.slice(-2);
  return s("path", { class: "tip", d: "M-8 -4.5L0 0L-8 4.5z", transform: `translate(${bx} ${by}) rotate(${(Math.atan2(by - ay, bx - ax) * 180) / Math.PI})` });
}

function box(placed, step, run) {
  const { x, y, width, height } = placed.box;
  const state = step ? stateOf(step, run) : "plain";
  const said = step ? words(step, run) : placed.many ? "one for each item" : placed.details.some((each) => each.includes("approval")) ? "after approval" : "";
  return s("g", { class: `step ${state} ${hueOf(placed.member)}`, transform: `translate(${x} ${y})`, "data-step": placed.id },
    placed.many && s("rect", { class: "card behind", x: 4, y: 4, width, height, rx: 9 }),
    s("rect", { class: "card", width, height, rx: 9 }), s("rect", { class: "mark", x: 9, y: 10, width: 4, height: height - 20, rx: 2 }),
    s("text", { class: "name", x: 22, y: 20 }, cut(placed.name, PART)), s("text", { class: "sub", x: 22, y: 36 }, cut(member(placed.member), PART)),
    said && s("text", { class: `state ${TONES[state] ?? ""}`, x: 22, y: 52 }, cut(said, PART + 2)), step?.items ? progress(step, placed.box) : null);
}

// Of a step that runs once for each item: the share of the items that are done.
const progress = ({ items, items_done: done }, { width, height }) =>
  [s("rect", { class: "items", x: 22, y: height - 6, width: width - 34, height: 3, rx: 1.5 }), done > 0 && s("rect", { class: "items-done", x: 22, y: height - 6, width: ((width - 34) * done) / items, height: 3, rx: 1.5 })];

// `run` tells how far the steps are; without it the definition is drawn.
export function graph(map, run = { steps: [] }) {
  const known = new Map(run.steps.map((each) => [each.id, each]));
  const done = (id) => ["done", "compensated"].includes(known.get(id)?.status);
  const label = map.steps.map((each) => `${each.name}${known.has(each.id) ? ` ${words(known.get(each.id), run)}` : ""}`).join(", ");
  const art = s("svg", { class: "flow", width: map.width, height: map.height, viewBox: `0 0 ${map.width} ${map.height}`, role: "img", "aria-label": `Steps: ${label}` },
    map.links.map((each) => s("g", { class: `way ${done(each.source) ? "passed" : ""}` }, s("path", { class: "line", d: course(each.points) }), head(each.points))),
    map.steps.map((each) => box(each, known.get(each.id), run)));
  return h("div", { class: "flowbox", tabindex: 0, role: "group", "aria-label": "Graph of the steps" }, art);
}

// `retry(step, button)` carries a step out again; without it no step has a button.
export function table(run, retry) {
  const heads = ["Step", "Agent", "State", "Attempts", "Began", "Took", "Tokens", "Output", ...(retry ? [h("span", { class: "vh" }, "Retry")] : [])];
  return scrolling("Steps", h("table", { class: "grid" }, h("thead", {}, h("tr", {}, heads.map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, run.steps.map((step) => row(step, run, retry)))));
}

function row(step, run, retry) {
  const tokens = (step.usage.input_tokens ?? 0) + (step.usage.output_tokens ?? 0);
  const said = step.error || (step.output === null ? "" : value(step.output));
  const state = h("span", { class: `pill ${TONES[stateOf(step, run)] ?? ""}` }, h("i", { class: "dot" }), words(step, run));
  const asked = run.waits_for[step.id] && h("a", { class: "btn small", href: `${root}/approvals/${encodeURIComponent(run.waits_for[step.id])}` }, "Decide");
  return h("tr", { "data-step": step.id }, h("th", { scope: "row" }, h("bdi", {}, step.name)), h("td", { class: "text" }, doer(step.agent)),
    h("td", { class: "text" }, h("span", { class: "row" }, state, asked)), h("td", {}, step.attempts ? String(step.attempts) : "–"),
    h("td", {}, step.began ? day(step.began) : "–"), h("td", {}, step.ended && step.began ? took(step.ended - step.began) : "–"), h("td", {}, tokens ? count(tokens) : "–"),
    h("td", { class: `text said ${step.error ? "fault" : ""}` }, tell(step, said)),
    retry && h("td", { class: "text" }, step.attempts ? again(step, retry) : null));
}

const doer = (id) => (id.includes(".") ? h("span", { class: "row soft" }, icon("square-function", "small"), "a function") : h("span", { class: "row" }, avatar(id, "small"), h("bdi", {}, nameOf(id))));

// What a step gave: a short text as it is, anything else opens.
function tell({ error, output }, said) {
  const isText = Boolean(error) || output === null || typeof output !== "object";
  if (isText && said.length <= SHORT) return h("bdi", {}, said);
  const short = isText ? cut(said, SHORT) : Array.isArray(output) ? plural(output.length, "item") : Object.keys(output).join(", ") || "{ }";
  return h("details", {}, h("summary", {}, h("bdi", {}, cut(short, SHORT))), h("pre", {}, isText ? said : JSON.stringify(output, null, 2)));
}

// The step that failed is the one to retry; the others are rarely begun anew, and their button is quiet.
function again(step, retry) {
  const failed = step.status === "failed";
  return h("button", { class: `btn small ${failed ? "primary" : "quiet"}`, type: "button", title: "Carry out this step and all that follow it again", "aria-label": `Retry ${step.name}`, onclick: (event) => retry(step.id, event.currentTarget) }, icon("rotate-ccw", "small"), failed && "Retry");
}

// Scroll the graph, and nothing else, to the step that is at work, waits or has failed.
function reveal(graphBox, run) {
  const at = run.steps.find((each) => ["running", "asks", "retries", "failed"].includes(stateOf(each, run)));
  const placed = at && run.map.steps.find((each) => each.id === at.id);
  if (placed) graphBox.scrollLeft = placed.box.x + (placed.box.width - graphBox.clientWidth) / 2;
}

// The last workflow of a conversation: its graph and its steps, which can be retried once it is over.
export function showSteps(box, run, retry) {
  const standing = JSON.stringify(run);
  if (box.dataset.standing === standing) return;
  const focused = document.activeElement?.closest("[data-step]")?.dataset.step;
  const title = h("a", { href: `${root}/workflows/${encodeURIComponent(run.workflow)}` }, h("bdi", {}, run.name));
  box.replaceChildren(h("section", { class: "panel flowcard", "aria-label": "Workflow" }, h("header", {}, h("h2", {}, "Workflow ", title), run.status === "rolling back" && h("span", { class: "pill warn" }, "undoes what was done")),
    run.error && h("p", { class: "in-panel fault" }, h("bdi", {}, sentence(run.error))), graph(run.map, run), table(run, isOver(run) && retry)));
  [box.dataset.standing, box.hidden] = [standing, false];
  reveal(box.querySelector(".flowbox"), run);
  if (focused) box.querySelector(`[data-step="${CSS.escape(focused)}"] button`)?.focus();
}
