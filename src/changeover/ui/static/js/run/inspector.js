// The inspector: a handoff, a model turn or a tool call in full, beside the chain.
import { get, inPath, may, post } from "../api.js";
import { byId, h, icon } from "../dom.js";
import { cut, plural, took, value } from "../format.js";
import { avatar, named, nameOf } from "../team.js";

const STATES = {
  handoff_offered: ["PENDING", (d) => `offered by ${nameOf(d.sender)}`],
  handoff_accepted: ["ACCEPTED", (d) => `by ${nameOf(d.by || d.receiver)}`],
  handoff_rejected: ["REJECTED", (d) => `by ${nameOf(d.by || d.receiver)}`],
  circuit_found: ["REJECTED", () => "its circuit is open"],
  handoff_conditional: ["PENDING", (d) => `needs ${[...(d.needs_context ?? []), ...(d.needs_permission ?? [])].join(", ")}`],
  handoff_expired: ["TIMEOUT", (d) => d.reason],
  handoff_returned: [(d) => (d.success ? "COMPLETE" : d.cancelled ? "RETURNED" : "FAILED"), (d) => `by ${nameOf(d.by || d.receiver)}`],
  rollback_requested: ["", (d) => `rollback asked for${d.by ? ` by ${d.by}` : ""}`],
  handoff_rolled_back: ["RETURNED", (d) => `rolled back${d.by ? ` by ${d.by}` : ""}`],
  fell_back: ["FAILED", (d) => d.reason],
  ticket_taken: ["WORKING", (d) => `claimed by ${d.by}`],
  ticket_lapsed: ["PENDING", (d) => d.reason],
};
const LOST = ["REJECTED", "FAILED", "TIMEOUT"];
const TONES = { accepted: "completed", returned: "completed", offered: "waiting", rejected: "failed", refused: "failed", failed: "failed", expired: "failed" };
const WORDS = { accepted: "Accepted", returned: "Came back", offered: "Offered", rejected: "Rejected", refused: "Refused", failed: "Failed", expired: "Timed out", cancelled: "Cancelled" };

const STRATEGIES = { full: "in full", recent: "the last messages", summary: "a summary", message_only: "the message only", reference: "a reference" };
const spaced = (name) => name.replace(/([a-z])([A-Z])/g, (_, end, begin) => `${end} ${begin.toLowerCase()}`); // the class of a guard

