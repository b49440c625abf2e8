// Chat: one conversation, read live. What is shown is a fold of its events; deltas are shown until the log has them.
import { get, inPath, may, now, post } from "../api.js";
import { byId, h, icon, keyed, root } from "../dom.js";
import { apply, BUSY } from "../events.js";
import { broken, complain, frame, lookForRequests, onRequests, requests, shortcut } from "../frame.js";
import { sentence, took } from "../format.js";
import { live } from "../live.js";
import { markdown } from "../markdown.js";
import { avatar, hueOf, named } from "../team.js";
import { Transcript } from "../transcript.js";
import { Composer } from "../chat/composer.js";
import { delegates } from "../chat/delegates.js";
import { ITEMS, message } from "../chat/items.js";
import { showRail } from "../chat/rail.js";

const PASSING = new Set(["slow", "stopping"]); // the connection ends, and the page connects again by itself

class Chat {
  constructor(who, agents) {
    Object.assign(this, { who, agents, scroll: byId("scroll"), log: byId("log"), near: true, drawn: false });
    this.reset(null);
    const allowed = may(who, "operator");
    this.composer = new Composer({ sending: (said) => this.sending(said), sent: (handle, said) => this.sent(handle, said), failed: (...all) => this.failed(...all) });
    if (!allowed) this.composer.close("Your role reads conversations and cannot write.");
    byId("pick").addEventListener("click", () => this.pick());
    byId("stop").addEventListener("click", () => this.stop());
    byId("details").addEventListener("click", () => this.turnRail());
    this.scroll.addEventListener("scroll", () => (this.near = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < 80), { passive: true });
    const follow = new ResizeObserver(() => this.near && (this.scroll.scrollTop = this.scroll.scrollHeight));
    follow.observe(this.log);
    follow.observe(this.scroll);
    onRequests(() => this.draw());
    setInterval(tick, 200);
  }

  reset(id) {
    if (this.id) live.unsubscribe(this.id);
    Object.assign(this, { id, transcript: new Transcript(), tree: new Map(), sends: [], deltas: new Map(), dead: new Set(), seq: 0, near: true });
  }

  async open(id) {
    this.reset(id);
    this.composer.conversation = id;
    this.log.setAttribute("aria-busy", "true");
    try {
      const [row, events] = await Promise.all([get(`/conversations/${inPath(id)}`), get(`/conversations/${inPath(id)}/events`)]);
      if (this.id !== id) return;
      this.entitle(row.title || row.id);
      for (const event of events.items ?? events) this.take(event);
      live.subscribe(id, this.seq, (said) => this.hear(said));
      this.render();
    } catch (problem) {
      this.log.replaceChildren(h("div", { class: "nothing" }, h("h2", {}, problem.status === 404 ? "There is no such conversation" : "The conversation cannot be read"), h("p", {}, problem.status === 404 ? `No conversation has the id ${id}, or it belongs to another user.` : sentence(problem.message)), h("a", { class: "btn", href: `${root}/chat` }, "Begin a new conversation")));
    }
    this.log.removeAttribute("aria-busy");
  }

  take(event) {
    this.seq = event.seq;
    this.transcript.add(event);
    apply(this.tree, event);
    const { type, conversation, data } = event;
    const delta = this.deltas.get(conversation);
    if (delta && ["model_replied", "model_failed", "run_cancelled", "run_failed"].includes(type)) {
      this.deltas.delete(conversation);
      if (type === "model_replied" && delta.command) this.dead.add(delta.command);
    }
    if (type === "user_spoke" && !data.given) this.sends = this.sends.filter((each) => each.text !== data.text);
  }

  hear(said) {
    if (said.kind === "event") (complain(), this.take(said.event));
    if (said.event?.type === "approval_requested") lookForRequests().catch(complain);
    if (said.kind === "text" || said.kind === "thinking") this.stream(said);
    else if (said.kind === "notice" && !PASSING.has(said.code)) complain({ message: said.message });
    this.draw();
  }

