// The prompt as the engine would send it; the server composes it, and what the form changes in it is marked here.
import { inPath } from "../api.js";
import { diff } from "../build/diff.js";
import { byId, h, root } from "../dom.js";

const lines = (text) => (text ? text.split("\n") : []);

function marked(before, after) {
  if (before === undefined || before === after) return after || "none";
  return diff(lines(before), lines(after)).map(([sign, line]) => h("span", { class: sign === "+" ? "plus" : sign === "-" ? "minus" : "" }, sign === "+" && h("span", { class: "vh" }, "added: "), sign === "-" && h("span", { class: "vh" }, "removed: "), `${line}\n`));
}

const origin = (handoff) => {
  if (!handoff) return "Without a handoff: it has got none yet.";
  const conversation = handoff.slice(0, handoff.lastIndexOf(":"));
  return ["With the package of its last handoff, in ", h("a", { class: "link", href: `${root}/chat/${inPath(conversation)}` }, conversation), "."];
};

// `saved` is the prompt of the version that holds now; `why` says why there is no newer one.
export function showPrompt(prompt, saved, why = "") {
  const seen = byId("seen");
  seen.classList.toggle("stale", Boolean(why) && !prompt);
  if (!prompt) {
    const note = seen.querySelector(".why");
    if (note) return void (note.textContent = why);
    return seen.replaceChildren(h("h2", {}, "Prompt as sent"), h("p", { class: "meta why", role: "status" }, why));
  }
  const part = (title, ...body) => h("section", {}, h("h3", {}, title), ...body);
  const old = new Map((saved?.tools ?? []).map((each) => [each.name, JSON.stringify(each)]));
  const opened = new Set([...seen.querySelectorAll("details[open] > summary")].map((each) => each.textContent)); // stay open
  const tool = (each) => h("details", { open: opened.has(each.name), class: saved && old.get(each.name) !== JSON.stringify(each) ? "plus" : "" }, h("summary", { class: "mono" }, each.name), h("pre", { tabindex: "0" }, JSON.stringify(each, null, 2)));
  seen.replaceChildren(
    h("h2", { class: "row" }, "Prompt as sent", h("span", { class: "grow" }), h("span", { class: "mono dim" }, `${prompt.tokens} tokens`)),
    h("p", { class: "meta why", role: "status" }, why), h("p", { class: "meta" }, origin(prompt.handoff)),
    part("Instructions", h("pre", { tabindex: "0" }, marked(saved?.instructions, prompt.instructions))),
    ...(prompt.messages.length ? [part(`Messages${prompt.left_out ? `, the last ${prompt.messages.length}` : ""}`, h("ol", { class: "spoken" }, prompt.messages.map(({ role, text }) => h("li", {}, h("b", {}, role), h("span", { dir: "auto" }, text)))))] : []),
    part(`Tools (${prompt.tools.length})`, ...(prompt.tools.length ? prompt.tools.map(tool) : [h("p", { class: "meta" }, "none")])),
    ...(Object.keys(prompt.settings).length ? [part("Settings", h("pre", {}, JSON.stringify(prompt.settings)))] : []));
  return undefined;
}
