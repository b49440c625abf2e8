// Router: experiments with the plain sentence first and intervals below, and what was learned about agents.
import { call, get, may, query } from "../api.js";
import { chart, grid, intervals, level, spread } from "../chart.js";
import { byId, h, icon } from "../dom.js";
import { count, maybe, plural, took } from "../format.js";
import { broken, complain, frame } from "../frame.js";
import { ask, keepFresh, panel, quiet, scrolling } from "../panel.js";
import { avatar, hueOf, named, nameOf } from "../team.js";

const REFRESH = 15; // seconds
const MEASURES = { success: "Resolved", tokens: "Tokens", cost: "Cost", seconds: "Time to answer" };
const FEW = 10; // tasks below which the evidence is thin
const measureName = (name) => MEASURES[name] ?? name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");
const SHOW = { success: (value) => `${(100 * value).toFixed(1)} %`, tokens: count, seconds: took };
const shown = (measure, value) => maybe(value, SHOW[measure] ?? ((each) => Number(each.toPrecision(3)).toLocaleString("en")));

class Router {
  #seen = "";

  constructor(who) {
    Object.assign(this, { admin: may(who, "admin"), chosen: {} });
    if (this.admin) byId("acts").append(h("button", { class: "btn small", type: "button", onclick: () => this.#reset() }, icon("rotate-ccw", "small"), "Reset learning"));
  }

  async load() {
    try {
      const { learned, experiments } = await get("/router");
      complain();
      this.#draw(learned, experiments);
    } catch (problem) {
      if (this.#seen) complain(problem);
      else broken(byId("body"), problem);
    }
    byId("body").removeAttribute("aria-busy");
  }

  #draw(learned, views) {
    const standing = JSON.stringify([learned, views, this.chosen]);
    if (standing === this.#seen || document.querySelector("#body :focus-visible:not(.measures button)")) return;
    this.#seen = standing;
    this.views = views;
    this.learned = learned;
    byId("body").replaceChildren(h("div", { class: "trying" },
      h("div", { class: "column" }, views.length ? views.map((each) => this.#experiment(each)) : this.#none()), h("div", { class: "column" }, this.#weights(learned))));
  }

  #experiment(view) {
    const measure = this.chosen[view.name] ?? "success";
    const verdict = view.verdicts.find((each) => each.measure === measure) ?? view.verdicts[0];
    const [control] = verdict.arms;
    const decided = verdict.comparisons.some((each) => each.better);
    const others = verdict.comparisons.map((each) => each.variant);
    const known = view.verdicts.filter((each) => each.arms.some((arm) => arm.n));
    const pick = (name) => () => {
      this.chosen[view.name] = name;
      this.#draw(this.learned, this.views);
      byId("body").querySelector(`[data-measure="${CSS.escape(`${view.name} ${name}`)}"]`)?.focus();
    };
    const tabs = h("div", { class: "measures", role: "group", "aria-label": "Measure" }, known.map((each) => h("button", { type: "button", "data-measure": `${view.name} ${each.measure}`, "aria-pressed": String(each.measure === verdict.measure), onclick: pick(each.measure) }, measureName(each.measure))));
    const more = [h("span", { class: `pill ${decided ? "good" : ""}` }, decided ? "Clear" : "Not clear yet"), h("span", { class: "grow" }), h("span", { class: "meta" }, `${view.on}${view.agents.length ? ` of ${view.agents.map(nameOf).join(", ")}` : ""}`)];
    const sure = `${Math.round(100 * verdict.confidence)} % intervals`;
    return panel(view.name, { more }, h("p", { class: "says" }, h("b", {}, `${measureName(verdict.measure)}: `), verdict.sentence, "."), known.length > 1 && tabs,
      others.map((variant) => this.#compared(view, variant, control.variant, sure)), scrolling(`Variants of ${view.name}`, arms(verdict, verdict.measure === "cost" && view.prices)),
      h("p", { class: "meta foot-note" }, Object.entries(view.shares).map(([variant, share]) => `${variant} ${Math.round(100 * share)} %`).join(", "), " of the conversations. A conversation keeps its variant, by its id, also after a restart."));
  }

  // One variant beside the control, by all measures, in per cent of the control.
  #compared(view, variant, control, sure) {
    const rows = view.verdicts.map((verdict) => rowOf(verdict, variant)).filter(Boolean);
    if (!rows.length) return null;
    const table = { heads: ["Measure", "Difference", "From", "To", ""], rows: rows.map((each) => [each.label, each.percent ?? "–", maybe(each.low, signed), maybe(each.high, signed), each.words]), label: `${variant} compared with ${control}` };
    return h("div", {}, h("h3", { class: "in-panel" }, `${variant} compared with ${control} `, h("span", { class: "dim" }, sure)), chart(`${variant} compared with ${control}`, intervals(rows), table));
  }

  #none() {
    return panel("Experiments", {}, h("div", { class: "nothing" }, h("h2", {}, "Experiments appear here"), h("p", {}, "Declare one in code or in the team's document: it tries variants of a strategy, instructions, a model or a receiver, each in its share of the conversations."),
      h("pre", {}, h("code", {}, 'Team(…, experiments=[Experiment("context", {"full": Full(), "summary": Summary()})])'))));
  }

  #weights(learned) {
    const capabilities = [...new Set(learned.map((each) => each.capability))];
    if (!capabilities.length) return panel("Weights", {}, quiet("The router learns how well agents do the tasks for which it found them, by capability. Nothing is learned yet."));
    const group = (capability) => [
      h("h3", {}, capability, this.admin && h("button", { class: "btn small", type: "button", "aria-label": `Forget ${capability}`, onclick: () => this.#reset(capability) }, "Forget")),
      h("ul", {}, learned.filter((each) => each.capability === capability).map(weight))];
    return panel("Weights", { more: h("span", { class: "meta" }, "expected worth of the next task, 90 % interval") }, h("div", { class: "learned" }, capabilities.map(group)));
  }

  #reset(capability = "") {
    ask({ title: capability ? `Forget what was learned about ${capability}?` : "Forget all that was learned?", words: "The router begins anew, in all processes that share the store. Conversations and metrics are kept.", button: "Forget it", danger: true, act: () => call("DELETE", `/router/learned${query({ capability })}`).then(() => this.load()) });
  }
}

function weight(each) {
  const facts = [`${plural(each.tasks, "task")}`, each.tasks ? `${Math.round((100 * each.successes) / each.tasks)} % resolved` : "", each.seconds === null ? "" : took(each.seconds), each.cost === null ? "" : each.price, each.tasks < FEW ? "too few to trust" : ""];
  return h("li", { class: hueOf(each.agent) }, avatar(each.agent, "small"), named(each.agent), level(each.worth, { low: each.low, high: each.high }), h("span", { class: "num", title: `${each.low.toFixed(2)} to ${each.high.toFixed(2)}` }, each.worth.toFixed(2)), h("span", { class: "meta" }, facts.filter(Boolean).join(", "), h("span", { class: "vh" }, `, interval ${each.low.toFixed(2)} to ${each.high.toFixed(2)}`)));
}

function signed(value) {
  const amount = Math.abs(value).toFixed(Math.abs(value) < 10 ? 1 : 0);
  return `${Number(amount) === 0 ? "" : value > 0 ? "+" : "−"}${amount} %`;
}

function rowOf(verdict, variant) {
  const found = verdict.comparisons.find((each) => each.variant === variant);
  const base = verdict.arms[0].mean;
  if (!found || found.difference === null || !base) return null;
  const part = (value) => (value === null ? null : (100 * value) / Math.abs(base));
  const better = found.better === variant;
  const [tone, words] = found.better ? (better ? ["good", "better"] : ["bad", "worse"]) : ["open-end", found.low === null ? "too few yet" : "not clear yet"];
  const value = part(found.difference);
  const ends = found.low === null ? "" : ` (${signed(part(found.low))} to ${signed(part(found.high))})`;
  return { label: measureName(verdict.measure), value, low: part(found.low), high: part(found.high), tone, words, percent: signed(value), shown: `${signed(value)}${ends}, ${words}` };
}

function arms({ measure, arms: found, comparisons }, prices) {
  const told = (arm, end) => (prices ? prices[arm.variant][end] : shown(measure, arm[end]));
  const ends = found.filter((arm) => arm.mean !== null).flatMap(({ mean, low, high }) => [low ?? mean, high ?? mean]);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const ahead = new Set(comparisons.map((each) => each.better).filter(Boolean));
  const rows = found.map((arm) => [h("span", { class: `chip ${ahead.has(arm.variant) ? "ahead" : ""}` }, arm.variant), count(arm.n), told(arm, "mean"), arm.low === null ? "too few" : `${told(arm, "low")} to ${told(arm, "high")}`, arm.mean === null ? "" : h("span", { class: ahead.has(arm.variant) ? "ahead" : "" }, spread(arm, least, most))]);
  return grid({ heads: ["Variant", "Conversations", measureName(measure), "Interval", ""], rows, label: "Variants" });
}

try {
  const { who } = await frame();
  const router = new Router(who);
  await keepFresh(() => router.load(), REFRESH);
} catch (problem) {
  broken(byId("body"), problem);
}
