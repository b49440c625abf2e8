// Approvals: the inbox of requests to people, one request with its conversation, and who decided what.
import { get, inPath, now } from "../api.js";
import { byId, h, icon, keyed, root } from "../dom.js";
import { broken, complain, frame, lookForRequests, onRequests, shortcut } from "../frame.js";
import { ago, cut, day, left, sentence } from "../format.js";
import { consequences, decide, mayDecide, RequestForm, summaryOf } from "../request.js";
import { avatar, hueOf, named, nameOf } from "../team.js";
import { transcriptOf } from "../transcript.js";

const TABS = { waiting: "Waiting", mine: "For me", decided: "Decided" };
const VERDICTS = { approved: ["good", "circle-check", "Approved"], edited: ["good", "circle-check", "Approved with changes"], responded: ["good", "circle-check", "Answered"], rejected: ["bad", "circle-x", "Rejected"], expired: ["bad", "hourglass", "Not decided in time"], withdrawn: ["", "x", "No longer needed"] };
const HANDED_ON = ["good", "arrow-right-left", "Handed on"];
const verdictOf = ({ kind, status }) => (status === "edited" && (kind === "task" || kind === "escalation") ? HANDED_ON : VERDICTS[status] ?? ["", "check", status]);
const SOON = 15 * 60; // seconds

