// The timeline: a row for each thing that took time, on one axis; and every event as it is recorded.
import { h, icon, keyed, s } from "../dom.js";
import { cut, took } from "../format.js";
import { hueOf, named } from "../team.js";
import { lastUpTo } from "./film.js";
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

const WINDOW = 240; // rows that are in the page at once: a long run has thousands
const MARGIN = 8;

export class Waterfall {
  #list = []; // {key, rev, seq, until, make} of all rows
  #turns = []; // {seq, index} of the beginning and the end of each row; of several at once the first row comes last
  #from = 0;
  #marked = null;
  #open = new Set(); // delegates whose own spans are shown
  filter = "all";

  constructor({ box, axis, tabs, choose }) {
    Object.assign(this, { box, axisBox: axis, choose });
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
    const raw = this.filter === "raw";
    this.box.classList.toggle("raw", raw);
    this.axisBox.hidden = raw;
    this.#list = raw ? events.map((event) => ({ key: `raw ${event.seq}`, rev: 0, seq: event.seq, until: event.seq, make: () => rawRow(event) })) : this.#rows();
    this.#turns = this.#list.flatMap(({ seq, until }, index) => [{ seq, index }, { seq: until, index }]).sort((a, b) => a.seq - b.seq || b.index - a.index);
    this.#slide(this.#from);
  }

  #rows() {
    const axis = new Axis(this.spans, this.now);
    const scale = axis.length.toPrecision(3);
    this.box.style.setProperty("--tick", `${axis.ticks[1]?.place ?? 100}%`);
    this.axisBox.replaceChildren(s("svg", { "aria-hidden": "true" }, axis.ticks.map(({ seconds, place }) => [s("line", { x1: `${place}%`, x2: `${place}%`, y1: 18, y2: "100%" }), s("text", { x: `${place}%`, y: 12 }, Number.isInteger(seconds) && seconds < 60 ? `${seconds} s` : took(seconds))])));
    return this.spans.filter((span) => this.#isShown(span)).map((span) => ({
      key: span.key, seq: span.seq, until: span.until, make: () => this.#row(span, axis),
      rev: `${scale} ${span.label} ${span.to ?? "open"} ${span.bad} ${span.inner} ${this.#open.has(span.key)}`,
    }));
  }

  // Put the rows from this index on into the page.
  #slide(from) {
    const { length } = this.#list;
    this.#from = Math.max(0, Math.min(from, length - WINDOW));
    const last = Math.min(length, this.#from + WINDOW);
    const more = (key, count, words, to) => count > 0 && { key, rev: count, make: () => h("li", { class: "more" }, h("button", { class: "btn small", type: "button", onclick: () => this.#slide(to) }, `${count.toLocaleString("en")} ${words}`)) };
    const none = !length && { key: "none", rev: this.filter, make: () => h("li", { class: "none" }, this.spans.length ? "Nothing of this kind happened in this run." : "Steps appear here while the run is under way.") };
    const rows = [none, more("earlier", this.#from, "earlier", this.#from - WINDOW / 2), ...this.#list.slice(this.#from, last), more("later", length - last, "later", this.#from + WINDOW / 2)].filter(Boolean);
    keyed(this.box, rows, (row) => row.make());
    const first = this.#from > 0 ? 1 : 0;
    this.#list.slice(this.#from, last).forEach((row, index) => (row.element = this.box.children[index + first]));
    this.#fade();
  }

  #fade() {
    for (const row of this.#list.slice(this.#from, this.#from + WINDOW)) {
      const later = row.seq > this.seq;
      if (row.element.later !== later) row.element.classList.toggle("later", (row.element.later = later));
    }
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
    return h("li", { class: `${agent && hueOf(agent)} d${Math.min(depth, 4)} ${bad ? "bad" : ""} ${waits ? "waits" : ""} ${kind}` },
      more, h("button", { class: "what", type: "button", title: bad ? label : undefined, onclick: () => this.choose(span) },
        icon(bad ? "circle-x" : user ? "user-round" : span.delegate ? "corner-down-right" : ICONS[kind], "small"),
        h("span", { class: "who" }, user ? h("bdi", {}, user) : agent && named(agent)), h("span", { class: "lab" }, h("bdi", {}, cut(label, 160)))),
      s("svg", { class: "bar-box", "aria-hidden": "true" }, s("rect", { class: "span", x: `${x}%`, width: `${Math.max(0.6, end - x)}%`, y: 6, height: 11, rx: 3 })),
      h("span", { class: "mono long" }, to === null ? (waits ? "waiting" : "running") : kind === "other" && to === from ? "" : took(to - from)));
  }

  #toggle(span) {
    if (!this.#open.delete(span.key)) this.#open.add(span.key);
    this.draw(this.spans, this.events, this.now);
    this.show(this.seq);
    this.box.querySelector(`[data-key="${span.key}"] .twist`)?.focus();
  }

  // Fade the rows that come later than `seq`, and mark the one under way. Only rows that change are touched.
  show(seq) {
    this.seq = seq;
    const at = this.#turns[lastUpTo(this.#turns, seq)]?.index ?? -1;
    const last = this.#from + WINDOW;
    const outside = at < this.#from + MARGIN ? this.#from > 0 : at >= last - MARGIN && last < this.#list.length;
    if (outside) this.#slide(at - WINDOW / 2);
    const row = this.#list[at]?.element ?? null;
    const moved = row !== this.#marked || !row?.classList.contains("now");
    if (row && moved) this.#reveal(row); // reads the layout, which is cheap only before something changes
    if (!outside) this.#fade();
    if (moved) this.#mark(row);
  }

  #reveal(row) {
    const box = this.box.parentElement;
    const [top, bottom] = [row.offsetTop - 40, row.offsetTop + row.offsetHeight];
    if (top < box.scrollTop) box.scrollTop = top;
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  }

  #mark(row) {
    this.#marked?.classList.remove("now");
    this.#marked = row;
    row?.classList.add("now");
  }
}

const rawRow = (event) => {
  const body = h("pre", { tabindex: 0 });
  const details = h("details", { ontoggle: () => details.open && !body.textContent && (body.textContent = JSON.stringify(event, null, 2)) },
    h("summary", {}, h("span", { class: "mono seq" }, String(event.seq)), h("span", { class: "mono type" }, event.type), h("span", { class: "who" }, event.agent && named(event.agent)), h("span", { class: "dim" }, h("bdi", {}, event.conversation))), body);
  return h("li", {}, details);
};
