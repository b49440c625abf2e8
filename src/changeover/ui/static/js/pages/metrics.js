// Metrics: how handoffs went in a range of time. Every figure shows its runs.
import { get, may, now, post, query } from "../api.js";
import { bars, chart, grid, level, lines } from "../chart.js";
import { byId, h, root } from "../dom.js";
import { count, day, maybe, percent, plural, took } from "../format.js";
import { broken, complain, frame } from "../frame.js";
import { ask, keepFresh, legend, panel, quiet, scrolling, showRuns } from "../panel.js";
import { hueOf, named, nameOf } from "../team.js";

const RANGES = { "1h": ["1 hour", 3600], "24h": ["24 hours", 86400], "7d": ["7 days", 604800], "30d": ["30 days", 2592000], all: ["All", ""] };
const STATES = { closed: "good", open: "bad", "half-open": "warn" };
const REFRESH = 5; // seconds
const range = () => (RANGES[new URLSearchParams(location.search).get("range")] ? new URLSearchParams(location.search).get("range") : "24h");
const ms = (seconds) => took(seconds);
const onAxis = (seconds) => (seconds >= 3600 ? `${Number((seconds / 3600).toPrecision(2))} h` : seconds >= 60 ? `${Math.round(seconds / 60)} min` : seconds ? ms(seconds) : "0");
const nonzero = (...counts) => counts.filter(([each]) => each).map(([each, ...words]) => plural(each, ...words)).join(", ");

class Dashboard {
  #seen = "";
  #asked = 0;

  constructor(who) {
    this.operates = may(who, "operator");
    byId("ranges").addEventListener("click", (event) => this.#choose(event));
    addEventListener("popstate", () => this.load());
  }

  get window() {
    return RANGES[range()][1];
  }

  #choose(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState({}, "", link.href);
    this.load();
  }

