// What is known of a tool that code declares, and what models see of any tool.
import { byId, h, icon } from "../dom.js";
import { nameOf } from "../team.js";
import { TYPES } from "./types.js";

export function facts(item) {
  const [words, mark] = TYPES[item.type] ?? [item.type, "wrench"];
  const where = item.origin === "agent"
    ? "It stands in the document of its agent. Change it there."
    : item.source ? ["It is declared in code. Change it there: ", h("code", {}, item.source)] : `It is declared in code, with ${item.agents.length ? `the agent ${item.agents.map(nameOf).join(", ")}` : "its agent"}. Change it there.`;
  return h("div", { class: "facts" },
    h("header", {}, h("h2", {}, h("bdi", {}, item.name)), h("p", { class: "row meta" }, icon(mark, "small"), words, item.approval && h("span", { class: "pill waiting" }, icon("shield-check", "small"), "needs approval")), item.description && h("p", { class: "soft" }, h("bdi", {}, item.description))),
    h("div", { class: "notice" }, icon("lock"), h("p", {}, where)));
}

export function usedBy(page, item) {
  return h("section", { class: "uses", "aria-label": "Used by" }, h("h2", {}, "Used by"), item.agents.length ? h("p", { class: "chips" }, item.agents.map((id) => page.who_has(id))) : h("p", { class: "meta" }, "No agent has it."));
}

// Exactly what models get: the server says it, nothing is composed here.
export function sight(tools, why = "") {
  const shown = tools.filter((each) => each.parameters && Object.keys(each.parameters).length);
  const text = shown.map(({ name, description, parameters }) => JSON.stringify({ name, description, parameters }, null, 2)).join("\n");
  const seen = byId("seen");
  if (!text && why && seen.querySelector("pre")) return seen.classList.add("stale"), seen.querySelector(".why").textContent = why;
  seen.classList.remove("stale");
  seen.replaceChildren(h("h2", {}, "What the model sees"), h("p", { class: "meta why", role: "status" }, why), ...(text ? [h("pre", { tabindex: "0" }, text)] : []));
}
