// The run page: a run as a chain, step by step, with everything that travelled.
import { BASE, get, inPath, may, now, post } from "../api.js";
import { byId, h, icon, root } from "../dom.js";
import { complain, frame, shortcut } from "../frame.js";
import { BUSY } from "../events.js";
import { sentence, STATUSES } from "../format.js";
import { live } from "../live.js";
import { ChainView } from "../run/chain.js";
import { showContext } from "../run/context.js";
import { showFacts } from "../run/facts.js";
import { Film } from "../run/film.js";
import { Scrubber } from "../run/scrubber.js";
import { spansOf } from "../run/spans.js";
import { Waterfall } from "../run/waterfall.js";
import { nameFlow, nameOf } from "../team.js";

const MARKED = ["handoff_accepted", "handoff_rejected", "handoff_expired", "circuit_found", "handoff_rolled_back"];
const id = decodeURIComponent(location.pathname.slice(`${root}/runs/`.length));

class RunPage {
  film = new Film();
  records = new Map();
  guards = [];
  #following = true; // the last step is shown, also when more events come
  #dirty = 0;
  #flowParts = null;
  #inspecting = null;

  constructor(who) {
    this.who = who;
    this.chain = new ChainView(byId("chain"), { choose: (handoff) => this.choose(handoff), go: (seq) => this.goTo(seq) });
    this.scrubber = new Scrubber(byId("scrub"), (step) => this.go(step));
    this.waterfall = new Waterfall({ box: byId("steps"), axis: byId("axis"), tabs: byId("filters"), choose: (span) => this.inspect(span) });
    byId("id").textContent = id;
    byId("talk").href = `${root}/chat/${inPath(id)}`;
    byId("export").href = `${BASE}/conversations/${inPath(id)}/export`;
    byId("cancel").addEventListener("click", () => this.cancel());
  }

