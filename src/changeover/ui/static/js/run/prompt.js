// What a model was sent, rebuilt from the log and the recorded declarations.
import { h, icon } from "../dom.js";
import { plural, value } from "../format.js";
import { nameOf } from "../team.js";

const text = (words) => h("pre", { class: "text", tabindex: 0 }, h("bdi", {}, words));

function message({ type, text: said, author, agent, name, calls = [], files = [], ok }) {
  const who = { user: "User", assistant: nameOf(agent), tool: `Result of ${name}${ok === false ? ", an error" : ""}`, note: `Note${author ? ` of ${author}` : ""}` }[type] ?? type;
  return h("li", { class: type }, h("b", { class: "meta" }, h("bdi", {}, who)), said && text(said), calls.map((call) => h("p", { class: "mono" }, h("bdi", {}, `${call.name}(${Object.entries(call.args ?? {}).map(([key, each]) => `${key}=${value(each)}`).join(", ")})`))), files.map((file) => h("p", { class: "meta" }, icon("file", "small"), ` ${file.name || file.url || "a file"}`)));
}

// What the server says of a prompt, as elements.
export function promptParts({ instructions, messages = [], tools = [], gaps = [], edition, attempt }) {
  return [
    gaps.map((words) => h("p", { class: "notice" }, icon("triangle-alert", "small"), words)),
    h("p", { class: "meta" }, `From the log, and ${edition ? `edition ${edition} of the declarations` : "the code as it is now"}${attempt > 1 ? `; attempt ${attempt}` : ""}.`),
    h("h4", {}, "Instructions"), instructions ? text(instructions) : h("p", { class: "meta" }, "none"),
    h("h4", {}, plural(messages.length, "message")), h("ol", { class: "sent" }, messages.map(message)),
    h("h4", {}, plural(tools.length, "tool")), tools.map((tool) => h("details", {}, h("summary", { class: "mono" }, h("bdi", {}, tool.name)), h("p", {}, h("bdi", {}, tool.description)), text(JSON.stringify(tool.parameters, null, 2)))),
  ];
}
