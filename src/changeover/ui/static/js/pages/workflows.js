// Workflows: the list; and one workflow with its graph, a form that starts it, and its last runs.
import { get, inPath, may, now, post, query } from "../api.js";
import { byId, h, icon, root } from "../dom.js";
import { ago, day, plural } from "../format.js";
import { broken, complain, frame } from "../frame.js";
import { keepFresh, panel, quiet } from "../panel.js";
import { graph } from "../steps.js";

const REFRESH = 5; // seconds
const id = decodeURIComponent(location.pathname.slice(`${root}/workflows`.length + 1));

async function list() {
  const { items } = await get("/workflows");
  byId("count").textContent = items.length ? String(items.length) : "none yet";
  byId("body").replaceChildren(items.length ? h("ul", { class: "flows" }, items.map(card)) : nothing());
}

const card = (each) => h("li", {}, h("a", { href: `${root}/workflows/${inPath(each.id)}` }, h("b", {}, h("bdi", {}, each.name)), h("span", { class: "mono meta" }, each.id),
  h("span", { class: "soft" }, h("bdi", {}, each.description)), h("span", { class: "meta" }, [plural(each.steps, "step"), each.inputs.length ? `inputs: ${each.inputs.join(", ")}` : ""].filter(Boolean).join(" · "))));

const nothing = () => h("div", { class: "nothing" }, h("h2", {}, "Workflows appear here"), h("p", {}, "A workflow has steps in an order that is known beforehand; agents and functions carry them out. Declare one with the team:"),
  h("pre", {}, h("code", {}, 'Team(…, workflows=[Workflow("deploy", steps=[\n  WorkflowStep("test", agent="tester"),\n  WorkflowStep("ship", agent="deployer", after=["test"])])])')));

async function one(who) {
  const flow = await get(`/workflows/${inPath(id)}`);
  document.title = `${flow.name} · Changeover`;
  byId("bar").replaceChildren(h("a", { class: "soft", href: `${root}/workflows` }, "Workflows"), icon("chevron-right", "small"), h("h1", {}, h("bdi", {}, flow.name)), h("span", { class: "mono meta" }, flow.id));
  const runs = h("div", { "aria-busy": "true" }, quiet("Loading…"));
  byId("body").replaceChildren(h("div", { class: "panels" },
    panel("Steps", { whole: true, more: h("span", { class: "dim" }, plural(flow.steps, "step")) }, flow.description && h("p", { class: "in-panel soft" }, h("bdi", {}, flow.description)), graph(flow.map), details(flow.map)),
    may(who, "operator") ? panel("Start", {}, form(flow)) : null, panel("Last runs", {}, runs)));
  await keepFresh(() => last(runs), REFRESH);
}

// What the graph has no room for: the conditions, retries and undo steps.
function details(map) {
  const told = map.steps.filter((each) => each.details.length);
  return told.length ? h("dl", { class: "in-panel told" }, told.map((each) => [h("dt", {}, h("bdi", {}, each.name)), h("dd", {}, each.details.map((words) => h("span", {}, h("bdi", {}, words))))])) : null;
}

function form(flow) {
  const fault = h("p", { class: "fault", role: "alert", hidden: true });
  const go = h("button", { class: "btn primary", type: "submit" }, icon("play", "small"), "Start");
  const more = h("textarea", { class: "in mono", name: "more", rows: 2, placeholder: "{ }", spellcheck: "false" });
  const start = async (event) => {
    event.preventDefault();
    [go.disabled, fault.hidden] = [true, true];
    try {
      const begun = await post(`/workflows/${inPath(flow.id)}/runs`, { inputs: given(new FormData(event.target), flow.inputs, more.value) });
      location.assign(`${root}/runs/${inPath(begun.conversation)}`);
    } catch (problem) {
      [fault.textContent, fault.hidden, go.disabled] = [problem.message, false, false];
    }
  };
  return h("form", { class: "in-panel starts", onsubmit: start }, flow.inputs.map((name) => h("label", {}, h("bdi", {}, name), h("input", { class: "in", name: `input ${name}`, autocomplete: "off" }))),
    h("label", {}, flow.inputs.length ? "Further inputs, as JSON" : "Inputs, as JSON", more), h("p", { class: "meta" }, "A value that is not JSON is text; an empty field is left out."), fault, h("div", { class: "row" }, go));
}

function given(values, names, more) {
  const inputs = {};
  for (const name of names) {
    const text = values.get(`input ${name}`);
    if (text === "") continue;
    try { inputs[name] = JSON.parse(text); } catch { inputs[name] = text; }
  }
  if (!more.trim()) return inputs;
  let read;
  try { read = JSON.parse(more); } catch (error) { throw new Error(`The further inputs are not JSON: ${error.message}`); }
  if (read === null || typeof read !== "object" || Array.isArray(read)) throw new Error("The further inputs are not an object.");
  return { ...inputs, ...read };
}

async function last(box) {
  try {
    const { items } = await get(`/conversations${query({ agent: id, limit: 10 })}`);
    complain();
    box.replaceChildren(items.length ? h("ul", { class: "lastruns" }, items.map((each) => h("li", {}, h("a", { href: `${root}/runs/${inPath(each.id)}` }, h("span", { class: "mono" }, each.id), h("span", { class: `pill ${each.status}` }, h("i", { class: "dot" }), each.status), h("time", { class: "meta", title: day(each.updated_at) }, ago(each.updated_at, now())))))) : quiet("No run yet."));
  } catch (problem) {
    complain(problem);
  }
  box.removeAttribute("aria-busy");
}

try {
  const { who } = await frame();
  await (id ? one(who) : list());
} catch (problem) {
  broken(byId("body"), problem, problem.status === 404 ? "There is no such workflow" : undefined);
}
byId("body").removeAttribute("aria-busy");