  async load() {
    const [row, said, outcomes] = await Promise.all([get(`/conversations/${inPath(id)}`), get(`/conversations/${inPath(id)}/events`), get(`/conversations/${inPath(id)}/runs`), this.#lay()]);
    Object.assign(this, { row, outcomes: outcomes.items });
    this.guards = outcomes.items.at(-1)?.guards ?? [];
    for (const event of said.items) this.film.add(event);
    this.draw();
    const wanted = Number(new URLSearchParams(location.search).get("step"));
    this.go(wanted ? Math.min(this.film.last, wanted - 1) : this.film.last);
    live.subscribe(id, this.film.events.at(-1)?.seq ?? 0, (said) => said.kind === "event" && this.hear(said.event));
  }

  // The chain as the server lays it out, and the records of the handoffs.
  async #lay() {
    const [drawing, handoffs, flows] = await Promise.all([get(`/conversations/${inPath(id)}/chain`), get(`/conversations/${inPath(id)}/handoffs`), get(`/conversations/${inPath(id)}/workflows`)]);
    [this.flow] = flows.items;
    flows.items.forEach(nameFlow);
    this.drawing = drawing;
    this.records = new Map(handoffs.items.map((each) => [each.id, each]));
  }

  // An event that has just happened; several are shown together.
  hear(event) {
    this.film.add(event);
    this.#dirty ||= setTimeout(() => this.refresh(), 120);
  }

  async refresh() {
    clearTimeout(this.#dirty);
    this.#dirty = 0;
    try {
      const [row, outcomes] = await Promise.all([get(`/conversations/${inPath(id)}`), get(`/conversations/${inPath(id)}/runs`), this.#lay()]);
      Object.assign(this, { row, outcomes: outcomes.items });
      complain();
    } catch (problem) {
      complain(problem);
    }
    this.draw();
    this.go(this.#following ? this.film.last : this.step);
  }

  draw() {
    const { events } = this.film;
    byId("title").replaceChildren(h("bdi", {}, this.row.title || id));
    document.title = `${this.row.title || id} · Changeover`;
    this.spans = spansOf(events);
    showFacts(byId("facts"), this);
    if (this.flow) this.#steps();
    this.chain.draw(this.drawing);
    this.scrubber.resize(events.length, events.flatMap(({ type }, step) => (MARKED.includes(type) ? [{ step, bad: type !== "handoff_accepted" }] : [])));
    this.waterfall.draw(this.spans, events, now());
    this.#status();
    if (this.inspector?.shown?.handoff) this.inspector.handoff(this.inspector.shown.handoff);
  }

  // Script and styles are read only where a workflow runs: most conversations have none.
  async #steps() {
    this.#flowParts ??= Promise.all([import("../steps.js"), sheet("panels"), sheet("steps")]);
    const [{ showSteps }] = await this.#flowParts;
    showSteps(byId("flow"), this.flow, may(this.who, "operator") && ((step, button) => this.retry(step, button)));
  }

  #status() {
    const { status } = this.row;
    byId("status").replaceChildren(h("span", { class: `pill ${status}` }, h("i", { class: "dot" }), STATUSES[status] ?? status));
    byId("cancel").hidden = !may(this.who, "operator") || !BUSY.includes(status);
    this.#failure(status === "failed" && !this.flow && this.spans.findLast(({ fatal }) => fatal));
  }

  // Why the run failed, in full; a workflow says it beside its steps.
  #failure(span) {
    byId("failed").hidden = !span;
    if (span) byId("failed").replaceChildren(icon("triangle-alert"), h("span", {}, h("b", {}, "The run failed. "), h("bdi", {}, sentence(`${span.agent ? `${nameOf(span.agent)}: ` : ""}${span.fatal}`))));
  }

  // Show the run as it was after the step with this index.
  go(step) {
    const { events, frames, last } = this.film;
    const index = Math.max(0, Math.min(step, last));
    const [event, frameOf] = [events[index], frames[index]];
    if (!event) return;
    this.step = index;
    this.#following = index === last;
    const seconds = event.at - events[0].at;
    this.waterfall.show(event.seq);
    this.chain.show(event.seq, event.conversation);
    this.scrubber.show(index, `${index + 1} / ${last + 1}  ${clock(seconds)}`);
    showContext(byId("context"), frameOf, { hopAt: (...event) => this.chain.hopAt(...event), go: (seq) => this.goTo(seq), root: id });
    byId("step").textContent = `after step ${index + 1}`;
  }

  stepOf(seq) {
    return this.film.indexOf(seq);
  }

  goTo(seq) {
    this.scrubber.stop();
    this.go(this.stepOf(seq));
  }

  edge(handoff) {
    return this.drawing.edges.find((each) => each.handoff === handoff);
  }

  // The inspector, read when it is first opened.
  #opened() {
    const make = ({ Inspector }) => (this.inspector = new Inspector({ page: this, who: this.who, done: () => this.chain.select(null) }));
    return (this.#inspecting ??= import("../run/inspector.js").then(make));
  }

  async choose(handoff) {
    (await this.#opened()).handoff(handoff);
    this.chain.select(handoff); // the inspector has taken some room
  }

  async inspect(span) {
    this.goTo(span.until);
    if (span.handoff) await this.choose(span.handoff);
    else (await this.#opened()).span(span);
  }

  async retry(step, button) {
    button.disabled = true;
    try {
      await post(`/conversations/${inPath(id)}/steps/${inPath(step)}/retry`);
      await this.refresh();
    } catch (problem) {
      complain(problem);
      button.disabled = false;
    }
  }

  async cancel() {
    byId("cancel").disabled = true;
    try {
      await post(`/conversations/${inPath(id)}/cancel`, {});
      await this.refresh();
    } catch (problem) {
      complain(problem);
    }
    byId("cancel").disabled = false;
  }
}

const sheet = (name) => new Promise((done) => document.head.append(h("link", { rel: "stylesheet", href: `${root}/static/css/${name}.css`, onload: done, onerror: done })));
const clock = (seconds) => `${String(Math.floor(seconds / 60)).padStart(2, "0")}:${(seconds % 60).toFixed(1).padStart(4, "0")}`;

function fail(problem) {
  const missing = problem.status === 404;
  const box = byId("problem");
  box.className = "nothing";
  box.replaceChildren(h("h1", {}, missing ? "There is no such run" : "The run cannot be read"), h("p", {}, missing ? `No conversation has the id ${id}, or it belongs to another user.` : sentence(problem.message)),
    missing ? h("a", { class: "btn", href: `${root}/runs` }, "All runs") : h("button", { class: "btn", type: "button", onclick: () => location.reload() }, "Try again"));
  box.hidden = false;
  byId("content").hidden = true;
  for (const each of ["talk", "export"]) byId(each).hidden = true;
}

try {
  const { who } = await frame();
  const page = new RunPage(who);
  shortcut("ArrowLeft", "One step back", () => page.scrubber.step(-1));
  shortcut("ArrowRight", "One step on", () => page.scrubber.step(1));
  shortcut("Home", "First step", () => page.scrubber.step(-Infinity));
  shortcut("End", "Last step", () => page.scrubber.step(Infinity));
  shortcut("p", "Play or pause", () => page.scrubber.toggle());
  shortcut("Escape", "Close the inspector", () => page.inspector?.close());
  await page.load();
} catch (problem) {
  fail(problem);
}
byId("body").removeAttribute("aria-busy");
