// Workflows: the list; and one workflow with its graph, a form that starts it, its last runs, and its document.
import { get, inPath, may, now, post, query } from "../api.js";
import { grid } from "../chart.js";
import { byId, h, icon, root } from "../dom.js";
import { ago, count, day, maybe, percent, plural, STATUSES, took } from "../format.js";
import { broken, complain, frame } from "../frame.js";
import { keepFresh, panel, quiet, scrolling } from "../panel.js";
import { graph } from "../steps.js";

const REFRESH = 5; // seconds
const MOST = 24; // the list shows the last run of so many workflows
const id = decodeURIComponent(location.pathname.slice(`${root}/workflows`.length + 1));

const DRAFT = { description: "", steps: [{ id: "first", agent: "", input: "{inputs.task}" }] };

async function list(who) {
  const { items } = await get("/workflows");
  byId("count").textContent = items.length ? String(items.length) : "none yet";
  const lasts = items.map(() => h("span", { class: "row last" }, h("span", { class: "meta" }, "…")));
  byId("body").replaceChildren(items.length ? h("ul", { class: "flows" }, items.map((each, index) => card(each, lasts[index]))) : nothing(), ...(may(who, "admin") ? [fresh()] : []));
  if (items.length) await keepFresh(() => Promise.all(items.slice(0, MOST).map((each, index) => newest(each.id, lasts[index]))).then(() => complain(), complain), REFRESH);
}

// A new workflow of the store; the editor is loaded once a person wants one.
function fresh() {
  const named = h("input", { class: "in mono", autocomplete: "off", placeholder: "smart-deploy" });
  const box = h("details", { class: "fresh" }, h("summary", { class: "btn" }, icon("plus", "small"), "New workflow"));
  box.addEventListener("toggle", async () => box.append(panel("New workflow", {}, h("div", { class: "in-panel starts" }, h("label", {}, "Id", named)), (await editor({ row: null, draft: DRAFT, name: () => named.value.trim() })).element)), { once: true });
  return box;
}

async function editor(options) {
  const { DocumentEditor } = await import("../build/document.js");
  return new DocumentEditor({ kind: "workflow", locked: false, saved: (row) => location.assign(`${root}/workflows/${inPath(row.name)}`), ...options });
}

// The document of a workflow that the store declares; code declares all others.
async function declared(box, who) {
  try {
    const row = await get(`/declarations/workflow/${inPath(id)}`);
    box.replaceChildren((await editor({ row, name: () => id, locked: !may(who, "admin") })).element);
  } catch (problem) {
    box.replaceChildren(problem.status === 404 ? quiet("It is declared in code or in a file, so it is changed there.") : h("p", { class: "fault in-panel" }, problem.message));
  }
}

const card = (each, last) => h("li", {}, h("a", { href: `${root}/workflows/${inPath(each.id)}` }, h("b", { class: "row" }, icon("git-fork"), h("bdi", {}, each.name)), h("span", { class: "mono meta" }, each.id),
  h("span", { class: "soft" }, h("bdi", {}, each.description)), h("span", { class: "meta" }, [plural(each.steps, "step"), each.inputs.length ? `takes ${each.inputs.join(", ")}` : "takes no input"].join(" · ")), last));

const pill = (status) => h("span", { class: `pill ${status}` }, h("i", { class: "dot" }), STATUSES[status] ?? status);

async function newest(id, box) {
  const [run] = (await get(`/conversations${query({ agent: id, limit: 1 })}`)).items;
  box.replaceChildren(...(run ? [pill(run.status), h("span", { class: "meta" }, `last run ${ago(run.updated_at, now())}`)] : [h("span", { class: "meta" }, "not run yet")]));
}

const nothing = () => h("div", { class: "nothing" }, h("h2", {}, "Workflows appear here"), h("p", {}, "A workflow has steps in an order that is known beforehand; agents and functions carry them out. Declare one with the team:"),
  h("pre", {}, h("code", {}, 'Team(…, workflows=[Workflow("deploy", steps=[\n  WorkflowStep("test", agent="tester"),\n  WorkflowStep("ship", agent="deployer", after=["test"])])])')));

async function one(who) {
  const flow = await get(`/workflows/${inPath(id)}`);
  document.title = `${flow.name} · Changeover`;
  byId("bar").replaceChildren(h("a", { class: "soft", href: `${root}/workflows` }, "Workflows"), icon("chevron-right", "small"), h("h1", {}, h("bdi", {}, flow.name)), h("span", { class: "mono meta" }, flow.id));
  const [runs, figures, written] = [1, 2, 3].map(() => h("div", { "aria-busy": "true" }, quiet("Loading…")));
  byId("body").replaceChildren(h("div", { class: "panels" },
    panel("Steps", { whole: true, more: h("span", { class: "dim" }, plural(flow.steps, "step")) }, flow.description && h("p", { class: "in-panel soft" }, h("bdi", {}, flow.description)), graph(flow.map), details(flow.map)),
    may(who, "operator") ? panel("Start", {}, form(flow)) : null, panel("Last runs", {}, runs), panel("How its steps went", { whole: true, more: h("span", { class: "dim" }, "all runs that have ended") }, figures), panel("Document", { whole: true }, written)));
  await declared(written, who);
  written.removeAttribute("aria-busy");
  await keepFresh(() => Promise.all([last(runs), went(figures, flow.map.steps)]), REFRESH);
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

async function went(box, steps) {
  try {
    const { items } = await get(`/workflows/${inPath(id)}/metrics`);
    const names = new Map(steps.map((each) => [each.id, each.name]));
    const rows = items.map((each) => [h("bdi", {}, names.get(each.step) ?? each.step), count(each.count), percent(each.success_rate), maybe(each.elapsed.p50, took), maybe(each.elapsed.p95, took), count(each.retries), count(each.failed), count(each.skipped), count(each.compensated), count(each.tokens), each.price]);
    const heads = ["Step", "Runs", "Success", "p50", "p95", "Retries", "Failed", "Skipped", "Undone", "Tokens", "Cost"];
    box.replaceChildren(rows.length ? scrolling("How its steps went", grid({ heads, rows, label: "How its steps went" })) : quiet("No run has ended yet."));
  } catch (problem) {
    complain(problem);
  }
  box.removeAttribute("aria-busy");
}

async function last(box) {
  try {
    const { items } = await get(`/conversations${query({ agent: id, limit: 10 })}`);
    complain();
    box.replaceChildren(items.length ? h("ul", { class: "lastruns" }, items.map((each) => h("li", {}, h("a", { href: `${root}/runs/${inPath(each.id)}` }, pill(each.status), h("time", { title: day(each.created_at) }, `began ${ago(each.created_at, now())}`), h("span", { class: "mono meta" }, each.id))))) : quiet("No run yet. Start one with the form."));
  } catch (problem) {
    complain(problem);
  }
  box.removeAttribute("aria-busy");
}

try {
  const { who } = await frame();
  await (id ? one(who) : list(who));
} catch (problem) {
  broken(byId("body"), problem, problem.status === 404 ? "There is no such workflow" : undefined);
}
byId("body").removeAttribute("aria-busy");
