// What events say: pure functions of a list of events, so live, replay and scrubbing are one code path.
// An event is {seq, at, conversation, task, type, agent, data}; `data` leaves out fields that have their default.
// The list begins with the first event of the root, so positions within a conversation can be counted.

export const ENDS = { run_completed: "completed", run_failed: "failed", run_cancelled: "cancelled" };

export const BUSY = ["running", "waiting"];

export class Conversation {
  constructor(id, data) {
    Object.assign(this, { id, parent: data.parent ?? "", depth: data.depth ?? 0, team: data.team ?? "" });
    this.position = -1; // of the last event
    this.agent = "";
    this.task = 0;
    this.run = 0;
    this.status = "idle"; // idle, running, waiting, or how the last run ended
    this.thinking = false; // a reply of the active agent is due
    this.since = 0; // when the reply became due
    this.inbox = new Map();
    this.open = new Set(); // calls of the turn that have no answer yet
    this.asked = new Map(); // requests to people, by call
    this.offers = new Map();
    this.variables = {};
    this.artifacts = {};
    this.workflow = {};
    this.before = {}; // the variables before the current hop
    this.setBy = {}; // variable → {seq, agent} of the last change
    this.turn = null;
    this.dropped = new Map();
    this.fault = null;
  }

  set(variables, event) {
    if (variables === this.variables) return;
    const changed = Object.keys(variables).filter((name) => !same(variables[name], this.variables[name]));
    // A new object: readers that keep the old one see it unchanged.
    this.setBy = { ...this.setBy, ...Object.fromEntries(changed.map((name) => [name, { seq: event.seq, agent: event.agent, conversation: this.id }])) };
    this.variables = variables;
  }

  // A delegate begins with the variables of its sender: none is new. Those that its parent lacks count as the sender's.
  inherit(variables, { sender, artifacts = {}, workflow_state: workflow = {} }, event) {
    if (this.above && !Object.keys(this.variables).length) Object.assign(this, { variables: this.above.variables, setBy: this.above.setBy });
    this.set(variables, { ...event, agent: sender });
    Object.assign(this, { artifacts, workflow, before: variables });
  }

  // Updates of the calls of one turn hold in the order of the calls, whichever call ends first.
  update(call, directive, event) {
    if (!directive || !(directive.context || directive.artifacts || directive.workflow_state)) return;
    const turn = (this.turn ??= { base: [this.variables, this.artifacts, this.workflow], updates: new Map() });
    const earlier = turn.updates.get(call);
    turn.updates.set(call, earlier ? merged(earlier, directive) : directive);
    const [first, ...more] = turn.base;
    let [variables, [artifacts, workflow]] = [first, more];
    for (const each of [...turn.updates.keys()].sort(byPlace).map((key) => turn.updates.get(key))) {
      variables = joined(variables, each.context);
      artifacts = joined(artifacts, each.artifacts);
      workflow = joined(workflow, each.workflow_state);
    }
    this.set(variables, event);
    Object.assign(this, { artifacts, workflow });
  }

  // The active agent's reply is due.
  think(event) {
    Object.assign(this, { thinking: true, since: event.at, status: this.asked.size ? "waiting" : "running" });
    this.open.clear();
  }

  answer(call, event) {
    if (this.open.delete(call) && this.open.size === 0) this.think(event);
  }

  end(status) {
    Object.assign(this, { status, thinking: false, turn: null });
    this.open.clear();
    this.asked.clear();
  }

  hop(event, agent) {
    Object.assign(this, { before: this.variables, agent, task: this.position, turn: null });
    this.think(event);
  }
}

const joined = (before, more) => (more && Object.keys(more).length ? { ...before, ...more } : before);
const merged = (a, b) => ({ context: joined(a.context, b.context), artifacts: joined(a.artifacts, b.artifacts), workflow_state: joined(a.workflow_state, b.workflow_state) });
const places = (call) => call.split(/[+=]/)[0].split(".").slice(1).map(Number);
function byPlace(one, other) {
  const [a, b] = [places(one), places(other)];
  return (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? -1) - (b[1] ?? -1);
}
export const same = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);
// The call behind an id such as 3.0+1 or 3.0=escalation.
export const callOf = (id) => id.split(/[+=]/)[0];

