// Panels of the pages for operators, the dialog that shows the runs behind a figure, and the one that asks a person.
import { get, inPath, now, query } from "./api.js";
import { h, root } from "./dom.js";
import { ago, day, plural, took } from "./format.js";
import { nameOf } from "./team.js";

export const panel = (title, { more = null, whole = false, id } = {}, ...body) =>
  h("section", { class: `panel ${whole ? "whole" : ""}`, "aria-label": title, id }, h("header", {}, h("h2", {}, title), more), body);
export const legend = (...items) => h("span", { class: "legend" }, items.map(([tone, words]) => h("span", {}, h("i", { class: `dot ${tone}` }), words)));
export const quiet = (words) => h("p", { class: "quiet" }, words);
export const scrolling = (label, table) => h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": label }, table);

function open(dialog) {
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// The runs that a figure counts: `wanted` is the query of /metrics/runs.
export async function showRuns(title, wanted) {
  const list = h("div", { "aria-busy": "true" }, quiet("Loading…"));
  const close = h("button", { class: "btn small", type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = open(h("dialog", { class: "runs-of", "aria-label": title }, h("header", {}, h("h2", {}, title), h("span", { class: "grow" }), close), list));
  try {
    const { items } = await get(`/metrics/runs${query({ ...wanted, limit: 50 })}`);
    const slowest = SLOWEST.includes(wanted.figure);
    const about = items.length === 50 ? `The ${slowest ? "slowest" : "newest"} 50 are shown.` : items.length ? "" : "No run that you may see is counted here.";
    list.replaceChildren(h("ul", {}, items.map((each) => runLine(each, slowest && took(each.amount)))), about && h("p", { class: "quiet in-panel meta" }, about));
  } catch (problem) {
    list.replaceChildren(h("p", { class: "fault in-panel" }, problem.message));
  }
  list.removeAttribute("aria-busy");
}

const SLOWEST = ["latency", "work_time"]; // these figures list the slowest handoffs, with their times

function runLine(each, time) {
  const who = [each.agent && nameOf(each.agent), each.receiver && nameOf(each.receiver)].filter(Boolean).join(" → ");
  return h("li", {}, h("a", { href: `${root}/runs/${inPath(each.root)}` },
    h("b", {}, h("bdi", {}, each.title || each.root)), h("time", { class: "meta", title: day(each.at) }, ago(each.at, now())),
    h("span", { class: "meta" }, [time, who, each.words?.replace(/^[A-Z]+(?=:|$)/, (state) => state.toLowerCase())].filter(Boolean).join(" · "))));
}

// Ask a person before something is changed. `act(values)` sends it; its error stays in the dialog.
export function ask({ title, words, fields = [], button, danger = false, act }) {
  const fault = h("p", { class: "fault", role: "alert", hidden: true });
  const send = async (event) => {
    event.preventDefault();
    go.disabled = true;
    fault.hidden = true;
    try {
      const done = await act(Object.fromEntries(new FormData(form)));
      if (done instanceof Element) form.replaceChildren(done, h("div", { class: "row" }, h("button", { class: "btn primary", type: "button", onclick: () => dialog.close() }, "Done")));
      else dialog.close();
    } catch (problem) {
      fault.textContent = problem.message;
      fault.hidden = false;
      go.disabled = false;
    }
  };
  const go = h("button", { class: `btn ${danger ? "danger" : "primary"}`, type: "submit" }, button);
  const form = h("form", { onsubmit: send }, h("h2", {}, title), words && h("p", { class: "soft" }, words), fields, fault,
    h("div", { class: "row" }, h("button", { class: "btn", type: "button", onclick: () => dialog.close() }, "Cancel"), go));
  const dialog = open(h("dialog", { class: "ask-form", "aria-label": title }, form));
  return dialog;
}

export const field = (label, control) => h("label", {}, label, control);
export const counted = (count, one, many) => (count ? plural(count, one, many) : "none");

// Read something now, again at each `hint`, and every few seconds while the page is visible.
export function keepFresh(read, seconds) {
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(again, seconds * 1000);
  };
  const again = async () => {
    if (!document.hidden) await read();
    later();
  };
  document.addEventListener("visibilitychange", () => document.hidden || again());
  return again();
}
