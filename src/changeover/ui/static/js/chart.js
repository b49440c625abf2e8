// Charts as SVG, each with a table of the same numbers. They are drawn again when their width changes.
import { h, s } from "./dom.js";

const [LEFT, TOP, BOTTOM, HEIGHT] = [48, 8, 22, 200];

// A chart: draw(width) gives an SVG; `table` holds the same numbers and stays readable without the drawing.
export function chart(label, draw, table) {
  const plot = h("div", { class: "plot" });
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.floor(plot.clientWidth);
    if (!width || width === drawn) return;
    drawn = width;
    plot.replaceChildren(svg(label, width, draw(width)));
  }).observe(plot);
  return h("figure", { class: "chart" }, plot, numbers(table));
}

function svg(label, width, { height = HEIGHT, parts }) {
  return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, parts);
}

// The numbers of a chart: { heads, rows }; a cell is a text, or { text, act } if it shows its runs.
export const numbers = (table) => h("details", { class: "numbers" }, h("summary", {}, "Numbers"), h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Numbers" }, grid(table)));

export const grid = ({ heads, rows, label }) =>
  h("table", { class: "grid", "aria-label": label },
    h("thead", {}, h("tr", {}, heads.map((each) => (each ? h("th", { scope: "col" }, each) : h("td"))))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((each, index) => (index ? h("td", {}, cell(each)) : h("th", { scope: "row" }, cell(each))))))));

const cell = (each) => (each?.act ? h("button", { class: "figure", type: "button", onclick: each.act }, each.text) : each?.text ?? each);

