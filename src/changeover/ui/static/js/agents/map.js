// The map of a team: boxes and arrows where the server has placed them; drag to move, turn the wheel to zoom.
import { inPath } from "../api.js";
import { h, icon, root, s } from "../dom.js";
import { hueOf, nameOf } from "../team.js";

const [LETTER, LINE, ROUND] = [7.3, 18, 8];
const [LEAST, MOST] = [0.02, 2.5];
const FAR = 0.55; // below this scale only names are shown, in larger letters

// A line through its corners, rounded.
export function course(points) {
  const parts = [`M${points[0].join(" ")}`];
  for (let at = 1; at < points.length - 1; at++) {
    const [[ax, ay], [bx, by], [cx, cy]] = points.slice(at - 1, at + 2);
    const near = (x, y) => {
      const long = Math.hypot(x - bx, y - by) || 1;
      const step = Math.min(ROUND, long / 2) / long;
      return [bx + (x - bx) * step, by + (y - by) * step];
    };
    const [[px, py], [qx, qy]] = [near(ax, ay), near(cx, cy)];
    parts.push(`L${px} ${py}Q${bx} ${by} ${qx} ${qy}`);
  }
  return `${parts.join("")}L${points.at(-1).join(" ")}`;
}

const fit = (text, width) => (text.length * LETTER > width ? `${text.slice(0, Math.max(1, Math.floor(width / LETTER) - 1))}…` : text);
const head = (points) => {
  const [[ax, ay], [bx, by]] = points.slice(-2);
  const turn = (Math.atan2(by - ay, bx - ax) * 180) / Math.PI;
  return s("path", { class: "tip", d: "M-8 -4.5L0 0L-8 4.5z", transform: `translate(${bx} ${by}) rotate(${turn})` });
};

function box({ place, box: at, lines, reachable }, byRule) {
  const lost = !reachable && !byRule;
  const sub = lost ? "no way in" : lines[1];
  return s("a", { class: `node ${hueOf(place.id)} ${lost ? "lost" : ""}`, href: `${root}/agents/${inPath(place.id)}`, "data-id": place.id, transform: `translate(${at.x} ${at.y})` },
    s("rect", { class: "card", width: at.width, height: at.height, rx: 8 }),
    s("rect", { class: "mark", x: 8, y: 9, width: 4, height: at.height - 18, rx: 2 }),
    s("text", { class: "name", x: 20, y: 20 }, fit(nameOf(place.id), at.width - 34)),
    [sub, ...lines.slice(2)].map((line, index) => s("text", { class: "sub", x: 20, y: 20 + LINE * (index + 1) }, fit(line, at.width - 20))));
}

function arrow(each) {
  const { x, y } = each.label;
  return s("g", { class: `way ${each.delegate ? "returns" : ""}`, "data-from": each.sender, "data-to": each.receiver },
    s("path", { class: "line", d: course(each.points) }), head(each.points), each.both && head(each.points.toReversed()),
    each.lines.map((line, index) => s("text", { class: line === "after approval" ? "asks" : index ? "when" : "tool", x, y: y + LINE * index + 13 }, line)));
}

export class TeamMap {
  #drag = null;
  moved = false; // a person has chosen what is seen