const section = (title, ...kids) => h("section", {}, h("h3", {}, title), kids);
const pairs = (entries) => h("dl", { class: "pairs" }, entries.filter(([, each]) => each !== undefined && each !== null && each !== "").map(([name, each]) => [h("dt", {}, h("bdi", {}, name)), h("dd", {}, h("bdi", {}, value(each)))]));
const text = (words) => h("pre", { class: "text", tabindex: 0 }, h("bdi", {}, words));
const stamp = (at) => new Date(at * 1000).toLocaleTimeString(undefined, { hour12: false, hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
const about = ({ data, conversation }, id) => data.call !== undefined && (`${conversation}:${data.call}` === id || `${conversation}:${data.call}`.startsWith(`${id}=`)) || data.ticket === id;

// What the model was sent; script and prompt are read when the section is opened.
function promptOf({ conversation, seq }) {
  const body = h("div", { class: "prompt" }, h("p", { class: "quiet" }, "Loading…"));
  const load = async () => {
    try {
      const [{ promptParts }, prompt] = await Promise.all([import("./prompt.js"), get(`/conversations/${inPath(conversation)}/prompts/${seq}`)]);
      body.replaceChildren(...promptParts(prompt).flat().filter(Boolean));
    } catch (problem) {
      body.replaceChildren(h("p", { class: "fault", role: "alert" }, problem.message));
    }
  };
  const box = h("details", { class: "promptbox", ontoggle: () => box.open && !box.dataset.asked && ((box.dataset.asked = "1"), load()) }, h("summary", {}, "What the model was sent", h("span", { class: "pill" }, "rebuilt")), body);
  return box;
}

export class Inspector {
  constructor({ page, who, done }) {
    Object.assign(this, { page, who, done, box: byId("inspector") });
  }

  close() {
    this.box.hidden = true;
    this.shown = null;
    this.done();
  }

  #open(title, head, ...parts) {
    const first = this.box.hidden;
    this.box.hidden = false;
    const shut = h("button", { class: "btn quiet square", type: "button", onclick: () => this.close() }, icon("x"), h("span", { class: "vh" }, "Close"));
    this.box.replaceChildren(h("header", {}, h("h2", {}, title), h("span", { class: "grow" }), shut), head, ...parts.flat().filter(Boolean));
    if (first) this.box.focus({ preventScroll: true });
  }

  // A span of the timeline.
  span(span) {
    this.shown = { span };
    if (span.handoff) return this.handoff(span.handoff);
    const [event] = span.events;
    const lasted = span.to === null ? "under way" : `${took(span.to - span.from)}, began ${stamp(span.from)}`;
    const head = h("div", { class: "inhead" }, h("p", { class: "row" }, span.agent && avatar(span.agent, "small"), h("b", {}, span.agent ? named(span.agent) : h("bdi", {}, span.user ?? ""))), h("p", { class: "meta" }, `step ${this.page.stepOf(span.until) + 1} · ${lasted}`));
    const parts = { model: () => this.#model(event, span), tools: () => this.#tool(span), people: () => this.#request(event, span) }[span.kind]?.() ?? [section("What happened", text(span.label))];
    return this.#open({ model: "Model turn", tools: "Tool call", people: "Request to a person" }[span.kind] ?? "Event", head, ...parts, raw(span.events));
  }

  #model(event, span) {
    const { text: said, thinking, calls = [], usage, reason } = event.data;
    return [
      reason && section("Failure", text(reason)),
      thinking && section("Thoughts", text(thinking)),
      said && section("Reply", text(said)),
      calls.length > 0 && section(plural(calls.length, "call"), calls.map(({ name, args = {} }) => h("div", { class: "call" }, h("b", { class: "mono" }, h("bdi", {}, name)), pairs(Object.entries(args))))),
      usage && section("Tokens", pairs([["read", usage.input_tokens ?? 0], ["written", usage.output_tokens ?? 0], ["cost", usage.cost < 0.1 ? `${Number((100 * usage.cost).toPrecision(2))} ct` : `$${(usage.cost ?? 0).toFixed(2)}`]])),
      ["model_replied", "model_failed"].includes(event.type) && promptOf(event),
    ];
  }

  #tool(span) {
    const { call, answer, bad, label } = span;
    return [section(call?.name ?? label, call && pairs(Object.entries(call.args ?? {}))), section(bad ? "Error" : "Result", text(answer ?? (bad ? label : "")))];
  }

  #request({ data }, { answer, by, to }) {
    const decided = to === null ? "No person has decided yet." : `${answer ?? "No longer needed"}${by ? ` by ${by}` : ""}`;
    return [section("Asked", data.message && text(data.message), pairs([["tool", data.tool], ["receiver", data.receiver], ...Object.entries(data.arguments ?? {})])), section("Decision", h("p", {}, h("bdi", {}, decided)))];
  }

  handoff(id) {
    this.shown = { handoff: id };
    const events = this.page.film.events.filter((event) => about(event, id));
    const edge = this.page.edge(id);
    const record = this.page.records.get(id);
    const offer = events.find(({ type }) => type === "handoff_offered");
    const d = offer?.data ?? { sender: record?.sender ?? "", receiver: edge?.target ?? "", ...(events[0]?.data ?? {}) };
    const state = edge?.state ?? "offered";
    const head = h("div", { class: "inhead" },
      h("p", { class: "row" }, d.sender && [avatar(d.sender, "small"), h("b", {}, named(d.sender)), icon("arrow-right", "small go")], avatar(d.receiver, "small"), h("b", {}, named(d.receiver)), h("span", { class: "grow" }), h("span", { class: `pill ${TONES[state] ?? ""}` }, h("i", { class: "dot" }), WORDS[state] ?? state)),
      h("p", { class: "meta" }, `${d.mode ?? "transfer"}${record?.tool ? " by " : ""}`, record?.tool && h("span", { class: "mono" }, h("bdi", {}, record.tool)), d.attempt > 1 || edge?.attempt > 1 ? `, attempt ${d.attempt}` : ""));
    this.#open(h("span", {}, "Handoff ", h("span", { class: "mono dim" }, h("bdi", {}, id))), head, this.#answer(events, offer, edge), offer && this.#package(d, record), this.#guards(events, state), offer && this.#strategy(d, events), this.#states(events, offer), this.#result(events), this.#rollback(id, state, record), raw(events));
  }

  #answer(events, offer, edge) {
    const answer = events.find(({ type }) => ["handoff_accepted", "handoff_rejected", "handoff_expired", "circuit_found", "call_refused"].includes(type));
    if (!answer) return section("Answer", h("p", {}, "There is no answer yet."));
    const { reason = "", suggested, estimate } = answer.data;
    const after = offer ? ` after ${took(answer.at - offer.at)}` : "";
    const good = answer.type === "handoff_accepted";
    const word = { handoff_accepted: "Accepted", handoff_rejected: "Rejected", circuit_found: "Rejected", handoff_expired: "Timed out", call_refused: "Refused" }[answer.type];
    const said = reason || (good ? "" : edge?.reason ?? "");
    return section("Answer", h("div", { class: `notice ${good ? "fine" : "bad"}` }, icon(good ? "circle-check" : "circle-x"), h("p", {}, h("b", {}, word), after, said && [": ", h("bdi", {}, said)], suggested && [h("br"), "Suggested instead: ", h("b", {}, named(suggested))], estimate && [h("br"), `It expects to need ${took(estimate)}.`])));
  }

  #package(d, record) {
    const expects = d.expected && (d.expected.schema && Object.keys(d.expected.schema).length ? d.expected.schema : (d.expected.criteria ?? []).join("; "));
    return section("Package", pairs([["task", d.message], ["reason", d.reason], ...Object.entries(d.variables ?? record?.variables ?? {}), ["instructions", d.instructions], ["background", d.about], ["priority", d.priority], ["capability", d.capability], ["expects", expects], ["or else", d.alternatives?.map(nameOf).join(", ")], ["left out", d.dropped?.join(", ")], ["merge", d.merge === "replace" ? "replaces the context" : ""]]));
  }

  // What the log says about guards, rules, people and circuits; an offer exists only if every guard allowed it.
  #guards(events, state) {
    const line = (good, name, words) => h("li", { class: good ? "" : "bad" }, icon(good ? "check" : "x", "small"), h("b", {}, h("bdi", {}, name)), h("span", {}, h("bdi", {}, words)));
    const { guards = [] } = this.page;
    const refusal = events.find(({ type, data }) => type === "call_refused" && data.why !== "declined");
    const offered = events.some(({ type }) => type === "handoff_offered");
    const found = [
      ...(offered ? guards.map((name) => line(true, spaced(name), "allowed")) : refusal ? [line(false, guards.length && refusal.data.why === "guard" ? "guard" : refusal.data.why, refusal.data.reason)] : []),
      ...events.filter(({ type }) => type === "circuit_found").map(({ data }) => line(false, "Circuit breaker", `open after ${plural(data.failures, "failure")}`)),
      ...events.filter(({ type }) => type === "rule_fired").map(({ data }) => line(!data.reason, data.rule, data.reason || "a person is asked")),
      ...events.filter(({ type }) => type === "approval_decided").map(({ data }) => line(data.decision?.type !== "reject", "approval", `${data.decision?.type}${data.by ? ` by ${data.by}` : data.expired ? ", no person decided in time" : ""}`)),
    ];
    return found.length > 0 && section("Guards", h("ul", { class: "guards" }, found));
  }

  #strategy(d, events) {
    const packed = events.find(({ type }) => type === "context_packed")?.data;
    const [before, after] = [d.before ?? 0, packed?.after ?? d.after ?? 0];
    const most = Math.max(before, after, 1);
    const bar = (count, words, more) => h("div", { class: `weigh ${more}` }, h("span", { class: "mono" }, count.toLocaleString("en")), h("meter", { min: 0, max: most, value: count, "aria-label": `Tokens: ${words}` }), h("span", { class: "meta" }, words));
    const less = before > 0 && after < before ? `sent, ${Math.round(100 * (1 - after / before))} % less` : "tokens sent";
    const strategy = packed?.strategy ?? d.strategy ?? "full";
    return section(`Context: ${STRATEGIES[strategy] ?? strategy}`, before || after ? [bar(before, "tokens before", "was"), bar(after, less, "is")] : h("p", { class: "meta" }, "The tokens were not counted."), packed?.error && h("p", { class: "fault" }, packed.error), packed?.briefing && h("details", {}, h("summary", {}, "Briefing"), text(packed.briefing)));
  }

  #states(events, offer) {
    const rows = events.filter(({ type }) => STATES[type]).map(({ type, data, at, seq }) => {
      const [name, words] = STATES[type];
      const state = typeof name === "function" ? name(data) : name;
      return h("li", { class: LOST.includes(state) ? "bad" : state === "PENDING" ? "" : "on" }, h("i", { class: "dot" }), h("button", { class: "mono", type: "button", onclick: () => this.page.goTo(seq) }, state || "·"), h("span", {}, h("bdi", {}, cut(words(data), 60))), h("time", { class: "mono" }, stamp(at)));
    });
    const next = offer && this.page.film.events.find(({ type, data }) => type === "handoff_offered" && data.retry_of === `${offer.conversation}:${offer.data.call}`);
    if (next) rows.push(h("li", { class: "on" }, h("i", { class: "dot" }), h("button", { class: "link mono", type: "button", onclick: () => this.page.choose(`${next.conversation}:${next.data.call}`) }, "NEXT"), h("span", {}, `attempt ${next.data.attempt}, `, named(next.data.receiver)), h("time", { class: "mono" }, stamp(next.at))));
    return rows.length > 0 && section("States", h("ol", { class: "states" }, rows));
  }

  #result(events) {
    const back = events.find(({ type }) => type === "handoff_returned")?.data;
    return back && section(back.success ? "Result" : "Failure", text(back.success ? back.response ?? "" : back.error ?? ""), h("p", { class: "meta" }, `${plural(back.iterations ?? 0, "reply", "replies")}, ${plural(back.tool_calls ?? 0, "tool call")}, ${took(back.duration ?? 0)}`));
  }

  #rollback(id, state, record) {
    if (!may(this.who, "operator") || !["accepted", "offered"].includes(state) || !record || record.state === "RETURNED") return null;
    const fault = h("p", { class: "fault", role: "alert", hidden: true });
    const reason = h("input", { class: "in", placeholder: "Why (optional)", "aria-label": "Reason" });
    const act = async (event) => {
      event.preventDefault();
      try {
        await post(`/handoffs/${inPath(id)}/rollback`, { reason: reason.value.trim() });
        await this.page.refresh();
        this.handoff(id);
      } catch (problem) {
        fault.textContent = problem.message;
        fault.hidden = false;
      }
    };
    return h("details", { class: "undo" }, h("summary", { class: "btn" }, icon("undo-2", "small"), "Roll back"), h("form", { onsubmit: act }, h("p", { class: "meta" }, `The task goes back to ${nameOf(record.sender)}.`), reason, h("button", { class: "btn primary", type: "submit" }, "Roll this handoff back"), fault));
  }
}

const raw = (events) => {
  const body = h("pre", { class: "text", tabindex: 0 });
  const box = h("details", { class: "rawbox", ontoggle: () => box.open && (body.textContent = JSON.stringify(events, null, 2)) }, h("summary", {}, plural(events.length, "raw event")), body);
  return events.length > 0 && box;
};