const tab = () => new URLSearchParams(location.search).get("show") ?? "waiting";
const idOf = () => decodeURIComponent(location.pathname.slice(`${root}/approvals`.length).replace(/^\//, ""));
const address = (id, show = tab()) => `${root}/approvals${id ? `/${inPath(id)}` : ""}${show === "waiting" ? "" : `?show=${show}`}`;

class Inbox {
  constructor(who, agents) {
    Object.assign(this, { who, agents, waiting: null, decided: [], picked: new Set(), shown: null, form: null });
    this.filter = h("select", { class: "in", "aria-label": "Agent", onchange: () => this.list() }, h("option", { value: "" }, "All agents"), agents.map(({ id }) => h("option", { value: id }, nameOf(id))));
    this.several = h("div", { class: "several", hidden: true });
    this.rows = h("ul", { class: "rows" });
    document.addEventListener("click", (event) => this.#follow(event));
    addEventListener("popstate", () => this.go());
    onRequests((items) => this.take(items));
    setInterval(() => this.#count(), 1000);
  }

  // Links within the inbox change the page without loading it.
  #follow(event) {
    const link = event.target.closest?.("a");
    if (!link || !link.dataset.inbox || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState({}, "", link.href);
    this.go();
    if (idOf()) byId("decide").focus();
  }

  take(items) {
    const ids = new Set(items.map((each) => each.id));
    if (!this.waiting) {
      byId("mails").replaceChildren(h("div", { class: "narrow" }, this.filter), this.several, this.rows);
      byId("mails").removeAttribute("aria-busy");
    }
    const gone = this.waiting?.some((each) => !ids.has(each.id));
    this.waiting = [...items].sort((a, b) => (a.expires_at ?? Infinity) - (b.expires_at ?? Infinity) || b.requested_at - a.requested_at);
    this.picked = new Set([...this.picked].filter((each) => ids.has(each)));
    if (gone || !this.decided.length) this.#loadDecided();
    this.go();
  }

  async #loadDecided() {
    try {
      const said = await get("/approvals?status=&limit=100");
      this.decided = (said.items ?? said).filter((each) => each.status !== "pending");
      complain();
      this.go();
    } catch (problem) {
      complain(problem);
    }
  }

  get mine() {
    return (this.waiting ?? []).filter((each) => mayDecide(this.who, each));
  }

  go() {
    const show = tab();
    byId("count").textContent = this.waiting ? `${this.waiting.length} waiting for a decision` : "";
    byId("tabs").replaceChildren(...Object.entries(TABS).map(([name, words]) => h("a", { href: address("", name), "data-inbox": "1", "aria-current": name === show ? "page" : undefined }, words)));
    if (!this.waiting) return;
    byId("inbox").classList.toggle("one", !!idOf());
    this.list();
    this.#show();
  }

  list() {
    const show = tab();
    const wanted = this.filter.value;
    const open = (show === "decided" ? [] : show === "mine" ? this.mine : this.waiting).filter((each) => !wanted || each.agent === wanted);
    const over = this.decided.filter((each) => !wanted || each.agent === wanted).slice(0, show === "decided" ? 100 : show === "mine" ? 0 : 5);
    const items = [
      ...open.map((each) => ({ ...each, key: each.id, rev: `${each.id === this.id} ${this.picked.has(each.id)} ${show}` })),
      ...(over.length && show !== "decided" ? [{ key: "cap", rev: 0, cap: "Decided" }] : []),
      ...over.map((each) => ({ ...each, key: each.id, rev: `${each.id === this.id} over ${show}` })),
    ];
    keyed(this.rows, items, (item) => this.#row(item));
    if (!items.length) this.rows.replaceChildren(h("li", { class: "cap" }, show === "decided" ? "No decision yet." : "Nothing waits."));
    this.#several();
    this.#count();
  }

  get id() {
    return idOf() || (matchMedia("(min-width: 1001px)").matches ? (tab() === "decided" ? this.decided : tab() === "mine" ? this.mine : this.waiting)[0]?.id : "");
  }

  #row(item) {
    if (item.cap) return h("li", { class: "cap" }, item.cap);
    const over = item.status !== "pending";
    const [tone, mark, words] = verdictOf(item);
    const facts = [h("b", { dir: "auto" }, cut(summaryOf(item), 160)), h("span", { class: `who ${hueOf(item.agent)}` }, avatar(item.agent, "small"), named(item.agent), h("time", {}, over ? day(item.decided_at ?? item.requested_at) : ago(item.requested_at, now())))];
    facts.push(over ? h("span", { class: `left ${tone}` }, icon(mark, "small"), `${words}${item.decided_by ? ` by ${item.decided_by}` : ""}`) : item.expires_at && h("span", { class: "left", "data-until": item.expires_at }));
    const link = h("a", { href: address(item.id), "data-inbox": "1", "aria-current": item.id === this.id ? "true" : undefined }, facts);
    const box = !over && mayDecide(this.who, item) && h("input", { type: "checkbox", "aria-label": `Select: ${cut(summaryOf(item), 80)}`, checked: this.picked.has(item.id), onchange: (event) => (event.target.checked ? this.picked.add(item.id) : this.picked.delete(item.id), this.#several()) });
    return h("li", { class: `${over ? "done" : ""} ${item.id === this.id ? "on" : ""}` }, box, link);
  }

  #several() {
    this.several.hidden = this.picked.size < 2;
    if (this.several.hidden) return this.several.replaceChildren();
    if (this.several.dataset.count === String(this.picked.size) && this.several.children.length) return undefined;
    this.several.dataset.count = this.picked.size;
    const note = h("input", { class: "in", "aria-label": "Note for all", placeholder: "Note for all (optional)" });
    return this.several.replaceChildren(note, h("button", { class: "btn", type: "button", onclick: (event) => this.#rejectAll(note.value.trim(), event.target) }, `Reject ${this.picked.size}`));
  }

  async #rejectAll(note, button) {
    button.disabled = true;
    const done = await Promise.allSettled([...this.picked].map((id) => decide(id, { type: "reject", note })));
    const failed = done.find((each) => each.status === "rejected");
    this.picked.clear();
    complain(failed?.reason);
    this.list();
  }

  #count() {
    for (const each of document.querySelectorAll("[data-until]")) {
      const rest = Math.max(0, each.dataset.until - now());
      const words = `${left(rest)} left`;
      if (each.dataset.words === words) continue;
      each.dataset.words = words;
      each.classList.toggle("warn", rest < SOON);
      each.replaceChildren(...(each.matches(".big") ? [left(rest)] : [icon("hourglass", "small"), words]));
    }
    for (const each of document.querySelectorAll("progress[data-end]")) each.value = Math.max(0, each.dataset.end - now());
  }

  #show() {
    const { id } = this;
    const found = [...this.waiting, ...this.decided].find((each) => each.id === id);
    if (this.shown === `${id} ${found?.status}`) return;
    this.shown = `${id} ${found?.status}`;
    if (!id) return this.#nothing();
    if (found) return this.#draw(found);
    return get(`/approvals/${inPath(id)}`).then((row) => this.#draw(row), (problem) => this.#fault(problem));
  }

  #nothing() {
    byId("about").replaceChildren();
    byId("decide").replaceChildren(h("div", { class: "nothing" }, icon("inbox"), h("h2", {}, "Requests to people appear here"), h("p", {}, "A tool or a handoff that needs approval, a task that no agent takes, and tasks of people in the team. Declare `approval=True` on a tool to ask for one."), h("a", { class: "btn", href: `${root}/chat` }, "Open Chat")));
  }

  #fault(problem) {
    byId("decide").replaceChildren(h("div", { class: "nothing" }, h("h2", {}, problem.status === 404 ? "There is no such request" : "The request cannot be read"), h("p", {}, sentence(problem.message)), h("a", { class: "btn", href: address(""), "data-inbox": "1" }, "Back to the list")));
  }

  #draw(item) {
    const over = item.status !== "pending";
    const allowed = !over && mayDecide(this.who, item);
    const form = new RequestForm(item, { agents: this.agents, allowed, over, done: () => this.#decided() });
    const [tone, mark, words] = verdictOf(item);
    const verdict = over && h("p", { class: `verdict ${tone}` }, icon(mark), h("span", {}, `${words}${item.decided_by ? ` by ${item.decided_by}` : ""}${item.decided_at ? `, ${day(item.decided_at)}` : ""}${item.note ? `: ${item.note}` : ""}`));
    const excerpt = h("section", { class: "excerpt", "aria-label": "Conversation" }, h("h3", {}, "Conversation ", h("a", { class: "link", href: `${root}/chat/${inPath(item.root)}` }, "open")), h("p", { class: "meta" }, "Loading…"));
    byId("decide").replaceChildren(
      h("a", { class: "back link", href: address(""), "data-inbox": "1" }, "Back to the list"),
      h("header", {}, h("p", { class: "meta row" }, avatar(item.agent, "small"), h("span", {}, named(item.agent), ` asks, ${day(item.requested_at)}, in the `, h("a", { class: "link", href: `${root}/runs/${inPath(item.root)}` }, "run")), item.expires_at && !over && h("span", { class: "left phone", "data-until": item.expires_at })), h("h2", { dir: "auto" }, summaryOf(item)), item.message && summaryOf(item) !== item.message && h("p", { class: "soft", dir: "auto" }, item.message)),
      ...[verdict].filter(Boolean), form.element, excerpt,
      ...(over ? [] : [h("section", { class: "then", "aria-label": "What happens then" }, h("h3", {}, "What happens then"), h("dl", {}, consequences(item).map(([name, each]) => [h("dt", {}, name), h("dd", {}, each)])))]));
    byId("about").replaceChildren(...this.#about(item, over).filter(Boolean));
    this.#excerpt(item, excerpt);
    this.#count();
  }

  #decided() {
    const next = this.mine.find((each) => each.id !== this.id);
    history.pushState({}, "", address(matchMedia("(min-width: 1001px)").matches ? next?.id ?? "" : ""));
    this.shown = null;
    this.go();
    byId("decide").focus();
  }

  async #excerpt(item, box) {
    try {
      const said = await get(`/conversations/${inPath(item.root)}/events`);
      const lines = transcriptOf(said.items ?? said).filter((each) => each.kind === "user" || each.kind === "say").slice(-4);
      box.lastChild.replaceWith(h("ol", {}, lines.map((each) => h("li", {}, each.kind === "user" ? h("span", { class: "av small round hue7" }, icon("user-round", "small")) : avatar(each.agent, "small"), h("p", { dir: "auto" }, h("b", {}, each.kind === "user" ? h("bdi", {}, each.user || "User") : named(each.agent)), " ", cut(each.text, 400))))));
    } catch (problem) {
      box.lastChild.replaceWith(h("p", { class: "fault" }, problem.message));
    }
  }

  #about(item, over) {
    const section = (title, ...body) => h("section", {}, h("h3", {}, title), ...body);
    const end = item.expires_at && !over && section("Expires", h("p", { class: "big", "data-until": item.expires_at }), h("progress", { max: item.expires_at - item.requested_at, "data-end": item.expires_at, "aria-label": "Time left" }), h("p", { class: "meta" }, `At ${day(item.expires_at)} it is ${item.on_expiry === "approve" ? "approved" : "rejected"} by itself and ${nameOf(item.agent)} is told.`));
    const who = section("Who may decide", h("p", { class: "meta soft" }, item.roles?.length ? `Approvers with the role ${item.roles.join(" or ")}` : "Every approver and admin", over ? "" : mayDecide(this.who, item) ? ", you included." : "; you may not."));
    const why = section("Why a person", h("p", { class: "meta soft" }, reasons(item)));
    const lock = !over && h("div", { class: "notice" }, icon("lock"), h("span", {}, `Your decision holds only for what you see here. If ${nameOf(item.agent)} changes it, you are asked again.`));
    return [end, who, why, lock];
  }
}

function reasons(item) {
  const declined = item.arguments?.declined;
  if (item.kind === "escalation") return `${Array.isArray(declined) ? `Declined by ${declined.map(nameOf).join(", ")}` : "No receiver accepted"}${item.arguments?.reason ? `: ${item.arguments.reason}` : ""}.`;
  if (item.kind === "task") return `${nameOf(item.receiver || item.agent)} is a person of the team.`;
  if (item.kind === "permission") return "The receiver accepts only with a permission.";
  return item.receiver ? "This handoff is declared to need approval." : [h("span", { class: "mono" }, item.tool), " is declared to need approval."];
}

try {
  const { who, agents } = await frame();
  const inbox = new Inbox(who, agents);
  const step = (by) => {
    const links = [...document.querySelectorAll(".rows a")];
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  };
  shortcut("j", "Next request", () => step(1));
  shortcut("k", "Previous request", () => step(-1));
  inbox.go();
  await lookForRequests();
} catch (problem) {
  byId("mails").replaceChildren();
  broken(byId("decide"), problem, "The requests cannot be read");
}
