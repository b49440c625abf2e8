// What a model was sent, rebuilt from the log and the recorded declarations.
import { get, inPath } from "../api.js";
import { h, icon } from "../dom.js";
import { plural, value } from "../format.js";

const text = (words) => h("pre", { class: "text", tabindex: 0 }, h("bdi", {}, words));

function message({ type, text: said, author, agent, name, calls = [], files = [], ok }) {
  const who = { user: "user", assistant: agent, tool: `result of ${name}${ok === false ? ", an error" : ""}`, note: `note${author ? ` of ${author}` : ""}` }[type] ?? type;
  return h("li", { class: type }, h("b", { class: "meta" }, h("bdi", {}, who)), said && text(said), calls.map((call) => h("p", { class: "mono" }, h("bdi", {}, `${call.name}(${Object.entries(call.args ?? {}).map(([key, each]) => `${key}=${value(each)}`).join(", ")})`))), files.map((file) => h("p", { class: "meta" }, icon("file", "small"), ` ${file.name || file.url || "a file"}`)));
}

function shown({ instructions, messages = [], tools = [], gaps = [], edition, attempt }) {
  return [
    gaps.map((words) => h("p", { class: "notice" }, icon("triangle-alert", "small"), words)),
    h("p", { class: "meta" }, `${edition ? `declarations of edition ${edition}` : "declarations of the code as it is now"}${attempt > 1 ? `, attempt ${attempt}` : ""}`),
    h("h4", {}, "Instructions"), instructions ? text(instructions) : h("p", { class: "meta" }, "none"),
    h("h4", {}, plural(messages.length, "message")), h("ol", { class: "sent" }, messages.map(message)),
    h("h4", {}, plural(tools.length, "tool")), tools.map((tool) => h("details", {}, h("summary", { class: "mono" }, h("bdi", {}, tool.name)), h("p", {}, h("bdi", {}, tool.description)), text(JSON.stringify(tool.parameters, null, 2)))),
  ];
}

// The section of the inspector; it is asked for when it is opened.
export function promptOf({ conversation, seq }) {
  const body = h("div", { class: "prompt" }, h("p", { class: "quiet" }, "Loading…"));
  const load = async () => {
    try {
      body.replaceChildren(...shown(await get(`/conversations/${inPath(conversation)}/prompts/${seq}`)).flat().filter(Boolean));
    } catch (problem) {
      body.replaceChildren(h("p", { class: "fault", role: "alert" }, problem.message));
    }
  };
  const box = h("details", { class: "promptbox", ontoggle: () => box.open && !box.dataset.asked && ((box.dataset.asked = "1"), load()) }, h("summary", {}, "What the model was sent", h("span", { class: "pill" }, "rebuilt")), body);
  return box;
}
