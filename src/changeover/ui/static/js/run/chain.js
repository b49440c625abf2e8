// The chain of a run as SVG: the server has laid it out, this draws it and marks the step that is shown.
import { s } from "../dom.js";
import { cut, plural, took } from "../format.js";
import { hueOf, nameOf } from "../team.js";

const RADIUS = 9;
const WORDS = { rejected: "Offer rejected", refused: "Handoff refused", failed: "Failed", expired: "Timed out" };
const GHOSTS = { offered: "offered", rejected: "rejected", refused: "refused", expired: "timed out", cancelled: "withdrawn" };

// A line through corners, which are rounded.
function path(points) {
  const [first, ...others] = points;
  let [line, before] = [`M${first.join(" ")}`, first];
  others.forEach((point, index) => {
    const after = others[index + 1];
    if (!after) line += `L${point.join(" ")}`;
    else {
      const [from, to] = [toward(point, before), toward(point, after)];
      line += `L${from.join(" ")}Q${point.join(" ")} ${to.join(" ")}`;
    }
    before = point;
  });
  return line;
}

function toward([x, y], [tx, ty]) {
  const [dx, dy] = [tx - x, ty - y];
  const length = Math.hypot(dx, dy) || 1;
  const reach = Math.min(RADIUS, length / 2);
  return [x + (dx / length) * reach, y + (dy / length) * reach];
}

const arrow = ([x, y], [bx]) => (bx === x ? `M${x - 4} ${y - 8}L${x} ${y}L${x + 4} ${y - 8}z` : `M${x - 8} ${y - 4}L${x} ${y}L${x - 8} ${y + 4}z`);

// The words under the name of a hop's agent.
function figures(hop, compact) {
  if (hop.ghost) return GHOSTS[hop.status] ?? hop.status;
  if (hop.status === "waiting") return "waiting";
  const time = hop.ended === null ? hop.status : took(hop.ended - hop.began);
  return `${hop.tokens && !compact ? `${hop.tokens.toLocaleString("en")} tok · ` : ""}${time}`;
}

export class ChainView {
  #parts = []; // {element, seq, until} of all that a step may hide

  constructor(box, { choose, go }) {
    Object.assign(this, { box, choose, go });
    this.box.replaceChildren();
  }

  draw(drawing) {
    const { width, height, size, columns, lanes, hops, edges } = drawing;
    Object.assign(this, { drawing, size });
    this.#parts = [];
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Chain: ${plural(hops.length, "hop")}` },
      lanes.map(({ y }) => s("path", { class: "lane", d: `M0 ${y}H${width}` })),
      columns.map(({ x, label }) => s("text", { class: "col", x, y: 20 }, label)),
      edges.map((each) => this.#edge(each)),
      hops.map((each) => this.#hop(each)));
    this.box.replaceChildren(svg);
    this.svg = svg;
  }

  #keep(element, seq, more = {}) {
    this.#parts.push({ element, seq, ...more });
    return element;
  }

  #edge(edge) {
    const { kind, state, bad, points, label, reason, handoff } = edge;
    const shown = label ? this.#label(edge) : [];
    const words = `${kind === "delegate" ? "Asked" : "Routed to"} ${this.#agent(edge.target)}, ${WORDS[state] ?? state}${reason ? `: ${cut(reason, 120)}` : ""}`;
    const opens = handoff ? button([...shown, words], () => this.choose(handoff)) : {};
    return this.#keep(s("g", { class: `edge ${kind} ${bad ? "bad" : ""}`, "data-handoff": handoff || undefined, ...opens },
      handoff && s("path", { class: "hit", d: path(points) }),
      s("path", { class: "line", d: path(points) }),
      s("path", { class: "tip", d: arrow(points.at(-1), points.at(-2)) }),
      shown.map((line, index) => s("text", { class: index ? "fig" : "why", x: label[0], y: label[1] + index * 15 }, line, " "))), edge.seq, { handoff });
  }

  #label({ state, bad, reason, tokens, seconds }) {
    const most = Math.floor((this.size.width + this.size.gap - 20) / 6.4);
    const spent = [tokens && `${tokens.toLocaleString("en")} tok`, seconds !== null && took(seconds)].filter(Boolean).join(" · ");
    return bad ? [WORDS[state], cut(reason, most)] : [cut(reason || "Handed over", most), spent].filter(Boolean);
  }

  #agent(id) {
    return nameOf(this.drawing.hops.find((each) => each.id === id)?.agent ?? "");
  }

  #hop(hop) {
    const { width, height, compact } = this.size;
    const errors = hop.errors > 0 && !compact ? plural(hop.errors, "error") : "";
    const name = nameOf(hop.agent);
    const shown = [cut(name, compact ? 10 : 15), cut(figures(hop, compact), compact ? 11 : 17), errors];
    const places = [["name", 21, compact ? 15 : 19], ["sub", 21, compact ? 27 : 35], ["err", width - 10, 19]];
    return this.#keep(s("g", { class: `hop ${hueOf(hop.agent)} ${hop.ghost ? `ghost ${hop.status}` : hop.status}`, transform: `translate(${hop.x} ${hop.y})`, ...button([...shown, shown[0] === name ? "" : name], () => this.go(hop.seq)) },
      s("rect", { class: "node", width, height, rx: compact ? 7 : 9 }),
      s("rect", { class: "mark", x: 9, y: 8, width: 4, height: height - 16, rx: 2 }),
      shown.map((text, index) => text && s("text", { class: places[index][0], x: places[index][1], y: places[index][2] }, text, " "))), hop.seq, { until: hop.until, hop });
  }

  // Mark what is under way at `seq`, and fade what comes later.
  show(seq, conversation) {
    let current = null;
    for (const part of this.#parts) {
      const later = part.seq > seq;
      if (part.later !== later) part.element.classList.toggle("later", (part.later = later));
      if (part.hop && !later && !part.hop.ghost && part.hop.conversation === conversation) current = part;
    }
    if (current === this.current) return;
    this.current?.element.classList.remove("now");
    this.current = current;
    if (!current) return void (this.box.scrollLeft = 0); // before the first hop
    current.element.classList.add("now");
    this.#reveal(current.hop);
  }

  // Scroll the drawing, and nothing else, to a hop.
  #reveal({ x, y }) {
    const { clientWidth, clientHeight, scrollLeft, scrollTop } = this.box;
    if (x < scrollLeft + 24 || x + this.size.width > scrollLeft + clientWidth - 24) this.box.scrollLeft = x - clientWidth / 2 + this.size.width / 2;
    if (y < scrollTop || y + this.size.height > scrollTop + clientHeight) this.box.scrollTop = y - clientHeight / 2;
  }

  select(handoff) {
    for (const { element, handoff: id } of this.#parts) if (id) element.classList.toggle("chosen", id === handoff);
    const { edges, hops } = this.drawing;
    const target = handoff && edges.find((each) => each.handoff === handoff)?.target;
    if (target) this.#reveal(hops.find((each) => each.id === target));
  }

  // The hop in which an agent caused an event of a conversation.
  hopAt(seq, agent, conversation) {
    return this.drawing.hops.findLast((hop) => hop.conversation === conversation && hop.agent === agent && !hop.ghost && hop.seq <= seq);
  }
}

// What makes a part of the drawing a button; its name begins with the text that is seen.
const button = (texts, act) => ({
  role: "button",
  tabindex: 0,
  "aria-label": texts.filter(Boolean).join(" "),
  onclick: act,
  onkeydown(event) {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  },
});
