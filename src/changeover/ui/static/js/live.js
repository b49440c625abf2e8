// One WebSocket for the page: conversations and lists as they change. After a break it goes on behind the last seq.
import { BASE, get } from "./api.js";

const PAUSES = [0.3, 0.6, 1.2, 2.5, 5, 8];

export class Live {
  #socket = null;
  #tries = 0;
  #timer = 0;
  #read = new Map(); // conversation → { last, hear }
  #lists = new Map(); // list → Set of hearers
  #watchers = new Set();
  state = "connecting"; // connecting, open, reconnecting, offline

  constructor(url = `${location.origin.replace(/^http/, "ws")}${BASE}/live`) {
    this.url = url;
    addEventListener("online", () => this.#now());
    addEventListener("offline", () => this.#become("offline"));
    document.addEventListener("visibilitychange", () => document.hidden || this.#now());
  }

  // Read a conversation behind `after`; hear(frame) gets events with rising seq, none twice, and deltas.
  subscribe(id, after, hear) {
    this.#read.set(id, { last: after, hear });
    this.#say({ subscribe: id, after });
  }

  unsubscribe(id) {
    if (this.#read.delete(id)) this.#say({ unsubscribe: id });
  }

  watch(list, hear) {
    const hearers = this.#lists.get(list) ?? new Set();
    this.#lists.set(list, hearers.add(hear));
    this.#say({ watch: list });
  }

  // hear(state) now and at each change.
  onState(hear) {
    this.#watchers.add(hear);
    hear(this.state);
  }

  open() {
    if (!this.#socket) this.#connect();
  }

  #say(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
    else this.open();
  }

  #connect() {
    clearTimeout(this.#timer);
    const socket = (this.#socket = new WebSocket(this.url));
    socket.onopen = () => {
      this.#tries = 0;
      this.#become("open");
      for (const [id, { last }] of this.#read) this.#say({ subscribe: id, after: last });
      for (const list of this.#lists.keys()) this.#say({ watch: list });
    };
    socket.onmessage = ({ data }) => this.#pass(JSON.parse(data));
    socket.onclose = ({ code }) => socket === this.#socket && this.#lost(code);
  }

  #lost(code) {
    this.#socket = null;
    if (code === 1008 || this.#tries === 2) get("/me").catch(() => {}); // a token that ended leads to the sign-in page
    this.#become(navigator.onLine ? "reconnecting" : "offline");
    const pause = PAUSES[Math.min(this.#tries++, PAUSES.length - 1)];
    this.#timer = setTimeout(() => this.#connect(), pause * (700 + 600 * Math.random()));
  }

  #now() {
    if (!this.#socket && this.state !== "connecting") this.#connect();
  }

  #become(state) {
    if (state === this.state) return;
    this.state = state;
    for (const hear of this.#watchers) hear(state);
  }

  #pass(frame) {
    if (frame.kind === "event") return this.#event(frame.event, frame.conversation);
    if (frame.list) return this.#lists.get(frame.list)?.forEach((hear) => hear(frame));
    for (const [id, reader] of this.#read) if (within(frame.conversation ?? id, id)) reader.hear(frame);
  }

  #event(event, of) {
    for (const [id, reader] of this.#read) {
      if (!within(event.conversation ?? of, id) || event.seq <= reader.last) continue;
      reader.last = event.seq;
      reader.hear({ kind: "event", event });
    }
  }
}

const within = (conversation, id) => conversation === id || conversation.startsWith(`${id}/`);
export const live = new Live();
