// The timeline: a row for each thing that took time, on one axis; and every event as it is recorded.
import { h, icon, keyed, s } from "../dom.js";
import { cut, took } from "../format.js";
import { hueOf, named } from "../team.js";
import { Axis } from "./spans.js";

export const FILTERS = {
  all: ["All", () => true],
  model: ["Model", (span) => span.kind === "model"],
  tools: ["Tools", (span) => span.kind === "tools"],
  handoffs: ["Handoffs", (span) => span.kind === "handoffs"],
  errors: ["Errors", (span) => span.bad],
  raw: ["Raw events", () => false],
};
const ICONS = { model: "sparkles", tools: "wrench", handoffs: "arrow-right-left", people: "hourglass", other: "circle" };

export class Waterfall {
  #rows = [];
  #open = new Set(); // delegates whose own spans are shown
  filter = "all";

  constructor({ box, axis, tabs, choose, go }) {
    Object.assign(this, { box, axisBox: axis, choose, go });
    tabs.replaceChildren(...Object.entries(FILTERS).map(([name, [words]]) => h("button", { class: "tab", type: "button", "aria-pressed": String(name === this.filter), onclick: () => this.#narrow(name, tabs) }, words)));
  }

  #narrow(name, tabs) {
    this.filter = name;
    [...tabs.children].forEach((tab, index) => tab.setAttribute("aria-pressed", String(Object.keys(FILTERS)[index] === name)));
    this.draw(this.spans, this.events, this.now);
    this.show(this.seq);
  }

  draw(spans, events, now) {
    Object.assign(this, { spans, events, now });
    this.box.classList.toggle("raw", this.filter === "raw");
    this.axisBox.hidden = this.filter === "raw";
    if (this.filter === "raw") this.#drawRaw();
    else this.#drawSpans();
  }

  #drawSpans() {
    const shown = this.spans.filter((span) => this.#isShown(span));
    const axis = new Axis(this.spans, this.now);
    const scale = axis.length.toPrecision(3);
    this.axisBox.replaceChildren(s("svg", { "aria-hidden": "true" }, axis.ticks.map(({ seconds, place }) => [s("line", { x1: `${place}%`, x2: `${place}%`, y1: 18, y2: "100%" }), s("text", { x: `${place}%`, y: 12 }, Number.isInteger(seconds) && seconds < 60 ? `${seconds} s` : took(seconds))])));
    keyed(this.box, shown.map((span) => ({ key: span.key, rev: `${scale} ${span.label} ${span.to ?? "open"} ${span.bad} ${span.inner} ${this.#open.has(span.key)}`, span })), ({ span }) => this.#row(span, axis));
    if (!shown.length) this.box.replaceChildren(h("li", { class: "none" }, this.spans.length ? "Nothing of this kind happened in this run." : "Steps appear here while the run is under way."));
    this.#rows = shown.length ? shown.map((span, index) => ({ element: this.box.children[index], seq: span.seq, until: span.until })) : [];
    this.#forget();
  }

  #isShown(span) {
    if (!FILTERS[this.filter][1](span)) return false;
    if (this.filter !== "all") return true;
    for (let each = span.inside; each; each = each.inside) if (!this.#open.has(each.key)) return false;
    return true;
  }

  #row(span, axis) {
    const { kind, agent, label, from, to, bad, depth, waits, user, inner } = span;
    const [start, end] = [axis.place(from), axis.place(to ?? this.now)];
    const x = Math.min(start, 99.4);
    const opens = inner > 0 && this.filter === "all";
    const more = !opens ? h("span", { class: "twist" }) : h("button", { class: "twist", type: "button", "aria-expanded": String(this.#open.has(span.key)), title: `${inner} steps`, onclick: () => this.#toggle(span) }, icon("chevron-right", "small"), h("span", { class: "vh" }, `Steps of ${agent}`));
    return h("li", { class: `${hueOf(agent)} d${Math.min(depth, 4)} ${bad ? "bad" : ""} ${waits ? "waits" : ""} ${kind}` },
      more, h("button", { class: "what", type: "button", onclick: () => this.choose(span) },
        icon(bad ? "circle-x" : user ? "user-round" : span.delegate ? "corner-down-right" : ICONS[kind], "small"),
        h("span", { class: "who" }, user ? h("bdi", {}, user) : agent && named(agent)), h("span", { class: "lab" }, h("bdi", {}, cut(label, 160)))),
      s("svg", { class: "bar-box", "aria-hidden": "true" }, s("rect", { class: "span", x: `${x}%`, width: `${Math.max(0.6, end - x)}%`, y: 6, height: 11, rx: 3 })),
      h("span", { class: "mono long" }, to === null ? (waits ? "waiting" : "running") : took(to - from)));
  }

  #toggle(span) {
    if (!this.#open.delete(span.key)) this.#open.add(span.key);
    this.draw(this.spans, this.events, this.now);
    this.show(this.seq);
    this.box.querySelector(`[data-key="${span.key}"] .twist`)?.focus();
  }

  #drawRaw() {
    keyed(this.box, this.events.map((event) => ({ key: `raw ${event.seq}`, rev: 0, event })), ({ event }) => rawRow(event));
    this.#rows = this.events.map(({ seq }, index) => ({ element: this.box.children[index], seq, until: seq }));
    this.#forget();
  }

  #forget() {
    this.shown = -1;
    this.marked = undefined;
    for (const { element } of this.#rows) element.classList.remove("later", "now");
  }

  // Fade the rows that come later than `seq`, and mark the one under way. Only rows that change are touched.
  show(seq) {
    this.seq = seq;
    let [last, latest] = [null, -1];
    for (const row of this.#rows) {
      const later = row.seq > seq;
      if (row.later !== later) row.element.classList.toggle("later", (row.later = later));
      const reached = later ? -1 : row.until <= seq ? row.until : row.seq;
      if (reached > latest) [last, latest] = [row, reached];
    }
    if (last === this.marked) return;
    this.marked?.element.classList.remove("now");
    last?.element.classList.add("now");
    this.marked = last;
    const [box, row] = [this.box.parentElement, last?.element];
    if (!row) return;
    const [top, bottom] = [row.offsetTop - 40, row.offsetTop + row.offsetHeight];
    if (top < box.scrollTop) box.scrollTop = top;
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  }
}

const rawRow = (event) => {
  const body = h("pre", { tabindex: 0 });
  const details = h("details", { ontoggle: () => details.open && !body.textContent && (body.textContent = JSON.stringify(event, null, 2)) },
    h("summary", {}, h("span", { class: "mono seq" }, String(event.seq)), h("span", { class: "mono type" }, event.type), h("span", { class: "who" }, event.agent && named(event.agent)), h("span", { class: "dim" }, h("bdi", {}, event.conversation))), body);
  return h("li", {}, details);
};
