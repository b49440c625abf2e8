// The rows of the timeline: what took how long. Pure functions of events and of the names of agents.
// A span is {key, kind, agent, label, from, to, seq, until, depth, bad, inside, handoff, events}: `seq` is the event that it
// appears with, `until` the last one that it is about; kind is model, tools, handoffs, people or other.
import { callOf } from "../events.js";
import { nameOf } from "../team.js";

class Log {
  spans = [];
  #open = new Map(); // calls, offers and requests that have no end yet
  #positions = new Map();
  #since = new Map(); // conversation → when its agent began to wait for a reply
  #parents = new Map(); // conversation → the span of the delegate that works in it

  add(event) {
    const { conversation: c, data } = event;
    this.#positions.set(c, (this.#positions.get(c) ?? -1) + 1);
    this.position = this.#positions.get(c);
    STEPS[event.type]?.(this, event, data, c);
  }

  span(event, kind, label, more = {}) {
    const inside = this.#parents.get(event.conversation);
    const made = { key: `${event.seq}${more.part ?? ""}`, kind, agent: event.agent, label, from: event.at, to: event.at, seq: event.seq, until: event.seq, depth: inside ? inside.depth + 1 : 0, bad: false, events: [event], inside, ...more };
    this.spans.push(made);
    return made;
  }

  begin(key, span) {
    this.#open.set(key, span);
    span.to = null;
    return span;
  }

  find(key) {
    return this.#open.get(key);
  }

  end(key, event, more = {}) {
    const span = this.#open.get(key);
    if (!span) return undefined;
    if (span.to === null) span.to = event.at;
    Object.assign(span, { until: event.seq, ...more });
    span.events.push(event);
    return span;
  }

  enter(conversation, span) {
    this.#parents.set(conversation, span);
  }

  since(c, at) {
    if (at !== undefined) this.#since.set(c, at);
    return this.#since.get(c);
  }

