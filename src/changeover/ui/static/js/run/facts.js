// The facts of a run: who, when, how long, what it cost, and how much of its limits it used.
import { h } from "../dom.js";
import { day, took } from "../format.js";

// The seconds in which at least one of these spans was under way.
function covered(spans, now) {
  let [sum, end] = [0, -Infinity];
  for (const { from, to } of [...spans].sort((a, b) => a.from - b.from)) {
    const last = to ?? now;
    sum += Math.max(0, last - Math.max(from, end));
    end = Math.max(end, last);
  }
  return sum;
}

export function factsOf({ film, spans, outcomes, drawing }, now) {
  const { events } = film;
  const of = (type) => events.filter((each) => each.type === type);
  const usage = of("model_replied").map(({ data }) => data.usage).filter(Boolean);
  const edges = drawing.edges.filter(({ handoff, state }) => handoff && state !== "offered");
  const times = edges.filter(({ seconds, bad }) => seconds !== null && !bad).map(({ seconds }) => seconds);
  return {
    user: of("user_spoke").find(({ data }) => data.user)?.data.user ?? "",
    began: events[0]?.at,
    worked: covered(spans.filter(({ waits, kind }) => !waits && kind !== "other"), now),
    waited: covered(spans.filter(({ waits }) => waits), now),
    handoffs: drawing.edges.filter(({ handoff, state }) => handoff && !["refused", "rejected", "expired"].includes(state)).length,
    rejected: drawing.edges.filter(({ bad }) => bad).length,
    agents: new Set(drawing.hops.filter(({ ghost }) => !ghost).map(({ agent }) => agent)).size,
    tokens: usage.reduce((sum, each) => sum + (each.input_tokens ?? 0) + (each.output_tokens ?? 0), 0),
    price: outcomes.at(-1)?.price ?? "",
    latency: times.length ? times.reduce((a, b) => a + b, 0) / times.length : null,
    errors: spans.filter(({ bad, kind }) => bad && kind !== "handoffs").length,
    runs: outcomes.length,
  };
}

const split = (words) => words.match(/^([<\d.,:$]+)\s*(.*)$/)?.slice(1) ?? [words, ""];

const said = (name, ...words) => h("div", {}, h("dt", {}, name), h("dd", {}, words));

function fact(name, given) {
  const [figure, unit] = split(given);
  return said(name, figure, unit && h("small", {}, ` ${unit}`));
}

// Each limit that the last run has used something of.
function limitsOf({ ledger, limits }) {
  return Object.entries(limits).map(([name, of]) => ({ name, used: ledger[name] ?? 0, of }));
}

// A workflow has steps where others have handoffs.
const stepsOf = ({ steps }) => `${steps.filter(({ status }) => ["done", "skipped"].includes(status)).length} of ${steps.length}`;

export function showFacts(box, page) {
  const found = factsOf(page, Date.now() / 1000);
  const last = page.outcomes.at(-1);
  const limits = last ? limitsOf(last) : [];
  box.replaceChildren(...[
    found.user && said("Who", h("bdi", {}, found.user)),
    found.began && said("When", day(found.began)),
    fact("Worked", took(found.worked)),
    found.waited > 0 && fact("Waiting", took(found.waited)),
    page.flow ? fact("Steps", stepsOf(page.flow)) : fact("Handoffs", String(found.handoffs)),
    !page.flow && found.rejected > 0 && fact("Failed handoffs", String(found.rejected)),
    fact("Agents", String(found.agents)),
    fact("Tokens", found.tokens.toLocaleString("en")),
    found.price && (found.tokens > 0 || found.price !== "unknown") && fact("Cost", found.price),
    !page.flow && found.latency !== null && fact("Handoff latency", `${took(found.latency)} avg`),
    found.errors > 0 && fact("Errors", String(found.errors)),
    limits.length > 0 && h("div", { class: "limits" }, h("dt", {}, found.runs > 1 ? "Limits of the last run" : "Limits"), h("dd", {}, limits.map(({ name, used, of }) => h("span", { class: used >= of ? "bad" : "" }, `${used.toLocaleString("en")} of ${of.toLocaleString("en")} ${name}`)))),
  ].filter(Boolean));
}
