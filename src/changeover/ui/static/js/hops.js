// The hops of a tree, for the chain of a run: a pure function of its events.
// A hop is the time in which an agent has the work: {key, agent, conversation, seq, began, ended, status, tokens,
// replies, errors, by, offers}. `by` is the offer that brought the work, `offers` are those that the hop made.
import { ENDS, tokensOf } from "./events.js";

const OFFER_ENDS = { handoff_rejected: "rejected", circuit_found: "rejected", handoff_expired: "expired", handoff_conditional: "conditional", handoff_returned: "returned" };

class Hops {
  all = [];
  #current = new Map(); // conversation → hop
  #positions = new Map();
  #offers = new Map();

  add(event) {
    const { type, data, conversation } = event;
    this.#positions.set(conversation, (this.#positions.get(conversation) ?? -1) + 1);
    const offer = this.#offers.get(`${conversation}:${data.call}`);
    if (type === "run_started" && !data.code) this.#begin(event, data.agent, this.#offers.get(asOffer(conversation)));
    else if (type === "handoff_offered") this.#offer(event);
    else if (type === "handoff_accepted" && offer) this.#accept(event, offer);
    else if (type === "handoff_rolled_back" || (type === "fell_back" && data.agent)) this.#begin(event, data.agent ?? "", offer);
    else if (offer && OFFER_ENDS[type]) endOffer(offer, event);
    else if (type in ENDS) this.#end(event, ENDS[type]);
    else this.#tally(this.#current.get(conversation), type, data);
  }

  #begin(event, agent, by) {
    this.#end(event, "completed");
    const { conversation, seq, at } = event;
    const key = `${conversation}#${this.#positions.get(conversation)}`;
    const hop = { key, agent, conversation, seq, began: at, ended: null, status: "running", tokens: 0, replies: 0, errors: 0, by, offers: [] };
    this.all.push(hop);
    this.#current.set(conversation, hop);
  }

  #end({ conversation, at }, status) {
    const hop = this.#current.get(conversation);
    if (hop && hop.ended === null) Object.assign(hop, { ended: at, status });
  }

  #offer({ data, conversation, seq, at }) {
    const hop = this.#current.get(conversation);
    const offer = { ...data, key: `${conversation}:${data.call}`, mode: data.mode ?? "transfer", conversation, seq, at, state: "offered", from: hop?.key };
    this.#offers.set(offer.key, offer);
    hop?.offers.push(offer);
  }

  #accept(event, offer) {
    Object.assign(offer, { state: "accepted", acceptedAt: event.at });
    if (offer.mode === "transfer") this.#begin(event, event.data.receiver, offer);
  }

  #tally(hop, type, data) {
    if (!hop) return;
    if (type === "model_replied") {
      hop.replies += 1;
      hop.tokens += tokensOf(data.usage);
    } else if (type === "model_failed" || type === "function_failed" || (type === "tool_finished" && data.ok === false)) hop.errors += 1;
    else if (type === "approval_requested") hop.status = "waiting";
    else if (type === "approval_decided") hop.status = "running";
  }
}

function endOffer(offer, { type, at, data }) {
  const state = type === "handoff_returned" && !data.success ? "failed" : OFFER_ENDS[type];
  Object.assign(offer, { state, endedAt: at, why: data.reason || data.error || "", suggested: data.suggested });
}

// A delegate's conversation is named after the offer that began it: c/3.0 after c:3.0.
const asOffer = (conversation) => conversation.replace(/\/([^/]*)$/, ":$1");

export function hopsOf(events, seq = Infinity) {
  const hops = new Hops();
  for (const event of events) {
    if (event.seq > seq) break;
    hops.add(event);
  }
  return hops.all;
}