const FOLD = {
  user_spoke: (c, e, d) => c.inbox.set(c.position, d),
  run_started(c, e, d) {
    const spoken = c.inbox.get(d.run) ?? {};
    c.inbox.delete(d.run);
    Object.assign(c, { run: d.run, fault: null });
    c.before = c.variables;
    const variables = joined(c.variables, spoken.context);
    if (!spoken.given) c.set(variables, e);
    if (spoken.package) {
      Object.assign(c, { task: c.position, turn: null });
      c.artifacts = joined(c.artifacts, spoken.package.context?.artifacts);
      c.workflow = joined(c.workflow, spoken.package.context?.workflow_state);
      c.think(e);
      c.thinking = false;
      return;
    }
    Object.assign(c, { agent: d.agent, task: c.position, turn: null });
    if (spoken.given) c.inherit(variables, spoken.given, e);
    c.think(e);
  },
  run_resumed(c, e) {
    c.fault = null;
    c.think(e);
  },
  model_replied(c, e, d) {
    c.turn = null;
    c.thinking = false;
    c.open = new Set((d.calls ?? []).map((_, index) => `${c.position}.${index}`));
  },
  model_failed: (c, e, d) => (c.thinking = d.retry_at !== undefined),
  function_returned(c, e, d) {
    c.thinking = false;
    c.turn = null;
    if (!d.directive) return;
    c.set(joined(c.variables, d.directive.context), e);
    c.artifacts = joined(c.artifacts, d.directive.artifacts);
    c.workflow = joined(c.workflow, d.directive.workflow_state);
  },
  function_failed: (c) => (c.thinking = false),
  rule_fired: (c, e, d) => (d.goto || d.end) && (c.thinking = false),
  tool_finished(c, e, d) {
    const leads = d.directive && (d.directive.goto || d.directive.end || d.directive.sends?.length);
    c.update(d.call, d.directive, e);
    if (!leads) c.answer(d.call, e);
    else if (d.directive.sends?.length) {
      c.open.delete(d.call);
      d.directive.sends.forEach((_, index) => c.open.add(`${d.call}.${index}`));
    }
  },
  skill_loaded: (c, e, d) => c.answer(d.call, e),
  call_refused: (c, e, d) => c.answer(callOf(d.call), e),
  approval_requested(c, e, d) {
    c.asked.set(d.call, { ...d, at: e.at, seq: e.seq });
    Object.assign(c, { status: "waiting", thinking: false });
  },
  approval_decided(c, e, d) {
    const asked = c.asked.get(d.call);
    c.asked.delete(d.call);
    if (c.asked.size === 0) c.status = "running";
    if (!asked) return;
    if (asked.kind === "task" || !c.open.size) c.think(e); // a person answers in place of an agent
    else if (["reject", "respond"].includes(d.decision?.type)) c.answer(callOf(d.call), e);
  },
  handoff_offered(c, e, d) {
    c.offers.set(d.call, d);
    if (d.queued) c.thinking = false;
  },
  handoff_accepted(c, e, d) {
    if (d.mode === "delegate") return;
    const offer = c.offers.get(d.call) ?? {};
    const { variables } = c;
    c.hop(e, d.receiver);
    if (offer.merge === "replace") c.dropped.set(d.call, variables);
    c.set(offer.merge === "replace" ? { ...offer.variables } : joined(variables, offer.variables), e);
  },
  handoff_returned(c, e, d) {
    c.update(callOf(d.call), d, e);
    c.answer(callOf(d.call), e);
  },
  rollback_requested(c, e, d) {
    if (c.asked.delete(d.call) && !c.asked.size) c.status = "running";
  },
  handoff_rolled_back(c, e, d) {
    const [status, agent] = [c.status, d.agent ?? ""];
    c.hop(e, agent);
    if (agent !== d.sender || !BUSY.includes(status)) Object.assign(c, { status, thinking: false }); // the run is over, or code's
    if (d.restored) c.set({ ...d.restored, ...c.variables }, e);
  },
  fell_back(c, e, d) {
    if (d.agent) {
      c.hop(e, d.agent);
      const lost = c.dropped.get(d.call);
      if (lost) c.set({ ...lost, ...c.variables }, e);
    } else c.think(e);
  },
  repair_asked: (c, e) => c.think(e),
};

// The conversations of a tree after the events up to `seq`: Map of id → Conversation; the root is the first.
export function stateAt(events, seq = Infinity) {
  const tree = new Map();
  for (const event of events) {
    if (event.seq > seq) break;
    apply(tree, event);
  }
  return tree;
}

export function apply(tree, event) {
  const { type, data } = event;
  let conversation = tree.get(event.conversation);
  if (!conversation) {
    tree.set(event.conversation, (conversation = new Conversation(event.conversation, data)));
    conversation.above = tree.get(conversation.parent); // who delegated to it
  }
  conversation.position += 1;
  if (type in ENDS) {
    conversation.end(ENDS[type]);
    conversation.fault = data.fault ?? null;
  } else FOLD[type]?.(conversation, event, data);
}

// The context of a conversation after `seq`, for people: what the current hop made new or changed.
export function contextAt(events, seq = Infinity, id = events[0]?.conversation) {
  const found = stateAt(events, seq).get(id);
  return found ? contextOf(found) : [];
}

export function contextOf({ variables, before, setBy }) {
  return Object.entries(variables).map(([name, value]) => {
    const change = !(name in before) ? "new" : same(before[name], value) ? "" : "changed";
    return { name, value, change, was: change === "changed" ? before[name] : undefined, ...setBy[name] };
  });
}

export const tokensOf = (usage) => (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