  // A piece of a reply. A higher attempt starts again; a piece behind the recorded reply comes too late.
  stream({ kind, conversation, agent, text, command = "", attempt = 1 }) {
    const name = `${conversation}:${command}`;
    if (command && this.dead.has(name)) return;
    let delta = this.deltas.get(conversation);
    if (!delta || delta.command !== name && command || delta.attempt !== attempt) this.deltas.set(conversation, (delta = { agent, command: command && name, attempt, text: "", thinking: "" }));
    delta[kind] += text;
  }

  draw() {
    if (this.drawn) return;
    this.drawn = true;
    requestAnimationFrame(() => ((this.drawn = false), this.render()));
  }

  get first() {
    return this.tree.values().next().value;
  }

  render() {
    if (this.id && this.first) keyed(this.log, [...this.transcript.items.map((item) => this.revised(item)), ...this.upcoming()], (item) => this.show(item));
    else if (this.sends.length) keyed(this.log, this.sends, (item) => this.show(item));
    this.showNow();
    showRail(this.agents, this.tree);
    tick();
  }

  // Cards of requests also change when the list of requests does.
  revised(item) {
    const asked = item.kind === "approval" ? [item] : item.kind === "delegates" ? openRequests(item) : [];
    return asked.length ? { ...item, rev: `${item.rev} ${!!this.asks} ${asked.map((each) => !!requestOf(each))}` } : item;
  }

  // What is not recorded yet: the reply under way, and messages that are being sent.
  upcoming() {
    const [first, delta] = [this.first, this.deltas.get(this.id)];
    const made = [];
    if (delta?.thinking || (first.thinking && !delta?.text)) made.push({ kind: "pondering", key: "pondering", rev: `${first.since} ${delta?.thinking.length ?? 0}`, agent: first.agent, since: first.since, text: delta?.thinking ?? "" });
    if (delta?.text) made.push({ kind: "reply", key: "reply", rev: delta.text.length, agent: delta.agent || first.agent, text: delta.text });
    return [...made, ...this.sends];
  }

  show(item) {
    const kinds = {
      delegates: () => delegates(item, (each) => this.show(each)),
      approval: () => this.request(item),
      reply: () => message(item.agent, null, markdown(item.text), "live"),
      pondering: () => h("div", { class: "step live" }, h("details", { "data-at": "pondering" }, h("summary", { class: "line" }, icon("loader", "small spin"), h("span", {}, "Thinking"), h("span", { class: "t", "data-since": item.since })), item.text && h("div", { class: "more" }, h("p", { class: "thought" }, item.text)))),
      failure: () => ITEMS.failure(item, { retry: may(this.who, "operator") && item.conversation === this.id && (() => this.retry()) }),
    };
    return (kinds[item.kind] ?? (() => ITEMS[item.kind](item)))();
  }

  // The card of a request; its module is loaded when the first request is shown.
  request(item) {
    if (this.asks) return this.asks.requestCard(item, requestOf(item), this);
    import("../chat/asks.js").then((loaded) => ((this.asks = loaded), this.draw()));
    return h("div", { class: "ask", "aria-busy": "true" }, h("p", { class: "meta" }, "A person is asked…"));
  }

  showNow() {
    const { first } = this;
    const busy = BUSY.includes(first?.status);
    byId("stop").hidden = !busy || !may(this.who, "operator");
    const words = !first ? "" : first.status === "waiting" ? "Waiting for a decision:" : busy ? "Now answering:" : "Answers next:";
    const shown = `${words} ${first?.agent} ${first?.status}`;
    const now = byId("now");
    if (now.dataset.shown === shown) return;
    now.dataset.shown = shown;
    now.className = `now ${first?.agent ? hueOf(first.agent) : ""}`;
    now.replaceChildren(...(first?.agent ? [h("i", { class: `dot ${first.status === "running" ? "pulse" : ""}` }), h("span", { class: "lbl" }, words), named(first.agent)] : []));
  }

  entitle(title) {
    byId("title").replaceChildren(h("bdi", {}, title));
    document.title = `${title} · Changeover`;
  }

