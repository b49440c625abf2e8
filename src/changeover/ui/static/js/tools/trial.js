// Try a tool: a real call with given arguments, after a question.
import { inPath, post } from "../api.js";
import { confirmed } from "../build/dialog.js";
import { h, icon } from "../dom.js";

const BLANK = { string: "", integer: 0, number: 0, boolean: false, array: [], object: {} };

const blank = ({ properties = {}, required = [] }) => Object.fromEntries(required.map((name) => [name, BLANK[properties[name]?.type] ?? ""]));

export function trial(item) {
  const args = h("textarea", { class: "in mono", rows: "4", id: "trial-args", spellcheck: "false" }, JSON.stringify(blank(item.parameters), null, 2));
  const said = h("div", { class: "said", role: "status" });
  const go = h("button", { class: "btn", type: "button", onclick: () => run() }, icon("play", "small"), "Call it…");
  async function run() {
    said.replaceChildren();
    let given;
    try {
      given = JSON.parse(args.value || "{}");
    } catch (error) {
      return said.replaceChildren(h("p", { class: "fault" }, `The arguments are not JSON: ${error.message}`));
    }
    if (!(await confirmed(`Call ${item.name}?`, `The call is real: what ${item.name} does outside is done, and no approval is asked for. The audit list will name you.`, "Call it"))) return;
    go.disabled = true;
    try {
      const answer = await post(`/tools/${inPath(item.name)}/test`, { arguments: given, ...(item.agents[0] ? { agent: item.agents[0] } : {}) });
      said.replaceChildren(h("p", { class: answer.ok ? "good" : "bad" }, icon(answer.ok ? "circle-check" : "circle-x", "small"), answer.ok ? "The model would read:" : "It failed. The model would read:"), h("pre", { tabindex: "0" }, answer.text));
    } catch (problem) {
      said.replaceChildren(h("p", { class: "fault" }, problem.message));
    }
    go.disabled = false;
  }
  return h("section", { class: "trial", "aria-label": "Try it" }, h("h2", {}, "Try it"), h("label", { for: "trial-args", class: "meta" }, "Arguments as JSON"), args, h("div", { class: "acts" }, go), said);
}
