// A conversation as people read it: a fold of its events. Delegates' transcripts nest in their branch.
import { callOf, tokensOf } from "./events.js";
import { nameOf } from "./team.js";

class Script {
  constructor(id, branch) {
    Object.assign(this, { id, branch, items: [], position: -1, since: 0 });
    Object.assign(this, { calls: new Map(), offers: new Map(), asked: new Map(), groups: new Map() });
    this.closed = 0; // the number of items that belong to runs which are over
  }

  add(kind, event, more) {
    const item = { kind, key: `${this.id}:${event.seq}:${more.part ?? kind}`, rev: 0, at: event.at, seq: event.seq, conversation: this.id, ...more };
    this.items.push(item);
    this.touch();
    return item;
  }

  get shown() {
    return this.items.filter((item) => !item.hidden);
  }

  // Change an item; its new revision makes the page draw it again.
  touch(item, more) {
    if (item) {
      Object.assign(item, more);
      item.rev += 1;
    }
    if (this.branch) this.branch.within.touch(this.branch.group);
  }

  // The branch of a delegate: all delegates of one reply make one group.
  delegate(event, d) {
    const reply = callOf(d.call).split(".")[0];
    let group = this.groups.get(reply);
    if (!group) this.groups.set(reply, (group = this.add("delegates", event, { branches: [], agent: d.sender })));
    const branch = { call: d.call, receiver: d.receiver, task: d.message ?? "", state: "offered", began: event.at, ended: null, text: "", group, within: this, script: null };
    group.branches.push(branch);
    this.touch(group);
    return branch;
  }
}