  constructor(map, rules) {
    this.map = map;
    const led = new Set(rules.map((each) => each.goto));
    this.svg = s("svg", { class: "map", role: "group", "aria-label": "Map of the team", tabindex: "0" }, map.arrows.map(arrow), map.members.map((each) => box(each, led.has(each.place.id))));
    const button = (words, mark, act) => h("button", { class: "btn square", type: "button", "aria-label": words, title: words, onclick: act }, icon(mark, "small"));
    this.element = h("div", { class: "mapbox" }, this.svg, h("div", { class: "zoom" }, button("Zoom in", "plus", () => this.zoom(1.25)), button("Zoom out", "minus", () => this.zoom(0.8)), button("Show all", "maximize", () => this.whole())));
    this.svg.addEventListener("wheel", (event) => (event.preventDefault(), this.zoom(event.deltaY < 0 ? 1.12 : 0.89, event)), { passive: false });
    this.svg.addEventListener("pointerdown", (event) => this.#grab(event));
    this.svg.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel"]) this.svg.addEventListener(end, () => (this.#drag = null));
    this.svg.addEventListener("keydown", (event) => this.#key(event));
    for (const on of ["pointerover", "focusin"]) this.svg.addEventListener(on, (event) => this.light(event.target.closest("[data-id]")?.dataset.id));
    this.svg.addEventListener("pointerleave", () => this.light());
    new ResizeObserver(() => (this.moved ? this.#view() : this.begin())).observe(this.element);
  }

  get size() { return [this.element.clientWidth || 1, this.element.clientHeight || 1]; }

  // Readable from the start: the whole if it fits, else the part around the first agent.
  begin() {
    const [width, height] = this.size;
    const whole = Math.min(width / this.map.width, height / this.map.height);
    const first = this.map.members.find((each) => each.place.start) ?? this.map.members[0];
    this.scale = Math.min(1.15, Math.max(whole, 0.72));
    const at = first ? first.box.x + first.box.width / 2 : 0;
    const roomy = this.map.width * this.scale <= width;
    this.x = roomy ? (this.map.width - width / this.scale) / 2 : at - width / this.scale / 2;
    this.y = this.map.height * this.scale <= height ? (this.map.height - height / this.scale) / 2 : 0;
    this.#view();
  }

  whole() {
    this.moved = true;
    const [width, height] = this.size;
    this.scale = Math.max(LEAST, Math.min(1.15, width / this.map.width, height / this.map.height));
    this.x = (this.map.width - width / this.scale) / 2;
    this.y = (this.map.height - height / this.scale) / 2;
    this.#view();
  }

  zoom(by, event) {
    this.moved = true;
    const [width, height] = this.size;
    const edges = this.svg.getBoundingClientRect();
    const [px, py] = event ? [event.clientX - edges.left, event.clientY - edges.top] : [width / 2, height / 2];
    const after = Math.min(MOST, Math.max(LEAST, this.scale * by));
    this.x += px / this.scale - px / after;
    this.y += py / this.scale - py / after;
    this.scale = after;
    this.#view();
  }

  show(id) {
    const found = this.map.members.find((each) => each.place.id === id)?.box;
    if (!found) return;
    this.moved = true;
    const [width, height] = this.size;
    this.scale = Math.max(this.scale, 0.72);
    Object.assign(this, { x: found.x + found.width / 2 - width / this.scale / 2, y: found.y + found.height / 2 - height / this.scale / 2 });
    this.#view();
    this.light(id);
  }

  // Highlight the ways of one agent.
  light(id) {
    this.svg.classList.toggle("lit", Boolean(id));
    for (const each of this.svg.querySelectorAll(".way")) each.classList.toggle("on", each.dataset.from === id || each.dataset.to === id);
    for (const each of this.svg.querySelectorAll(".node")) each.classList.toggle("on", each.dataset.id === id);
  }

  #view() {
    const [width, height] = this.size;
    this.svg.classList.toggle("far", this.scale < FAR);
    this.svg.setAttribute("viewBox", `${this.x} ${this.y} ${width / this.scale} ${height / this.scale}`);
  }

  #grab(event) {
    if (event.button !== 0 || event.target.closest("a")) return;
    this.svg.setPointerCapture(event.pointerId);
    this.#drag = [event.clientX, event.clientY];
    this.moved = true;
  }

  #move(event) {
    if (!this.#drag) return;
    this.x -= (event.clientX - this.#drag[0]) / this.scale;
    this.y -= (event.clientY - this.#drag[1]) / this.scale;
    this.#drag = [event.clientX, event.clientY];
    this.#view();
  }

  #key(event) {
    const step = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] }[event.key];
    if (step) Object.assign(this, { x: this.x + step[0] / this.scale, y: this.y + step[1] / this.scale });
    else if (event.key === "+" || event.key === "-") return this.zoom(event.key === "+" ? 1.25 : 0.8);
    else if (event.key === "0") return this.whole();
    else return;
    event.preventDefault();
    this.moved = true;
    this.#view();
  }
}

// What the lines mean.
export function legend() {
  const line = (kind) => s("svg", { class: `sample way ${kind}`, viewBox: "0 0 28 10", "aria-hidden": "true" }, s("path", { class: "line", d: "M1 5H27" }));
  return h("ul", { class: "legend" }, h("li", {}, line(""), "hands over"), h("li", {}, line("returns"), "delegates, comes back"), h("li", {}, h("i", { class: "unreached" }), "unreachable"));
}