  async load() {
    const asked = ++this.#asked;
    byId("ranges").replaceChildren(...Object.entries(RANGES).map(([name, [words]]) => h("a", { href: `?range=${name}`, "aria-current": name === range() ? "true" : undefined }, words)));
    byId("span").textContent = this.window ? `Last ${RANGES[range()][0]}` : "All time";
    try {
      const [figures, breakers, queue] = await Promise.all([get(`/metrics${query({ window: this.window })}`), get("/breakers"), get("/queue")]);
      if (asked !== this.#asked) return; // another range was chosen meanwhile
      complain();
      this.#draw(figures, breakers.items, queue);
    } catch (problem) {
      if (asked !== this.#asked) return;
      if (this.#seen) complain(problem);
      else broken(byId("body"), problem);
    }
    byId("body").removeAttribute("aria-busy");
  }

  #draw(figures, breakers, queue) {
    const { since, until, ...facts } = figures;
    const standing = JSON.stringify([range(), facts, breakers, queue.agents, queue.workers.map(({ name, alive }) => [name, alive])]);
    if (standing === this.#seen || document.querySelector("#body :focus-visible")) return; // nothing new, or a person is in it
    this.#seen = standing;
    const open = new Set([...document.querySelectorAll("#body details[open]")].map((each) => each.closest("section").ariaLabel));
    byId("body").replaceChildren(h("div", { class: "panels" },
      this.#kpis(figures), this.#handoffs(figures), this.#latency(figures), this.#depths(figures), this.#tokens(figures),
      this.#agents(figures), this.#pairs(figures), this.#breakers(breakers), this.#limits(figures), this.#queue(queue)));
    for (const each of document.querySelectorAll("#body details")) each.open = open.has(each.closest("section").ariaLabel);
  }

  // A handler that shows the runs behind a figure.
  #runs(title, wanted) {
    return () => showRuns(title, { window: this.window, ...wanted });
  }

  #figure(value, title, wanted) {
    return value ? { text: count(value), act: this.#runs(title, wanted) } : "0";
  }

  // A time that shows the slowest handoffs to an agent.
  #time(value, id, figure) {
    return value === null ? "–" : { text: ms(value), act: this.#runs(`Slowest handoffs to ${nameOf(id)}`, { figure, receiver: id }) };
  }

  #kpis({ totals, depths, price }) {
    const runs = Object.values(depths).reduce((all, each) => all + each, 0);
    const made = Object.entries(depths).reduce((all, [deep, each]) => all + deep * each, 0);
    const deepest = Math.max(0, ...Object.keys(depths).map(Number));
    const kpi = (label, value, below, wanted) => h(wanted ? "button" : "div", { class: "kpi", ...(wanted ? { type: "button", onclick: this.#runs(label, wanted) } : {}) }, h("span", {}, label), h("b", {}, value), h("small", {}, below));
    const lost = totals.failed + totals.rejected + totals.timeouts;
    return h("div", { class: "kpis whole" },
      kpi("Runs", count(runs), nonzero([totals.turns, "model call"], [totals.retries, "retry", "retries"]), runs && { figure: "depths" }),
      kpi("Handoffs per run", runs ? (made / runs).toFixed(1) : "–", runs ? `at most ${deepest}` : "no run has ended", runs && { figure: "depths", name: String(deepest) }),
      kpi("Handoff success", percent(totals.success_rate), nonzero([totals.failed, "failed", "failed"], [totals.rejected, "rejected", "rejected"], [totals.timeouts, "timed out", "timed out"]) || "none was lost", totals.rejected ? { figure: "rejected" } : lost && { figure: totals.failed ? "failed" : "timeouts" }),
      kpi("Latency p95", maybe(totals.latency.p95, ms), `median ${maybe(totals.latency.p50, ms)}`, totals.latency.count && { figure: "latency" }),
      kpi("Work time p95", maybe(totals.work_time.p95, ms), `median ${maybe(totals.work_time.p50, ms)}`, totals.work_time.count && { figure: "work_time" }),
      kpi("Deadlocks", count(totals.deadlocks), totals.refused ? `${count(totals.refused)} refused in all` : "none refused", totals.deadlocks ? { figure: "deadlocks" } : totals.refused && { figure: "refused" }),
      kpi("Cost", price, `${count(totals.tokens)} tokens`, totals.runs && { figure: "runs" }));
  }

  #handoffs({ periods, totals }) {
    if (!totals.count) return panel("Handoffs", {}, quiet("Handoffs appear here as soon as an agent offers one. Ask the team something in the chat."));
    const labels = labelsOf(periods);
    const items = periods.map(({ count: all, done, lost }, index) => ({ label: labels.short[index], title: `${labels.long[index]}: ${done} done, ${lost} lost, ${all - done - lost} other`, parts: [[done, "done"], [lost, "lost"], [all - done - lost, "other"]] }));
    const rows = periods.map((each, index) => [labels.long[index], each.count, each.done, each.lost, each.count - each.done - each.lost].map(String));
    const more = [h("span", { class: "grow" }), legend(["done", "done"], ["lost", "failed, rejected, timed out"], ["other", "open or withdrawn"])];
    return panel("Handoffs", { more }, chart(`Handoffs in ${plural(periods.length, "period")}, ${totals.count} in all`, bars(items), { heads: ["From", "Offered", "Done", "Lost", "Other"], rows, label: "Handoffs" }));
  }

  #latency({ periods, totals }) {
    if (!totals.latency.count) return panel("Handoff latency", {}, quiet("From offer to acceptance; no handoff was accepted in this range."));
    const labels = labelsOf(periods);
    const series = [["half", "p50"], ["most", "p95"]].map(([tone, name]) => ({ tone, values: periods.map(({ latency }) => latency[name]) }));
    const titles = periods.map(({ latency }, index) => `${labels.long[index]}: p50 ${maybe(latency.p50, ms)}, p95 ${maybe(latency.p95, ms)}`);
    const rows = periods.map(({ latency }, index) => [labels.long[index], String(latency.count), maybe(latency.p50, ms), maybe(latency.p95, ms)]);
    return panel("Handoff latency", { more: [h("span", { class: "grow" }), legend(["half", "p50"], ["most", "p95"])] }, chart("Latency of handoffs over time", lines(labels.short, series, onAxis, titles), { heads: ["From", "Accepted", "p50", "p95"], rows, label: "Handoff latency" }));
  }

  #depths({ depths }) {
    const deep = Object.keys(depths).map(Number);
    if (!deep.length) return panel("Handoffs per run", {}, quiet("How many handoffs each run made; no run has ended in this range."));
    const all = Array.from({ length: Math.max(...deep) + 1 }, (_, each) => each);
    const shown = (each) => this.#runs(`Runs with ${plural(each, "handoff")}`, { figure: "depths", name: String(each) });
    const items = all.map((each) => ({ label: String(each), title: `${plural(each, "handoff")}: ${plural(depths[each] ?? 0, "run")}`, parts: [[depths[each] ?? 0, "done"]], act: depths[each] && shown(each) }));
    const rows = all.map((each) => [plural(each, "handoff"), depths[each] ? { text: count(depths[each]), act: shown(each) } : "0"]);
    return panel("Handoffs per run", { more: h("span", { class: "meta" }, "runs by the number of their handoffs; delegates count as one") }, chart("Runs by the number of their handoffs", bars(items), { heads: ["Handoffs", "Runs"], rows, label: "Handoffs per run" }));
  }

  #tokens({ agents, totals, price, prices }) {
    const spent = Object.entries(agents).filter(([, each]) => each.tokens).sort(([, a], [, b]) => b.tokens - a.tokens);
    if (!spent.length) return panel("Tokens and cost per agent", {}, quiet("Tokens appear here when a run has ended."));
    const most = spent[0][1].tokens;
    const line = ([id, each]) => h("li", { class: hueOf(id) }, named(id), level(each.tokens / most),
      h("button", { class: "figure num", type: "button", onclick: this.#runs(`Runs of ${nameOf(id)}`, { figure: "runs", name: id }) }, count(each.tokens)), h("span", { class: "num" }, prices[id]));
    const rows = spent.map(([id, each]) => [nameOf(id), count(each.input_tokens), count(each.output_tokens), count(each.tokens), prices[id], count(each.turns)]);
    return panel("Tokens and cost per agent", { more: h("span", { class: "meta" }, `${count(totals.tokens)} tokens, ${price}`) },
      h("div", { class: "in-panel" }, h("ul", { class: "tokens" }, spent.slice(0, 12).map(line)), h("details", { class: "numbers" }, h("summary", {}, "Numbers"), scrolling("Numbers of tokens", grid({ heads: ["Agent", "Input", "Output", "Tokens", "Cost", "Model calls"], rows, label: "Tokens per agent" })))));
  }

  #agents({ agents }) {
    const rows = Object.entries(agents).filter(([, each]) => each.count || each.refused || each.breaker_openings).map(([id, each]) => [h("span", { class: "row" }, named(id)), ...this.#outcome(each, `to ${nameOf(id)}`, { receiver: id }), maybe(each.work_time.p50, ms), this.#time(each.work_time.p95, id, "work_time"),
      this.#figure(each.refused, `Handoffs of ${nameOf(id)} that were refused`, { figure: "refused", name: id }), String(each.breaker_openings)]);
    return this.#table("Agents", rows, ["Receiver", ...OUTCOME, "Work p50", "Work p95", "Refused", "Breaker opened"], "Agents appear here when they get handoffs.");
  }

  #pairs({ pairs }) {
    const rows = pairs.map((each) => [h("span", {}, SENDERS[nameOf(each.sender)] ?? named(each.sender), " → ", named(each.receiver)), ...this.#outcome(each, `from ${nameOf(each.sender)} to ${nameOf(each.receiver)}`, { sender: each.sender, receiver: each.receiver }), percent(each.tokens_before ? each.tokens_after / each.tokens_before : null, 0)]);
    return this.#table("Pairs", rows, ["From → to", ...OUTCOME, "Context kept"], "Pairs appear here when one agent hands to another.");
  }

  #table(title, rows, heads, nothing) {
    return panel(title, { whole: true }, rows.length ? scrolling(title, grid({ heads, rows, label: title })) : quiet(nothing));
  }

  #outcome(each, who, wanted) {
    const cell = (figure, words) => this.#figure(each[figure], `Handoffs ${who}${words}`, { figure, ...wanted });
    return [percent(each.success_rate), cell("count", ""), cell("done", ", done"), cell("failed", ", failed"), cell("rejected", ", rejected"), cell("timeouts", ", timed out"), cell("open", ", open"), maybe(each.latency.p50, ms), maybe(each.latency.p95, ms)];
  }

  #breakers(breakers) {
    if (!breakers.length) return panel("Circuit breakers", {}, quiet("All closed: no receiver has failed yet."));
    const reset = (id) => ask({ title: `Reset the breaker of ${nameOf(id)}?`, words: "It closes, its failures are forgotten, and the agent gets handoffs again.", button: "Reset", act: () => post(`/breakers/${encodeURIComponent(id)}/reset`).then(() => this.load()) });
    const row = (each) => [named(each.receiver), h("span", { class: `pill ${STATES[each.state]}` }, h("i", { class: "dot" }), each.state), String(each.failures), each.forced ? "until it is reset" : each.until && each.state === "open" ? (each.until > now() ? `in ${took(each.until - now())}` : "with the next handoff") : "–", String(each.openings),
      ...(this.operates ? [each.state !== "closed" || each.failures ? h("button", { class: "btn small", type: "button", "aria-label": `Reset ${nameOf(each.receiver)}`, onclick: () => reset(each.receiver) }, "Reset") : ""] : [])];
    return panel("Circuit breakers", {}, scrolling("Circuit breakers", grid({ heads: ["Agent", "State", "Failures", "Next try", "Opened", ...(this.operates ? [""] : [])], rows: breakers.map(row), label: "Circuit breakers" })));
  }

  #limits({ limits }) {
    const rows = Object.entries(limits).map(([name, each]) => [h("code", {}, name), this.#figure(each, `Conversations that reached ${name}`, { figure: "limits", name })]);
    return panel("Limits reached", {}, rows.length ? grid({ heads: ["Limit", "Conversations"], rows, label: "Limits reached" }) : quiet("No conversation has reached a limit in this range."));
  }

  #queue({ agents, workers }) {
    const alive = workers.filter((each) => each.alive).length;
    const rows = Object.entries(agents).map(([id, each]) => [named(id), String(each.waiting), each.stuck ? h("span", { class: "bad" }, String(each.stuck)) : "0", String(each.claimed), String(each.resting), maybe(each.oldest, took), String(each.workers)]);
    const more = [h("span", { class: "meta" }, plural(alive, "live worker")), h("span", { class: "grow" }), h("a", { class: "link meta", href: `${root}/queue` }, "Open the queue")];
    return panel("Queue", { more, whole: true }, rows.length ? scrolling("Queue", grid({ heads: ["Agent", "Waiting", "Stuck", "Claimed", "On hold", "Oldest", "Workers"], rows, label: "Queue" })) : quiet("No ticket waits, and no worker is there. Agents with pull=True get their work from the queue."));
  }
}

const SENDERS = { bus: "An event", code: "Code" }; // what hands over without being a member
const OUTCOME = ["Success", "Offered", "Done", "Failed", "Rejected", "Timed out", "Open", "Latency p50", "Latency p95"];

// The beginnings of periods: times of a day, or dates.
function labelsOf(periods) {
  const wide = periods.length && periods[0].end - periods[0].start >= 86400;
  const date = (at) => new Date(at * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });
  const time = (at) => new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
  return { short: periods.map(({ start }) => (wide ? date(start) : time(start))), long: periods.map(({ start }) => (wide ? date(start) : day(start))) };
}

try {
  const { who } = await frame();
  const dashboard = new Dashboard(who);
  await keepFresh(() => dashboard.load(), REFRESH);
} catch (problem) {
  broken(byId("body"), problem);
}