const SHOW = {
  user_spoke(t, e, d) {
    if (!d.given) t.add("user", e, { text: d.text, files: d.files ?? [], user: d.user ?? "", package: d.package });
  },
  run_started: (t, e) => (t.since = e.at),
  model_replied(t, e, d) {
    const asked = { agent: d.agent, tokens: tokensOf(d.usage), began: t.since };
    if (d.thinking) t.add("thought", e, { ...asked, text: d.thinking });
    if (d.text) t.add("say", e, { ...asked, text: d.text, changed: d.checked?.verdict });
    (d.calls ?? []).forEach((call, index) => {
      const id = `${t.position}.${index}`;
      const item = t.add("tool", e, { part: id, call: id, name: call.name, args: call.args ?? {}, agent: d.agent, state: "running", text: "", files: [], reply: d.text ?? "" });
      t.calls.set(id, item);
    });
  },
  function_returned: (t, e, d) => d.text && t.add("say", e, { agent: d.agent, text: d.text, by: d.by }),
  model_failed: (t, e, d) => d.retry_at !== undefined && t.add("note", e, { tone: "warn", text: `The model of ${nameOf(d.agent)} gave no reply and is asked again: ${d.reason}` }),
  tool_started: (t, e, d) => t.touch(t.calls.get(d.call), { began: e.at }),
  tool_finished(t, e, d) {
    const item = t.calls.get(d.call);
    if (item) t.touch(item, { state: d.ok === false ? "failed" : d.unknown ? "unknown" : "done", text: d.text ?? "", ended: e.at, files: d.files ?? [], filesAt: e.seq });
    t.since = e.at;
  },
  skill_loaded: (t, e, d) => t.touch(t.calls.get(d.call), { state: "done", text: d.text, ended: e.at, skill: d.skill }),
  call_refused(t, e, d) {
    const branch = t.offers.get(d.call)?.branch;
    if (branch) Object.assign(branch, { state: "failed", text: d.reason, ended: e.at });
    t.touch(branch ? branch.group : t.calls.get(callOf(d.call)), branch ? {} : { state: "refused", text: d.reason, ended: e.at, hidden: false });
    t.since = e.at;
  },
  approval_requested(t, e, d) {
    const tool = t.calls.get(callOf(d.call));
    if (tool && (d.kind ?? "approval") === "approval") t.touch(tool, { hidden: true });
    const { kind: request = "approval", arguments: args = {}, tool: name = "", ...more } = d;
    t.asked.set(d.call, t.add("approval", e, { ...more, request, args, tool: name, part: `asked ${d.call}`, state: "waiting" }));
  },
  approval_decided(t, e, d) {
    const [item, tool] = [t.asked.get(d.call), t.calls.get(callOf(d.call))];
    const verdict = d.decision?.type;
    if (item) t.touch(item, { state: d.expired ? "expired" : "decided", decision: d.decision, by: d.by ?? "", decidedAt: e.at });
    if (!tool || item?.request !== "approval" || !(verdict === "approve" || verdict === "edit")) return;
    const { kind, key, ...known } = tool; // it runs from now on, below the request
    t.calls.set(tool.call, t.add("tool", e, { ...known, at: e.at, rev: 0, part: `again ${d.call}`, hidden: false, args: d.decision.arguments ?? tool.args }));
  },
  handoff_offered(t, e, d) {
    const tool = t.calls.get(callOf(d.call));
    const known = { call: d.call, sender: d.sender, receiver: d.receiver, attempt: d.attempt ?? 1 };
    if (tool) t.touch(tool, { hidden: true });
    if (d.mode === "delegate") return t.offers.set(d.call, { branch: t.delegate(e, d), ...known });
    const said = d.reason || (typeof d.variables?.reason === "string" ? d.variables.reason : "") || (d.message === tool?.reply ? "" : d.message);
    t.offers.set(d.call, t.add("handoff", e, { part: `offer ${d.call}`, ...known, why: said ?? "", message: d.message === tool?.reply ? "" : d.message ?? "", tool: tool?.name ?? "", variables: d.variables ?? {}, strategy: d.strategy ?? "full", tokensBefore: d.before ?? 0, tokens: d.after ?? 0, instructions: d.instructions ?? "", queued: !!d.queued, state: "offered" }));
  },
  context_packed: (t, e, d) => d.after !== undefined && outcome(t, d.call, { tokens: d.after, packed: d.error ?? "" }),
  handoff_accepted(t, e, d) {
    outcome(t, d.call, { state: "accepted", by: d.by === d.receiver ? "" : d.by, ended: d.mode === "delegate" ? null : e.at });
    t.since = e.at;
  },
  handoff_rejected: (t, e, d) => outcome(t, d.call, { state: "rejected", text: d.reason, suggested: d.suggested, ended: e.at }),
  handoff_expired: (t, e, d) => outcome(t, d.call, { state: "expired", text: d.reason, ended: e.at }),
  handoff_conditional: (t, e, d) => outcome(t, d.call, { state: "conditional", text: [...(d.needs_context ?? []), ...(d.needs_permission ?? [])].join(", ") }),
  circuit_found: (t, e, d) => outcome(t, d.call, { text: `${d.receiver} takes no handoffs now: ${d.failures} failures in a row` }),
  handoff_returned(t, e, d) {
    outcome(t, d.call, { state: d.success ? "returned" : d.cancelled ? "cancelled" : "failed", text: d.success ? d.response ?? "" : d.error ?? "", ended: e.at });
    t.since = e.at;
  },
  rollback_requested: (t, e, d) => withdraw(t, d.call, e),
  handoff_rolled_back(t, e, d) {
    for (const call of d.undone ?? [d.call]) outcome(t, call, { undone: true });
    t.add("note", e, { tone: "warn", text: `${d.receiver} gives the task back to ${d.agent || d.sender}${d.reason ? `: ${d.reason}` : ""}` });
  },
  alternative_refused: (t, e, d) => t.add("note", e, { tone: "warn", text: `${d.receiver} was not asked: ${d.reason}` }),
  receiver_chosen: (t, e, d) => !d.receiver && t.add("note", e, { tone: "warn", text: `No agent fits${d.why ? `: ${d.why}` : ""}` }),
  fell_back: (t, e, d) => t.add("note", e, { tone: "warn", text: `${d.agent || e.agent} goes on alone: ${d.reason}` }),
  rule_fired: (t, e, d) => t.add("note", e, { text: `Rule ${d.rule}: ${d.goto ? `${d.agent} hands over to ${d.goto}` : d.end ? "the run ends here" : d.reason || "a person is asked"}` }),
  rule_failed: (t, e, d) => t.add("note", e, { tone: "warn", text: `The rule ${d.rule} could not be judged: ${d.reason}` }),
  content_checked: (t, e, d) => t.add("note", e, { tone: "warn", text: d.verdict === "deny" ? `A check refused ${d.direction === "input" ? `what ${d.agent} was told` : `the answer of ${d.agent}`}: ${d.reason}` : `A check changed ${d.direction === "input" ? `what ${d.agent} was told` : `the answer of ${d.agent}`}` }),
  limit_reached: (t, e, d) => t.add("note", e, { tone: "warn", text: `Limit reached: ${d.limit} ${d.figure}` }),
  repair_asked: (t, e, d) => t.add("note", e, { tone: "warn", text: `The answer is asked for again: ${d.problem}` }),
  ticket_lapsed: (t, e, d) => t.add("note", e, { tone: "warn", text: `The worker stopped: ${d.reason}` }),
  cancel_requested: (t, e, d) => t.add("note", e, { text: `${d.by ? `${d.by} stops` : "Stopping"} the run${d.reason ? `: ${d.reason}` : ""}` }),
  run_completed: (t, e) => close(t, e, "cancelled"),
  run_cancelled(t, e) {
    close(t, e, "cancelled");
    t.add("note", e, { text: "Stopped" });
  },
  run_failed(t, e, d) {
    close(t, e, "failed");
    t.add("failure", e, { run: d.run, text: faultWords(d.fault ?? {}) });
  },
  run_resumed: (t, e) => t.items.filter((each) => each.kind === "failure" && !each.over).forEach((each) => t.touch(each, { over: true })),
};