// Steps of an axis from 0 that a person can read: 1, 2 or 5 times a power of ten.
export function ticks(most, wanted = 3) {
  if (!(most > 0)) return [0, 1];
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
  const found = [];
  for (let at = 0; found.length < 2 || at - step < most; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

// The frame of a chart over time: lines of the y axis, and labels below.
function axes(width, height, steps, labels, show) {
  const top = steps.at(-1);
  const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - value / top);
  const slot = (width - LEFT) / labels.length;
  const every = Math.max(1, Math.ceil(52 / slot));
  const lines = steps.map((each) => [
    s("line", { class: "rule", x1: LEFT, x2: width, y1: y(each), y2: y(each) }),
    s("text", { class: "tick", x: LEFT - 8, y: y(each) + 4, "text-anchor": "end" }, show(each)),
  ]);
  const centre = (index) => LEFT + slot * (index + 0.5);
  const below = labels.map((each, index) => index % every === 0 && centre(index) + 20 <= width && s("text", { class: "tick", x: centre(index), y: height - 5, "text-anchor": "middle" }, each));
  return { y, slot, x: centre, parts: [lines, below] };
}

// Bars, each of parts that stand on one another: items are { label, title, parts: [[value, class], …], act }.
export const bars = (items, show = String) => (width) => {
  const sum = ({ parts }) => parts.reduce((all, [value]) => all + value, 0);
  const { y, x, slot, parts } = axes(width, HEIGHT, ticks(Math.max(...items.map(sum))), items.map((each) => each.label), show);
  const wide = Math.max(2, Math.min(40, slot * 0.68));
  const drawn = items.map((item, index) => {
    let base = 0;
    const stack = item.parts.filter(([value]) => value > 0).map(([value, tone]) => {
      const [low, high] = [y(base), y(base + value)];
      base += value;
      return s("rect", { class: tone, x: x(index) - wide / 2, y: Math.min(high, low - 1.5), width: wide, height: Math.max(1.5, low - high - (base > value ? 1 : 0)), rx: Math.min(2, wide / 2) });
    });
    const hit = s("rect", { class: "hit", x: x(index) - slot / 2, y: TOP, width: slot, height: HEIGHT - TOP - BOTTOM }, s("title", {}, item.title));
    return s("g", { class: item.act && "open", onclick: item.act }, stack, hit);
  });
  return { parts: [parts, drawn] };
};

// Lines over the same labels: series are { tone, values }, where null makes a gap.
export const lines = (labels, series, show = String, titles = labels) => (width) => {
  const most = Math.max(0, ...series.flatMap(({ values }) => values.filter((each) => each !== null)));
  const { y, x, slot, parts } = axes(width, HEIGHT, ticks(most), labels, show);
  const drawn = series.map(({ tone, values }) => {
    const spots = values.map((each, index) => (each === null ? null : [x(index), y(each)]));
    const path = spots.reduce((way, spot, index) => (spot ? `${way}${way && spots[index - 1] ? "L" : "M"}${spot[0].toFixed(1)} ${spot[1].toFixed(1)}` : way), "");
    const alone = spots.filter((spot, index) => spot && !spots[index - 1] && !spots[index + 1]);
    return [path && s("path", { class: `line ${tone}`, d: path }), alone.map(([cx, cy]) => s("circle", { class: tone, cx, cy, r: 3 }))];
  });
  const hits = titles.map((each, index) => s("rect", { class: "hit", x: x(index) - slot / 2, y: TOP, width: slot, height: HEIGHT - TOP - BOTTOM }, s("title", {}, each)));
  return { parts: [parts, drawn, hits] };
};

// Differences with their intervals, in per cent of the control: rows are { label, low, value, high, tone, words, shown }.
export const intervals = (rows) => (width) => {
  const narrow = width < 520;
  const [name, end, line] = [narrow ? 104 : 128, narrow ? 72 : 150, 34];
  const known = rows.filter((each) => each.value !== null);
  const far = Math.max(5, ...known.flatMap(({ low, high, value }) => [low ?? value, high ?? value].map(Math.abs)));
  const step = ticks(Math.min(far, 200), 2)[1];
  const most = Math.ceil(Math.min(far, 200) / step) * step;
  const x = (value) => name + ((Math.max(-most, Math.min(most, value)) + most) / (2 * most)) * (width - name - end);
  const height = rows.length * line + 24;
  const marks = (narrow ? [-most, 0, most] : [-most, -most / 2, 0, most / 2, most]).map((each) => [
    s("line", { class: each ? "rule" : "same", x1: x(each), x2: x(each), y1: 4, y2: height - 22 }),
    s("text", { class: "tick", x: x(each), y: height - 6, "text-anchor": "middle" }, each ? `${each > 0 ? "+" : "−"}${Math.abs(each)} %` : "same"),
  ]);
  const drawn = rows.map((each, index) => {
    const y = index * line + 21;
    const known = each.value !== null;
    const spread = known && each.low !== null;
    return s("g", { class: each.tone }, s("title", {}, `${each.label}: ${each.shown}`), s("text", { class: "name", x: 0, y: y + 4 }, each.label),
      spread && s("path", { class: "span", d: `M${x(each.low)} ${y}H${x(each.high)}M${x(each.low)} ${y - 5}V${y + 5}M${x(each.high)} ${y - 5}V${y + 5}` }),
      known && s("circle", { class: "spot", cx: x(each.value), cy: y, r: 4.5 }),
      s("text", { class: "amount", x: width - (narrow ? 0 : 92), y: y + 4, "text-anchor": "end" }, known ? each.percent : "–"),
      !narrow && s("text", { class: "words", x: width - 84, y: y + 4 }, each.words));
  });
  return { height, parts: [marks, drawn] };
};

// A bar from 0 to 1 within a line of text; `low` and `high` draw its interval.
export function level(value, { tone = "", low = null, high = null } = {}) {
  const at = (share) => Math.round(1000 * Math.max(0, Math.min(1, share))) / 10;
  return s("svg", { class: `level ${tone}`, viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "bed", width: 100, height: 8, rx: 2 }), s("rect", { class: "fill", width: at(value), height: 8, rx: 2 }),
    low !== null && s("rect", { class: "range", x: at(low), y: 3, width: Math.max(0.5, at(high) - at(low)), height: 2 }));
}

// A mean with its interval on a line that spans all variants, from `least` to `most`.
export function spread({ mean, low, high }, least, most) {
  const at = (value) => Math.round(1000 * ((value - least) / (most - least || 1))) / 10;
  return s("svg", { class: "spread", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "bed", y: 5.5, width: 100, height: 1 }), low !== null && s("rect", { class: "range", x: at(low), y: 5, width: Math.max(0.5, at(high) - at(low)), height: 2 }),
    s("rect", { class: "mean", x: Math.max(0, at(mean) - 1.5), y: 2, width: 3, height: 8, rx: 1 }));
}
