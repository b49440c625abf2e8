// The versions of a declaration: who wrote each and when, what it changed, a comparison, and a way back.
import { call, get, inPath } from "../api.js";
import { h, icon } from "../dom.js";
import { day, plural } from "../format.js";
import { changedKeys, drawn } from "./diff.js";
import { dialog } from "./dialog.js";

const STATES = { disabled: "disabled", removed: "removed" };

// Fills `box`. `mine()` gives the document as it is in the form; `restored(row)` gets the new version.
export async function showHistory(box, { kind, name, mine, allowed, restored }) {
  const path = `/declarations/${kind}/${inPath(name)}`;
  try {
    const rows = (await get(`${path}/history`)).items;
    const last = rows.at(-1);
    const restore = async (row) => restored(await call("PUT", path, row.document, { "If-Match": `"${last.version}"` }));
    box.replaceChildren(h("ol", { class: "versions" }, rows.map((row, index) => entry(row, rows[index - 1], { last, mine, allowed, restore })).reverse()), h("p", { class: "meta" }, "A run keeps the version with which it began."));
  } catch (problem) {
    box.replaceChildren(h("p", { class: "fault" }, problem.message));
  }
}

function entry(row, before, { last, mine, allowed, restore }) {
  const now = row === last;
  const back = () => dialog(`Restore version ${row.version}`, drawn(last.document, row.document), [`Restore as v${last.version + 1}`, () => restore(row).catch((problem) => dialog("It was not restored", h("p", { class: "fault" }, problem.message))), "primary"]);
  return h("li", {},
    h("p", {}, h("b", {}, `v${row.version}`), now && h("span", { class: "pill completed" }, "current"), STATES[row.state] && h("span", { class: "pill" }, STATES[row.state])),
    h("p", { class: "meta" }, row.by ? h("bdi", {}, row.by) : "someone without a name", `, ${day(row.at)}`),
    h("p", { class: "meta soft" }, words(row, before)),
    h("div", { class: "acts" },
      before && h("button", { class: "btn small", type: "button", onclick: () => dialog(`What version ${row.version} changed`, drawn(before.document, row.document)) }, "What changed"),
      h("button", { class: "btn small", type: "button", onclick: () => dialog(`Version ${row.version} and the form`, drawn(row.document, mine())) }, "Compare"),
      allowed && !now && h("button", { class: "btn small", type: "button", onclick: back }, icon("rotate-ccw", "small"), "Restore")));
}

function words(row, before) {
  if (!before) return "First version";
  if (before.state !== row.state) return row.state === "enabled" ? "Enabled" : row.state === "disabled" ? "Disabled" : "Removed";
  const keys = changedKeys(before.document, row.document);
  return keys.length > 4 ? plural(keys.length, "change") : keys.join(", ") || "No change";
}
