// Runs: every conversation with the team, filtered and live.
import { get, inPath, now, query } from "../api.js";
import { byId, h, icon, keyed, root, s } from "../dom.js";
import { broken, complain, frame, shortcut } from "../frame.js";
import { ago, day, STATUSES } from "../format.js";
import { live } from "../live.js";
import { avatar, named, nameOf } from "../team.js";

const PAGE = 50;

class Runs {
  #timer = 0;
  #asked = 0;

  constructor(agents) {
    Object.assign(this, { rows: [], next: null, form: byId("filters"), box: byId("list") });
    this.form.agent.append(...agents.map(({ id }) => h("option", { value: id }, nameOf(id))));
    this.form.status.append(...Object.entries(STATUSES).filter(([value]) => value !== "idle").map(([value, words]) => h("option", { value }, words)));
    for (const [name, value] of new URLSearchParams(location.search)) if (this.form[name]) this.form[name].value = value;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", () => this.#soon());
    this.body = h("tbody");
    this.more = h("button", { class: "btn", type: "button", onclick: () => this.load(this.next) }, "Show more");
    const heads = ["Title", "Status", "Agent", "From", "Handoffs", "Began", "Last change"];
    this.table = [h("table", { class: "runs" }, h("thead", {}, h("tr", {}, heads.map((each) => h("th", { scope: "col" }, each)))), this.body), h("p", { class: "more-runs" }, this.more)];
    live.watch("conversations", (said) => this.hear(said));
    setInterval(() => this.draw(), 30000);
  }

  get filters() {
    const { q, agent, status, since } = Object.fromEntries(new FormData(this.form));
    return { text: q.trim(), agent, status, since: Number(since) || 0 };
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.load(), 150);
  }

  async load(cursor = null) {
    const asked = ++this.#asked;
    const { since, ...wanted } = this.filters;
    const { q, ...kept } = Object.fromEntries(new FormData(this.form));
    history.replaceState({}, "", `${location.pathname}${query({ q, ...kept })}`);
    try {
      const said = await get(`/conversations${query({ ...wanted, limit: PAGE, cursor })}`);
      if (asked !== this.#asked) return; // a later filter is under way
      const rows = said.items ?? said;
      const recent = rows.filter((each) => !since || each.updated_at >= now() - since);
      this.rows = cursor ? [...this.rows, ...recent] : recent;
      this.next = recent.length < rows.length ? null : said.next ?? null;
      complain();
      this.draw();
    } catch (problem) {
      broken(this.box, problem, "The runs cannot be read", () => this.load());
    }
    this.box.removeAttribute("aria-busy");
  }

  // A row that changed: it moves to the top if it fits the filters.
  hear(said) {
    if (said.kind === "gone") this.rows = this.rows.filter((each) => each.id !== said.id);
    if (said.kind === "change" && !said.item.parent) {
      const { item } = said;
      this.rows = this.rows.filter((each) => each.id !== item.id);
      if (this.#fits(item)) this.rows = [item, ...this.rows].sort((a, b) => b.updated_at - a.updated_at);
    }
    if (this.box.hasAttribute("aria-busy")) return;
    if (said.kind === "snapshot") this.load(); // after a break: what changed meanwhile
    else this.draw();
  }

  #fits(row) {
    const { text, agent, status } = this.filters;
    return (!agent || row.agent === agent) && (!status || row.status === status) && (!text || `${row.title} ${row.id}`.toLowerCase().includes(text.toLowerCase()));
  }

  draw() {
    const { text, agent, status, since } = this.filters;
    const narrowed = text || agent || status || since;
    byId("count").textContent = this.rows.length ? `${this.rows.length}${this.next ? "+" : ""}` : narrowed ? "" : "none yet";
    if (!this.rows.length) return this.box.replaceChildren(narrowed ? h("div", { class: "nothing" }, h("h2", {}, "No run fits these filters"), h("button", { class: "btn", type: "button", onclick: () => (this.form.reset(), this.load()) }, "Show all runs")) : nothing());
    if (this.box.firstChild !== this.table[0]) this.box.replaceChildren(...this.table);
    this.more.parentElement.hidden = !this.next;
    return keyed(this.body, this.rows.map((each) => ({ ...each, key: each.id, rev: `${each.updated_at} ${each.status} ${each.title} ${ago(each.updated_at, now())}` })), row);
  }
}

// A figure; on a phone, where the heads of the columns are hidden, with its unit.
const figure = (count, unit) => h("td", { class: "num" }, String(count), h("span", { class: "unit" }, ` ${unit}${count === 1 ? "" : "s"}`));

const row = (each) =>
  h("tr", {},
    h("td", { class: "title" }, h("a", { href: `${root}/runs/${inPath(each.id)}` }, h("bdi", {}, each.title || each.id))),
    h("td", {}, h("span", { class: `pill ${each.status}` }, h("i", { class: "dot" }), STATUSES[each.status] ?? each.status)),
    h("td", {}, h("span", { class: "row" }, avatar(each.agent, "small"), named(each.agent))),
    h("td", { class: "apart soft" }, each.user ? h("bdi", {}, each.user) : "–"),
    figure(each.handoffs, "handoff"),
    h("td", { class: "apart meta" }, day(each.created_at)),
    h("td", { class: "meta", title: day(each.updated_at) }, ago(each.updated_at, now())));

function nothing() {
  const box = (x, y, hue, name, sub) => s("g", { class: hue, transform: `translate(${x} ${y})` }, s("rect", { class: "box", width: 132, height: 44, rx: 9 }), s("rect", { class: "mark", x: 9, y: 9, width: 4, height: 26, rx: 2 }), s("text", { class: "name", x: 22, y: 19 }, name), s("text", { class: "sub", x: 22, y: 35 }, sub));
  const art = s("svg", { width: 680, height: 150, role: "img", "aria-label": "Example of a chain: Triage, Billing, Technical, Triage" },
    s("path", { d: "M138 28h12q10 0 10 10v27q0 10 10 10h12M314 75h12q10 0 10 10v27q0 10 10 10h12M490 122h12q10 0 10-10V38q0-10 10-10h12" }),
    box(6, 6, "hue1", "Triage", "reads"), box(182, 53, "hue2", "Billing", "refunds"), box(358, 100, "hue3", "Technical", "explains"), box(534, 6, "hue1", "Triage", "answers"));
  const way = (mark, title, words, act) => h("li", {}, icon(mark), h("b", {}, title), h("span", {}, words), act);
  return h("div", { class: "nothing" }, h("div", { class: "example" }, art), h("h2", {}, "Runs appear here, one for each conversation"),
    h("p", {}, "You will see who handed work to whom and why, what travelled with it, how long each step took and what it cost. You can step through any run."),
    h("ul", { class: "ways" },
      way("messages-square", "Ask the team", "Write a message. The run shows up here while it is under way.", h("a", { class: "btn primary", href: `${root}/chat` }, "Open Chat")),
      way("play", "See a demo", "Recorded runs with transfers, delegates, a rejection and a person. No model key needed.", h("pre", {}, h("code", {}, "changeover serve --demo"))),
      way("terminal", "Call it from code", "Any team that uses this store shows up, whichever process it runs in.", h("pre", {}, h("code", {}, 'await team.run("Order 1042")')))));
}

try {
  const { agents } = await frame();
  const runs = new Runs(agents);
  shortcut("/", "Search titles", () => byId("find").focus());
  await runs.load();
} catch (problem) {
  broken(byId("list"), problem);
}
