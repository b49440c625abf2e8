// The items of a transcript as elements: messages, thoughts, tools, handoffs, notes. See delegates.js for branches.
import { BASE, inPath } from "../api.js";
import { h, icon } from "../dom.js";
import { clock, cut, plural, took, value } from "../format.js";
import { markdown, safeHref } from "../markdown.js";
import { avatar, hueOf, named, nameOf } from "../team.js";

const LONGEST = 20000; // characters of a tool's result that are shown

export const details = (at, open, summary, ...body) => h("details", { "data-at": at, open }, summary, ...body);
export const elapsed = (since) => h("span", { class: "t", "data-since": since });
const pairs = (entries) => h("dl", { class: "pairs" }, entries.map(([name, each]) => [h("dt", {}, h("bdi", {}, name)), h("dd", {}, h("bdi", {}, value(each)))]));

// Files that go with an event; the API gives their bytes one by one.
function files(item) {
  if (!item.files.length) return null;
  const home = `${BASE}/conversations/${inPath(item.conversation ?? "")}/files/${item.filesAt ?? item.seq}`;
  return h("ul", { class: "files" }, item.files.map((file, index) => h("li", {}, fileLink(file, item.pending ? null : `${home}/${index}`))));
}

function fileLink({ name, url = "" }, address) {
  const label = [icon("file", "small"), h("bdi", {}, name || url || "file")];
  const href = url ? safeHref(url) : address;
  return href ? h("a", { class: "file", href, download: name || "file", ...(url ? { target: "_blank", rel: "noopener noreferrer" } : {}) }, label) : h("span", { class: "file" }, label);
}

export const message = (agent, at, body, more = "") =>
  h("div", { class: `msg ${hueOf(agent)} ${more}` }, avatar(agent), h("div", { class: "who" }, named(agent), at && h("time", {}, clock(at))), h("div", { class: "txt", dir: "auto" }, body));

// A quiet line that opens: an icon, a name, how long it took.
function step(at, { mark, name, mono, tone = "", live, right }, body) {
  const line = [icon(live ? "loader" : mark, `small ${live ? "spin" : ""}`), h("span", { class: mono ? "mono" : "" }, h("bdi", {}, name)), live && h("span", { class: "running" }, "running"), right];
  if (!body) return h("div", { class: `step ${tone} ${live ? "live" : ""}` }, h("div", { class: "line" }, line));
  return h("div", { class: `step ${tone} ${live ? "live" : ""}` }, details(at, false, h("summary", { class: "line" }, line), h("div", { class: "more" }, body)));
}

const STATES = { failed: ["bad", "failed"], refused: ["bad", "not called"], unknown: ["warn", "outcome unknown"], cancelled: ["", "stopped"] };

function tool(item) {
  const live = item.state === "running";
  const [tone, word] = STATES[item.state] ?? ["", ""];
  const right = live ? elapsed(item.began ?? item.at) : h("span", { class: "t" }, word || took((item.ended ?? item.at) - (item.began ?? item.at)));
  const body = [Object.keys(item.args).length ? pairs(Object.entries(item.args)) : null, item.text ? h("pre", { dir: "auto" }, cut(item.text, LONGEST)) : null, files(item)];
  return step(item.key, { mark: item.skill ? "check" : "wrench", name: item.name, mono: true, tone, live, right }, body.some(Boolean) ? body : null);
}

const thought = (item) =>
  step(item.key, { mark: "brain", name: "Thought", right: h("span", { class: "t" }, item.tokens ? `${item.tokens} tok` : took(Math.max(0, item.at - item.began))) }, h("p", { class: "thought", dir: "auto" }, item.text));

const OFFERS = {
  offered: ["Asking", "offered"],
  accepted: ["Routed to", "accepted"],
  rejected: ["Declined by", "declined"],
  expired: ["No answer from", "timed out"],
  conditional: ["Conditions of", "conditional"],
  failed: ["Failed with", "failed"],
  withdrawn: ["Withdrawn from", "withdrawn"],
};
const STRATEGIES = { full: "Full context", recent: "Recent messages", message_only: "Message only" };

function handoff(item) {
  const [words] = OFFERS[item.state] ?? OFFERS.offered;
  const bad = ["rejected", "expired", "failed"].includes(item.state);
  const names = Object.keys(item.variables);
  const strategy = STRATEGIES[item.strategy] ?? item.strategy;
  const tokens = item.tokensBefore > item.tokens ? `${item.tokensBefore.toLocaleString("en")} → ${item.tokens.toLocaleString("en")} tokens` : `${item.tokens.toLocaleString("en")} tokens`;
  const summary = h("summary", {},
    h("span", { class: "go" }, icon(bad ? "x" : item.state === "offered" ? "hourglass" : "arrow-right-left", "small")),
    h("b", {}, words, " ", named(item.receiver), item.undone && " (rolled back)"),
    h("span", { class: "why", dir: "auto" }, cut((bad || item.state === "conditional" ? item.text : item.why) || "", 200)),
    h("span", { class: "meta" }, item.state === "offered" && item.queued ? "waits for a worker" : names.length > 0 && plural(names.length, "variable")),
    icon("chevron-right", "small turn"));
  const facts = [["from", nameOf(item.sender)], ["by", item.tool || "a rule or code"], ["strategy", `${strategy} · ${tokens}`]];
  if (item.attempt > 1) facts.push(["attempt", item.attempt]);
  if (item.by) facts.push(["accepted by", item.by]);
  if (item.suggested) facts.push(["suggested", nameOf(item.suggested)]);
  if (item.packed) facts.push(["strategy failed", item.packed]);
  return h("details", { class: `hand ${bad ? "refused" : item.state}`, "data-at": item.key }, summary, h("div", { class: "pack" },
    names.length > 0 && pairs(Object.entries(item.variables)),
    item.message && item.message !== item.why && h("p", { class: "said", dir: "auto" }, item.message),
    h("dl", { class: "pairs facts" }, facts.map(([name, each]) => [h("dt", {}, name), h("dd", {}, h("bdi", {}, String(each)))]))));
}

const user = (item) => h("div", { class: `me txt ${item.pending ? "pending" : ""}`, dir: "auto" }, item.text && h("div", { class: "plain" }, item.text), files(item), item.pending && h("span", { class: "meta" }, item.pending));

const note = (item) => h("div", { class: `aside ${item.tone ?? ""}` }, icon(item.tone ? "triangle-alert" : "chevron-right", "small"), h("span", { dir: "auto" }, item.text));

function failure(item, { retry }) {
  if (item.over) return note({ tone: "warn", text: `Failed and tried again: ${item.text}` });
  return h("div", { class: "notice bad failure", role: "group", "aria-label": "The run failed" }, icon("triangle-alert"), h("div", {}, h("p", {}, h("b", {}, "The run failed. "), h("bdi", {}, item.text)), retry && h("button", { class: "btn small", type: "button", onclick: retry }, icon("rotate-ccw", "small"), "Retry the failed step")));
}

export const ITEMS = { user, thought, tool, handoff, note, failure, say: (item) => message(item.agent, item.at, markdown(item.text)) };
