// The chain of a run as SVG: the server has laid it out, this draws it and marks the step that is shown.
import { h, icon, s } from "../dom.js";
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
    const tip = points.at(-1);
    const words = `${kind === "delegate" ? "Asked" : "Routed to"} ${this.#agent(edge.target)}, ${WORDS[state] ?? state}`;
    const opens = handoff ? { role: "button", tabindex: 0, "aria-label": `${label ? `${this.#label(edge).join(", ")}: ` : ""}${words}${reason ? `: ${cut(reason, 120)}` : ""}`, onclick: () => this.choose(handoff), onkeydown: (event) => pressed(event, () => this.choose(handoff)) } : {};
    return this.#keep(s("g", { class: `edge ${kind} ${bad ? "bad" : ""}`, "data-handoff": handoff || undefined, ...opens },
      handoff && s("path", { class: "hit", d: path(points) }),
      s("path", { class: "line", d: path(points) }),
      s("path", { class: "tip", d: arrow(tip, points.at(-2)) }),
      label && this.#label(edge).map((line, index) => s("text", { class: index ? "fig" : "why", x: label[0], y: label[1] + index * 15 }, line))), edge.seq, { handoff });
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
    const [name, words] = [nameOf(hop.agent), figures(hop, compact)];
    const act = () => this.go(hop.seq);
    return this.#keep(s("g", { class: `hop ${hueOf(hop.agent)} ${hop.ghost ? `ghost ${hop.status}` : hop.status}`, transform: `translate(${hop.x} ${hop.y})`, role: "button", tabindex: 0, "aria-label": `${name}, ${words}${hop.errors ? `, ${plural(hop.errors, "error")}` : ""}`, onclick: act, onkeydown: (event) => pressed(event, act) },
      s("rect", { class: "node", width, height, rx: compact ? 7 : 9 }),
      s("rect", { class: "mark", x: 9, y: 8, width: 4, height: height - 16, rx: 2 }),
      s("text", { class: "name", x: 21, y: compact ? 15 : 19 }, cut(name, compact ? 10 : 15)),
      s("text", { class: "sub", x: 21, y: compact ? 27 : 35 }, cut(words, compact ? 11 : 17)),
      hop.errors > 0 && !compact && s("text", { class: "err", x: width - 10, y: 19, "text-anchor": "end" }, plural(hop.errors, "error"))), hop.seq, { until: hop.until, hop });
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
    const { x, y } = current.hop;
    const { clientWidth, clientHeight, scrollLeft, scrollTop } = this.box;
    if (x < scrollLeft + 24 || x + this.size.width > scrollLeft + clientWidth - 24) this.box.scrollLeft = x - clientWidth / 2 + this.size.width / 2;
    if (y < scrollTop || y + this.size.height > scrollTop + clientHeight) this.box.scrollTop = y - clientHeight / 2;
  }

  select(handoff) {
    for (const { element, handoff: id } of this.#parts) if (id) element.classList.toggle("chosen", id === handoff);
  }

  // The hop in which an agent caused an event of a conversation.
  hopAt(seq, agent, conversation) {
    return this.drawing.hops.findLast((hop) => hop.conversation === conversation && hop.agent === agent && !hop.ghost && hop.seq <= seq);
  }
}

function pressed(event, act) {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  act();
}

export const nothingYet = () => h("div", { class: "nothing" }, icon("workflow"), h("p", {}, "The chain appears with the first event of the run."));
