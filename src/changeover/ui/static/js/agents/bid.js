// Try a task: which agent the router would choose, and why. Nothing is run or recorded.
import { get, post } from "../api.js";
import { h } from "../dom.js";
import { sentence } from "../format.js";
import { avatar, hueOf, named } from "../team.js";

export function bid(agents) {
  const task = h("textarea", { class: "in", id: "task", rows: "2", placeholder: "Send the customer of order 1042 their money back" });
  const needs = h("select", { class: "in", "aria-label": "Capability that it needs" }, h("option", { value: "" }, "Any capability"));
  const time = h("span", { class: "meta", role: "status" });
  const found = h("ol", { class: "ranks" }, h("li", { class: "quiet" }, "The agents that fit appear here, the best first."));
  get("/router/capabilities").then(({ items }) => needs.append(...items.map(({ name }) => h("option", { value: name }, `Needs ${name}`))), () => {});
  const ask = async (event) => {
    event.preventDefault();
    const begun = performance.now();
    try {
      const { items } = await post("/router/recommend", { task: task.value, n: 8, required: needs.value ? [needs.value] : [] });
      time.textContent = `answered in ${Math.max(1, Math.round(performance.now() - begun))} ms`;
      found.replaceChildren(...items.map(rank), ...(items.length ? [] : [h("li", { class: "quiet" }, "No agent fits clearly. A model would be asked to choose.")]), ...agents.filter(out).map(left));
    } catch (problem) {
      found.replaceChildren(h("li", { class: "fault" }, problem.message));
    }
  };
  return [
    h("form", { onsubmit: ask }, h("h2", {}, "Try a task"), h("label", { class: "meta", for: "task" }, "Ask the router who should do it. Nothing is run or recorded."), task, h("div", { class: "row" }, needs, h("button", { class: "btn primary" }, "Rank agents")), time),
    found];
}

const out = (each) => !each.enabled || each.profile.accepts_handoffs === false;
const rank = ({ agent, score, why }, index) => h("li", { class: hueOf(agent) }, h("span", { class: "nth" }, String(index + 1)), avatar(agent, "small"), h("b", {}, named(agent)), h("meter", { min: "0", max: "1", value: score, "aria-label": `Score ${score.toFixed(2)}` }), h("span", { class: "mono" }, score.toFixed(2)), h("p", { class: "meta soft" }, why && sentence(why)));
const left = ({ id, enabled }) => h("li", { class: "out" }, h("span", { class: "nth" }, "–"), avatar(id, "small"), h("b", {}, named(id)), h("p", { class: "meta" }, `left out: ${enabled ? "it takes no handoffs" : "it is disabled"}`));