  // End the open spans of a run that ends.
  close(c, event) {
    for (const [key, span] of this.#open) if (key.startsWith(`${c}:`) && span.to === null) this.end(key, event, { ended: true });
  }
}

const point = (kind, words, bad = false) => (log, event, d) => log.span(event, kind, words(d), { bad });

const STEPS = {
  user_spoke: (log, e, d) => !d.given && log.span(e, "other", d.package ? "a package" : d.text, { agent: "", user: d.user || "User" }),
  run_started: (log, e, d, c) => log.since(c, e.at),
  run_resumed: (log, e, d, c) => log.since(c, e.at),
  model_replied(log, e, d, c) {
    log.span(e, "model", "model turn", { agent: d.agent, from: d.began || log.since(c) || e.at, said: d.text, tokens: d.usage });
    (d.calls ?? []).forEach((call, index) => log.begin(`${c}:${log.position}.${index}`, { key: "", call, from: e.at, events: [e], agent: d.agent }));
    log.since(c, e.at);
  },
  model_failed(log, e, d, c) {
    log.span(e, "model", `model call failed: ${d.reason}`, { agent: d.agent, from: log.since(c) || e.at, bad: true });
    log.since(c, d.retry_at ?? e.at);
  },
  function_returned: (log, e, d, c) => log.span(e, "tools", "answers", { agent: d.agent, from: log.since(c) || e.at }),
  function_failed: (log, e, d, c) => log.span(e, "tools", `failed: ${d.reason}`, { agent: d.agent, from: log.since(c) || e.at, bad: true }),
  tool_started: (log, e, d, c) => Object.assign(log.find(`${c}:${d.call}`) ?? {}, { from: e.at }),
  tool_finished(log, e, d, c) {
    const open = log.find(`${c}:${d.call}`);
    log.span(e, "tools", open?.call?.name ?? "a tool", { from: d.began || open?.from || e.at, bad: d.ok === false, call: open?.call, answer: d.text });
    log.since(c, e.at);
  },
  skill_loaded(log, e, d, c) {
    log.span(e, "tools", `loads the skill ${d.skill}`, { from: log.find(`${c}:${d.call}`)?.from ?? e.at });
    log.since(c, e.at);
  },
  call_refused(log, e, d, c) {
    const offered = log.find(`${c}:offer ${callOf(d.call)}`);
    if (offered) return log.end(`${c}:offer ${callOf(d.call)}`, e, { bad: true });
    const call = log.find(`${c}:${callOf(d.call)}`)?.call;
    log.since(c, e.at);
    return log.span(e, d.receiver ? "handoffs" : "tools", `${d.receiver ? `handoff to ${nameOf(d.receiver)}` : call?.name ?? "call"} refused: ${d.reason}`, { bad: true, call, handoff: d.receiver ? `${c}:${d.call}` : undefined });
  },
  approval_requested: (log, e, d, c) => log.begin(`${c}:ask ${d.call}`, log.span(e, "people", d.receiver ? `waits: may ${nameOf(d.agent)} hand over to ${nameOf(d.receiver)}?` : d.tool ? `waits: may it call ${d.tool}?` : "waits for a person", { agent: d.agent || e.agent, waits: true })),
  approval_decided: (log, e, d, c) => log.end(`${c}:ask ${d.call}`, e, { answer: d.decision?.type, bad: d.decision?.type === "reject", by: d.by }),
  handoff_offered(log, e, d, c) {
    const delegate = d.mode === "delegate";
    const span = log.span(e, "handoffs", delegate ? d.message || "a task" : `routed to ${nameOf(d.receiver)}`, { agent: delegate ? d.receiver : d.sender, to: null, handoff: `${c}:${d.call}`, delegate, receiver: d.receiver });
    log.begin(`${c}:offer ${d.call}`, span);
    if (delegate) log.enter(`${c}/${d.call}`, span);
    if (delegate) span.depth += 1;
  },
  handoff_accepted(log, e, d, c) {
    const span = log.find(`${c}:offer ${d.call}`);
    if (span?.delegate) span.events.push(e);
    else log.end(`${c}:offer ${d.call}`, e);
    log.since(c, e.at);
  },
  handoff_rejected: (log, e, d, c) => lost(log, e, d, c, "rejected"),
  circuit_found: (log, e, d, c) => lost(log, e, d, c, "rejected: its circuit is open"),
  handoff_expired: (log, e, d, c) => lost(log, e, d, c, "timed out"),
  handoff_conditional: (log, e, d, c) => log.find(`${c}:offer ${d.call}`)?.events.push(e),
  context_packed: (log, e, d, c) => log.find(`${c}:offer ${d.call}`)?.events.push(e),
  handoff_returned(log, e, d, c) {
    log.end(`${c}:offer ${d.call}`, e, { bad: !d.success && !d.cancelled });
    log.since(c, e.at);
  },
  handoff_rolled_back(log, e, d, c) {
    log.span(e, "handoffs", `gives back to ${nameOf(d.agent || d.sender)}${d.reason ? `: ${d.reason}` : ""}`, { agent: d.receiver, bad: true, handoff: `${c}:${d.call}` });
    log.since(c, e.at);
  },
  fell_back: point("handoffs", (d) => `goes on alone: ${d.reason}`, true),
  alternative_refused: point("handoffs", (d) => `${nameOf(d.receiver)} was not asked: ${d.reason}`, true),
  receiver_chosen: point("handoffs", (d) => (d.receiver ? `finds ${nameOf(d.receiver)}${d.why ? `: ${d.why}` : ""}` : "finds no agent that fits")),
  rule_fired: point("other", (d) => `rule ${d.rule}${d.goto ? ` hands over to ${d.goto}` : d.reason ? `: ${d.reason}` : ""}`),
  rule_failed: point("other", (d) => `rule ${d.rule} could not be judged: ${d.reason}`, true),
  content_checked: point("other", (d) => (d.verdict === "deny" ? `check refused it: ${d.reason}` : "check changed a text")),
  limit_reached: point("other", (d) => `limit reached: ${d.limit} ${d.figure}`, true),
  repair_asked: point("model", (d) => `asked again: ${d.problem}`, true),
  ticket_lapsed: point("other", (d) => `worker stopped: ${d.reason}`, true),
  cancel_requested: point("other", (d) => `${d.by || "a caller"} cancels${d.reason ? `: ${d.reason}` : ""}`),
  run_completed: (log, e, d, c) => log.close(c, e),
  run_cancelled(log, e, d, c) {
    log.close(c, e);
    log.span(e, "other", "run cancelled");
  },
  run_failed(log, e, d, c) {
    log.close(c, e);
    const why = d.fault?.reason ?? d.fault?.type ?? "";
    log.span(e, "other", `run failed: ${why}`, { bad: true, fatal: why });
  },
};

function lost(log, event, data, c, words) {
  const span = log.end(`${c}:offer ${data.call}`, event, { bad: true });
  if (span) span.label = `offer to ${nameOf(data.receiver)} ${words}${data.reason ? `: ${data.reason}` : ""}`;
}

// The spans in the order of a tree: a delegate's own spans follow it.
export function spansOf(events) {
  const log = new Log();
  for (const event of events) log.add(event);
  const [within, top] = [new Map(), []];
  for (const span of log.spans) (span.inside ? within.get(span.inside) ?? within.set(span.inside, []).get(span.inside) : top).push(span);
  const walk = (spans) => spans.flatMap((span) => {
    span.inner = within.get(span)?.length ?? 0;
    return [span, ...walk(within.get(span) ?? [])];
  });
  return walk(top);
}

// Time as a place between 0 and 100: time in which nothing but a person is awaited takes little room.
export class Axis {
  constructor(spans, now) {
    const busy = spans.filter((span) => !span.waits).map(({ from, to }) => [from, to ?? now]).sort((a, b) => a[0] - b[0]);
    this.pieces = []; // [from, to, the worked seconds before it]
    for (const [from, to] of busy) {
      const last = this.pieces.at(-1);
      if (last && from <= last[1]) last[1] = Math.max(last[1], to);
      else this.pieces.push([from, to]);
    }
    const worked = this.pieces.reduce((sum, [from, to]) => sum + to - from, 0) || 0.001;
    this.pause = worked * 0.05;
    let at = 0;
    this.pieces.forEach((piece, index) => {
      const gap = index ? piece[0] - this.pieces[index - 1][1] : 0;
      at += Math.min(gap, this.pause);
      piece.push(at);
      at += piece[1] - piece[0];
    });
    this.waits = spans.some((span) => span.waits && span.to === null);
    this.length = at + (this.waits ? this.pause : 0) || 0.001;
  }

  // The place of a moment, in percent.
  place(at) {
    let [low, high] = [0, this.pieces.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.pieces[middle][0] <= at) low = middle + 1;
      else high = middle;
    }
    const piece = this.pieces[low - 1];
    if (!piece) return 0;
    const [from, to, before] = piece;
    const beyond = Math.max(0, Math.min(at - to, this.pause));
    return (100 * Math.min(this.length, before + Math.min(at, to) - from + beyond)) / this.length;
  }

  // Round numbers of seconds, each with its place.
  get ticks() {
    const rough = this.length / 5;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= rough);
    return Array.from({ length: Math.floor(this.length / step) + 1 }, (_, index) => ({ seconds: index * step, place: (100 * index * step) / this.length }));
  }
}
