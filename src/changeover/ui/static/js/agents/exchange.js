// Export and import of the team as YAML.
import { BASE, post } from "../api.js";
import { dialog } from "../build/dialog.js";
import { h } from "../dom.js";

export function showExport() {
  const link = (words, query) => h("a", { class: "btn", href: `${BASE}/export${query}`, download: "" }, words);
  dialog("Export the team", h("div", { class: "said" }, h("p", { class: "soft" }, "One YAML document. Secrets are in it as references only."), h("div", { class: "acts" }, link("What the store declares", ""), link("With what code declares", "?code=true")), h("p", { class: "meta" }, "What only code can express is named at its top.")));
}

export function showImport(done) {
  const text = h("textarea", { class: "in mono", rows: "12", "aria-label": "YAML", spellcheck: "false", placeholder: "agents:\n  billing:\n    instructions: …" });
  const file = h("input", { type: "file", accept: ".yaml,.yml,.json", "aria-label": "A file", onchange: async () => (text.value = (await file.files[0]?.text()) ?? "") });
  const said = h("div", { class: "said", role: "status" });
  const box = dialog("Import a team", h("div", { class: "said" }, h("p", { class: "soft" }, "Agents, tools, skills and settings of a YAML document go into the store, all or none. What the store declares besides stays."), file, text, h("div", { class: "acts" }, h("button", { class: "btn", type: "button", onclick: () => send(false) }, "Show what would change")), said));
  async function send(write) {
    said.replaceChildren();
    try {
      const { changes, written } = await post("/import", { text: text.value, write });
      if (written) return box.close(), done();
      said.replaceChildren(...(changes.length
        ? [h("ul", { class: "offered" }, changes.map((each) => h("li", {}, h("b", { class: "mono" }, `${each.new ? "+" : "~"} ${each.kind} ${each.name}`), h("span", {}, each.new ? "new" : `changes ${each.keys.join(", ")}`)))), h("div", { class: "acts" }, h("button", { class: "btn primary", type: "button", onclick: () => send(true) }, `Write ${changes.length === 1 ? "it" : `all ${changes.length}`}`))]
        : [h("p", {}, "The store declares all of it already.")]));
    } catch (problem) {
      said.replaceChildren(...(problem.body.faults ?? [problem.message]).map((each) => h("p", { class: "fault" }, each)));
    }
    return undefined;
  }
}
