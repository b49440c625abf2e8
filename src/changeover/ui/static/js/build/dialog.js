// Dialogs of editors: a question before something real happens, and what differs.
import { h } from "../dom.js";

export function dialog(title, body, ...actions) {
  const box = h("dialog", { class: "ask-dialog", "aria-label": title, onclose: () => box.remove() }, h("h2", {}, title), body, h("div", { class: "acts" }, ...actions.map(([words, act, kind = ""]) => h("button", { class: `btn ${kind}`, type: "button", onclick: () => (box.close(), act?.()) }, words)), h("button", { class: "btn quiet", type: "button", onclick: () => box.close() }, actions.length ? "Cancel" : "Close")));
  document.body.append(box);
  box.showModal();
  return box;
}

export const confirmed = (title, words, action, kind = "primary") => new Promise((done) => {
  const box = dialog(title, h("p", { class: "soft" }, words), [action, () => done(true), kind]);
  box.addEventListener("close", () => done(false));
});