  sending({ text, files }) {
    const item = { kind: "user", key: `send ${performance.now()}`, rev: 0, text, files, pending: "Sending…" };
    this.sends.push(item);
    this.near = true;
    this.draw();
    return item;
  }

  sent(item, { conversation }) {
    complain();
    if (!this.id) {
      history.pushState({}, "", `${root}/chat/${inPath(conversation)}`);
      this.open(conversation);
    }
  }

  failed(problem, item, again) {
    if (!item) return complain(problem);
    this.sends = this.sends.filter((each) => each !== item);
    this.sends.push({ kind: "unsent", key: item.key, rev: 1, text: item.text, files: item.files, why: problem.message, again });
    this.draw();
  }

  async retry() {
    await post(`/conversations/${inPath(this.id)}/resume`).then(() => complain(), complain);
  }

  async stop() {
    byId("stop").disabled = true;
    await post(`/conversations/${inPath(this.id)}/cancel`, {}).then(() => complain(), complain);
    byId("stop").disabled = false;
  }

  async pick() {
    this.picker ??= import("../chat/picker.js").then(({ Picker }) => new Picker(this.who, (id, title) => id === this.id && this.entitle(title)));
    (await this.picker).open(this.id);
  }

  turnRail() {
    byId("details").setAttribute("aria-expanded", byId("rail").classList.toggle("open"));
  }

  // The page of a new conversation: whom to ask first.
  begin() {
    this.entitle("New conversation");
    const choice = (each, index) => h("label", { class: `choice ${hueOf(each.id)}` }, h("input", { type: "radio", name: "first", value: each.id, checked: index === 0 }), avatar(each.id), h("span", { class: "n" }, named(each.id)), h("span", { class: "r" }, each.description ?? ""));
    const starts = [...this.agents].sort((a, b) => Number(!!b.start) - Number(!!a.start));
    this.log.replaceChildren(h("div", { class: "nothing start" }, h("h2", {}, "What shall the team do?"), h("p", {}, "Write a message below. You see who takes it, to whom it is handed on, and why."), starts.length > 1 && h("fieldset", { class: "choices" }, h("legend", {}, "Who answers first"), starts.map(choice))));
    this.composer.agent = () => document.querySelector("input[name=first]:checked")?.value;
    this.log.removeAttribute("aria-busy");
    showRail(this.agents, this.tree);
  }
}

ITEMS.unsent = (item) => h("div", { class: "me txt unsent", dir: "auto" }, h("div", { class: "plain" }, item.text), h("p", { class: "fault" }, `Not sent: ${item.why} `), h("button", { class: "btn small", type: "button", onclick: (event) => (event.target.disabled = true, item.again()) }, "Send again"));

const requestOf = (item) => [...requests.items.values()].find((each) => each.id.startsWith(`${item.conversation}:${item.call}:`));
const openRequests = (item) => item.branches.flatMap((branch) => (branch.script?.shown ?? []).flatMap((each) => (each.kind === "approval" ? [each] : each.kind === "delegates" ? openRequests(each) : [])));

// Running times count up, deadlines down.
function tick() {
  const at = now();
  for (const each of document.querySelectorAll("[data-since]")) each.textContent = took(Math.max(0, at - each.dataset.since));
  for (const each of document.querySelectorAll("[data-until]")) each.textContent = took(Math.max(0, each.dataset.until - at));
}

const idOf = () => decodeURIComponent(location.pathname.slice(`${root}/chat`.length).replace(/^\//, "")) || null;
let chat;
const go = () => (idOf() ? chat.open(idOf()) : (chat.reset(null), (chat.composer.conversation = null), chat.begin(), chat.render()));
try {
  const { who, agents } = await frame();
  chat = new Chat(who, agents);
  shortcut("/", "Write a message", () => chat.composer.focus());
  shortcut("n", "New conversation", () => location.assign(`${root}/chat`));
  shortcut("l", "List of conversations", () => chat.pick());
  addEventListener("popstate", go);
  await go();
  if (may(who, "operator") && matchMedia("(min-width: 721px)").matches) chat.composer.focus();
} catch (problem) {
  broken(byId("log"), problem);
}
