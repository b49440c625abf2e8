// Queue: stuck tickets with what to do about them, tickets by their standing, and the workers that hold them.
import { call, get, inPath, may, now, post } from "../api.js";
import { level } from "../chart.js";
import { byId, h, icon, root } from "../dom.js";
import { ago, cut, plural, took } from "../format.js";
import { broken, complain, frame } from "../frame.js";
import { live } from "../live.js";
import { ask, field, keepFresh } from "../panel.js";
import { avatar, hueOf, named, nameOf } from "../team.js";

const REFRESH = 5; // seconds
const LEASE = 60; // seconds of a full bar, unless the lease is longer
const STUCK = 3; // reasons for which tickets are stuck that are shown in full, each with its oldest ticket
const LANES = { waiting: "Waiting", claimed: "Claimed", resting: "On hold" };
const ENDS = { COMPLETE: "good", RETURNED: "good", REJECTED: "bad", FAILED: "bad", TIMEOUT: "warn" };
const PRIORITIES = (priority) => (priority >= 20 ? "urgent" : priority > 0 ? "high" : priority < 0 ? "low" : "");
const wanted = () => new URLSearchParams(location.search).get("receiver") ?? "";

class Queue {
  #timer = 0;
  #seen = "";

  constructor(who, agents) {
    Object.assign(this, { agents, operates: may(who, "operator"), view: null });
    byId("receivers").addEventListener("click", (event) => this.#choose(event));
    addEventListener("popstate", () => this.draw(true));
    live.watch("queue", () => this.#soon());
    setInterval(() => this.view && this.draw(), 1000);
  }

  #choose(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState({}, "", link.href);
    this.draw(true);
  }

  // Changes come in bursts; one reading shows all of them.
  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.load(), 200);
  }

  async load() {
    try {
      this.view = await get("/queue");
      complain();
      this.draw();
    } catch (problem) {
      if (this.#seen) complain(problem);
      else broken(byId("tickets"), problem);
    }
    byId("body").removeAttribute("aria-busy");
  }

  draw(anew = false) {
    const { tickets, agents, total } = this.view;
    const only = wanted();
    const mine = tickets.filter((each) => !only || each.agent === only);
    const ages = tickets.filter((each) => each.standing === "waiting" || each.standing === "stuck").map((each) => now() - each.at);
    byId("count").textContent = total ? `${plural(total, "open ticket")}${ages.length ? `, oldest waits ${took(Math.max(...ages))}` : ""}` : "nothing waits";
    const standing = JSON.stringify([only, mine, this.view.workers, this.view.ended, Math.floor(now() / (mine.some((each) => each.until) ? 1 : 10))]);
    if (!anew && (standing === this.#seen || document.querySelector("#body :focus-visible"))) return;
    this.#seen = standing;
    const receivers = ["", ...Object.keys(agents)];
    byId("receivers").replaceChildren(...(receivers.length > 2 ? receivers.map((id) => h("a", { href: id ? `?receiver=${encodeURIComponent(id)}` : location.pathname, "aria-current": id === only ? "true" : undefined }, id ? nameOf(id) : "All receivers")) : []));
    const ended = this.view.ended.filter((each) => !only || each.receiver === only);
    const stuck = [...Map.groupBy(mine.filter((each) => each.standing === "stuck"), (each) => `${each.agent} ${each.why}`).values()].slice(0, STUCK);
    this.inFull = new Set(stuck.map(([oldest]) => oldest));
    byId("tickets").replaceChildren(...(mine.length || ended.length ? [...stuck.map((each) => this.#stuck(each)), this.#lanes(mine, ended)] : [nothing()]));
    this.#workers(only);
  }

  #stuck([ticket, ...others]) {
    const since = h("span", {}, `Stuck for ${took(now() - ticket.at)}`);
    return h("section", { class: "stuck", "aria-label": `Stuck: ${ticket.id}` },
      h("div", { class: "head" }, icon("triangle-alert"), since, h("span", { class: "mono dim" }, ticket.id)),
      h("h2", {}, this.#link(ticket)), h("p", {}, h("b", {}, "Why: "), ticket.why.replace(` ${ticket.agent}`, () => ` ${nameOf(ticket.agent)}`), ticket.sender && ticket.sender !== "code" ? [" ", named(ticket.sender), " waits for it."] : null, others.length > 0 && ` ${plural(others.length, "more ticket is", "more tickets are")} stuck for the same reason.`), this.#acts(ticket, true));
  }

  #link(ticket) {
    return h("a", { href: `${root}/runs/${inPath(ticket.root)}` }, h("bdi", {}, ticket.task || ticket.id));
  }

  #acts(ticket, wide = false) {
    if (!this.operates) return null;
    const button = (words, act, more = "", brief = words) => h("button", { class: `btn ${wide ? "" : "small"} ${more}`, type: "button", "aria-label": `${words}: ${cut(ticket.task || ticket.id, 60)}`, onclick: act }, wide ? words : brief);
    const path = `/tickets/${inPath(ticket.id)}`;
    const reload = () => this.load();
    const others = this.agents.filter(({ id, kind }) => id !== ticket.agent && kind !== "function");
    const pick = () => h("select", { class: "in", name: "receiver", required: true }, others.map(({ id }) => h("option", { value: id }, nameOf(id))));
    const why = () => h("input", { class: "in", name: "reason", maxlength: 500 });
    const give = () => ask({ title: "Give it to another agent", words: `${nameOf(ticket.agent)} loses the ticket, and the other agent is offered it next.`, fields: [field("Agent", pick()), field("Why (optional)", why())], button: "Give it to this agent", act: ({ receiver, reason }) => post(`${path}/hand-on`, { receiver, reason }).then(reload) });
    const retry = () => ask({ title: "Let another worker try it?", words: ticket.worker ? `${ticket.worker} loses its claim, and any worker of ${nameOf(ticket.agent)} can take the ticket now.` : `Any worker of ${nameOf(ticket.agent)} can take it now, and its failed claims are forgotten.`, button: "Retry", act: () => call("POST", `${path}/retry`).then(reload) });
    const cancel = () => ask({ title: "Cancel this ticket?", words: "The work ends here; its sender is told.", fields: [field("Why (optional)", why())], button: "Cancel the ticket", danger: true, act: ({ reason }) => post(`${path}/cancel`, { reason }).then(reload) });
    return h("div", { class: "acts" }, !ticket.accepted && others.length > 0 && button("Give to another", give, wide ? "primary" : "", "Give to…"), ticket.standing !== "resting" && button("Retry", retry), button("Cancel", cancel, "danger"));
  }

  #lanes(tickets, ended) {
    const lanes = Object.entries(LANES).map(([name, words]) => {
      const here = tickets.filter((each) => (each.standing === "stuck" ? "waiting" : each.standing) === name);
      return lane(words, here.length, here.slice(0, 20).map((each) => this.#ticket(each)), here.length > 20 && `${here.length - 20} more`);
    });
    return h("div", { class: "lanes" }, lanes, lane("Ended", ended.length, ended.map(over)));
  }

  #ticket(ticket) {
    const left = ticket.until === null ? null : Math.max(0, ticket.until - now());
    const stuck = ticket.standing === "stuck";
    return h("li", { class: `ticket ${stuck ? "is-stuck" : ""}` },
      h("span", { class: "top" }, short(ticket.id), h("span", { class: "meta" }, PRIORITIES(ticket.priority))),
      h("span", { class: "task" }, this.#link(ticket)), h("span", { class: `row ${hueOf(ticket.agent)}` }, avatar(ticket.agent, "small"), ticket.worker ? h("span", { class: "mono" }, ticket.worker) : named(ticket.agent)),
      left !== null ? h("span", { class: "lease" }, "lease", level(left / Math.max(LEASE, left), { tone: left < 10 ? "warn" : "" }), h("span", { class: "mono" }, took(left))) : h("span", { class: `meta ${stuck ? "bad" : ""}` }, ticket.standing === "resting" ? "waits for a person or a delegate" : `waiting ${took(now() - ticket.at)}${ticket.attempts ? `, ${plural(ticket.attempts, "failed claim")}` : ""}`),
      !this.inFull.has(ticket) && this.#acts(ticket));
  }

  #workers(only) {
    const workers = this.view.workers.filter((each) => !only || each.agents.includes(only));
    const alive = workers.filter((each) => each.alive).length;
    const unserved = [...new Set(this.view.tickets.filter((each) => each.standing === "stuck").map((each) => each.agent))];
    const line = (each) => h("li", { class: `${each.alive ? "" : "gone"} ${hueOf(each.agents[0] ?? "")}` }, each.agents.length ? avatar(each.agents[0], "small") : h("span"), h("b", { title: each.name }, each.name),
      h("span", { class: `meta ${each.alive ? "" : "bad"}` }, each.alive ? "alive" : `gone ${ago(each.until, now()).replace(" ago", "").replace("just now", "now")}`), each.tickets.length > 0 && h("span", { class: "holds", "aria-hidden": "true" }, each.tickets.slice(0, 12).map(() => h("i"))),
      h("span", { class: "meta" }, each.alive ? (each.tickets.length ? `holds ${plural(each.tickets.length, "ticket")}` : "holds nothing") : "its tickets are free again", each.agents.length > 0 && [" · serves ", each.agents.map(nameOf).join(", ")]));
    byId("workers").replaceChildren(h("header", {}, h("h2", {}, "Workers"), h("span", { class: "meta" }, workers.length ? `${alive} of ${workers.length} alive` : "none")), h("ul", {}, workers.map(line)),
      h("p", { class: "start-one" }, "Start one with ", h("code", {}, `changeover worker TEAM --agents ${unserved[0] || only || Object.keys(this.view.agents)[0] || "AGENT"}`)));
  }
}

const LETTERS = 14; // of an id; its end tells tickets apart
const short = (id) => h("span", { class: "id", title: id }, h("bdi", {}, id.length > LETTERS ? `…${id.slice(-LETTERS + 1)}` : id));

const lane = (words, count, items, more) => h("section", { class: "lane", "aria-label": words }, h("h2", {}, words, h("span", { class: "dim" }, String(count))), items.length ? h("ul", {}, items) : h("p", { class: "meta" }, "none"), more && h("p", { class: "meta" }, more));

const over = (each) =>
  h("li", { class: "ticket over" }, h("span", { class: "top" }, short(each.id), h("span", { class: `pill ${ENDS[each.state] ?? ""}` }, each.state)),
    h("span", { class: "task" }, h("a", { href: `${root}/runs/${inPath(each.conversation.split("/")[0])}` }, h("bdi", {}, each.message || each.id))), h("span", { class: "meta" }, `${took(each.ended_at - each.offered_at)}, `, named(each.receiver), each.reason && `: ${cut(each.reason, 120)}`));

const nothing = () =>
  h("div", { class: "nothing" }, h("h2", {}, "Work that waits for a worker appears here"),
    h("p", {}, "An agent that is declared with pull=True gets its handoffs through the queue: a worker in any process, or in any language over HTTP, claims and answers them."),
    h("div", { class: "start-here" }, h("pre", {}, h("code", {}, 'Agent("billing", pull=True)')), h("pre", {}, h("code", {}, "changeover worker TEAM --agents billing"))));

try {
  const { who, agents } = await frame();
  const queue = new Queue(who, agents);
  await keepFresh(() => queue.load(), REFRESH);
} catch (problem) {
  broken(byId("tickets"), problem);
}
