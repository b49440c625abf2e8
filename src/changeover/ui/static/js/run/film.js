// A run at each of its steps: a pure function of its events. Going to a step costs the same wherever it is.
import { apply } from "../events.js";

export class Film {
  events = [];
  frames = []; // what held after each event
  tree = new Map();

  add(event) {
    apply(this.tree, event);
    const { id, agent, status, variables, before, setBy, artifacts, workflow } = this.tree.get(event.conversation);
    this.events.push(event);
    this.frames.push({ conversation: id, agent, status, variables, before, setBy, artifacts, workflow });
  }

  get last() {
    return this.events.length - 1;
  }

  // The index of the last event up to `seq`.
  indexOf(seq) {
    return lastUpTo(this.events, seq);
  }
}

// The index of the last of these, which are sorted, up to `seq`.
export function lastUpTo(sorted, seq) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle].seq <= seq) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function filmOf(events) {
  const film = new Film();
  for (const event of events) film.add(event);
  return film;
}