function outcome(t, call, more) {
  const offer = t.offers.get(call);
  if (!offer) return;
  if (offer.branch) Object.assign(offer.branch, more);
  t.touch(offer.branch ? offer.branch.group : offer, offer.branch ? {} : more);
}

// End everything that is under way in a run that ends.
function close(t, event, state) {
  for (const item of t.items.slice(t.closed)) {
    if (item.kind === "tool" && item.state === "running") t.touch(item, { state, ended: event.at });
    else if (item.kind === "approval" && item.state === "waiting") t.touch(item, { state: "withdrawn" });
    else if (item.kind === "handoff" && item.state === "offered") t.touch(item, { state: "withdrawn" });
    else if (item.kind === "delegates") {
      for (const branch of item.branches) if (UNDER_WAY.includes(branch.state)) Object.assign(branch, { state: "cancelled", ended: event.at });
      t.touch(item);
    }
  }
  t.closed = t.items.length;
}
const UNDER_WAY = ["offered", "accepted", "conditional"];

// Withdraw the offer of a call and the request about it.
function withdraw(t, call, event) {
  const [offer, asked] = [t.offers.get(call), t.asked.get(call)];
  if (asked?.state === "waiting") t.touch(asked, { state: "withdrawn" });
  if ((offer?.branch ?? offer)?.state === "offered") outcome(t, call, { state: offer.branch ? "cancelled" : "withdrawn", ended: event.at });
}

const FAULTS = {
  limit: (f) => `a limit was reached: ${f.limit} ${f.figure}`,
  receiver: (f) => `${nameOf(f.sender)} named a receiver that does not exist: ${f.receiver}`,
  agent: (f) => `${nameOf(f.agent)} is no longer in the team`,
};
const faultWords = (fault) => FAULTS[fault.type]?.(fault) ?? `${fault.agent ? `${nameOf(fault.agent)}: ` : ""}${fault.reason ?? "it cannot go on"}`;

// The transcript of a tree, event by event.
export class Transcript {
  #scripts = new Map();

  add(event) {
    const script = this.#scripts.get(event.conversation) ?? this.#open(event.conversation);
    script.position += 1;
    SHOW[event.type]?.(script, event, event.data);
  }

  // The items of the root.
  get items() {
    return this.#scripts.values().next().value?.shown ?? [];
  }

  #open(id) {
    const cut = id.lastIndexOf("/");
    const branch = cut < 0 ? null : this.#scripts.get(id.slice(0, cut))?.offers.get(id.slice(cut + 1))?.branch ?? null;
    const script = new Script(id, branch);
    if (branch) branch.script = script;
    this.#scripts.set(id, script);
    return script;
  }
}

export function transcriptOf(events) {
  const transcript = new Transcript();
  for (const event of events) transcript.add(event);
  return transcript.items;
}
