// What every page does: theme, shortcuts, the count of requests, who is signed in, and whether the server answers.
import { call, get, may, me } from "./api.js";
import { byId, h, icon, root } from "./dom.js";
import { sentence } from "./format.js";
import { live } from "./live.js";
import { team } from "./team.js";

const STATES = {
  reconnecting: "Reconnecting… What you see may be older than what happens.",
  offline: "This device is offline. The page goes on by itself as soon as it is back.",
};
const keys = new Map([["?", ["Shortcuts", showKeys]]]);

// A key that works unless a person types; `words` is its line in the list of shortcuts.
export const shortcut = (key, words, act) => keys.set(key, [words, act]);

function showKeys() {
  const lines = [...keys].map(([key, [words]]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, words)]);
  const dialog = h("dialog", { class: "keys", "aria-label": "Shortcuts", onclose: () => dialog.remove() },
    h("h2", {}, "Shortcuts"), h("dl", {}, lines),
    h("form", { method: "dialog" }, h("button", { class: "btn" }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

const typing = (target) => target.matches("input:not([type=range], [type=checkbox]), textarea, select, [contenteditable]");

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
  const found = keys.get(event.key);
  if (!found) return;
  event.preventDefault();
  found[1]();
}

function setUpTheme() {
  byId("theme").addEventListener("click", () => {
    const element = document.documentElement;
    const dark = (element.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    element.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", element.dataset.theme); } catch { /* it holds for this page */ }
  });
}

function setUpMore() {
  const [more, rest] = [byId("more"), byId("rest")];
  const turn = (open) => {
    rest.classList.toggle("open", open);
    more.setAttribute("aria-expanded", open);
  };
  more.addEventListener("click", () => turn(!rest.classList.contains("open")));
  rest.addEventListener("keydown", (event) => event.key === "Escape" && (turn(false), more.focus()));
  rest.addEventListener("click", () => turn(false));
}

function showWho(who) {
  if (!who.user) return;
  const leave = () => call("DELETE", "/session").finally(() => location.assign(`${root}/sign-in`));
  byId("foot").prepend(h("p", { class: "who-am-i" }, h("bdi", {}, who.user), `, ${who.role}`),
    h("button", { class: "nav", type: "button", onclick: leave }, icon("log-out"), h("span", { class: "lbl" }, "Sign out")));
}

// Requests that wait for a person, live on every page: hear(items) at each change.
export const requests = { items: new Map(), hearers: new Set(), ready: false };
export function onRequests(hear) {
  requests.hearers.add(hear);
  if (requests.ready) hear([...requests.items.values()]);
}

// Ask now instead of waiting for the next look at the list: a conversation has just asked a person.
export const lookForRequests = () => get("/approvals?limit=200").then((said) => takeRequests({ kind: "snapshot", items: said.items ?? said }));

function takeRequests(frame) {
  if (frame.kind === "snapshot") requests.items = new Map(frame.items.map((each) => [each.id, each]));
  else if (frame.kind === "change" && frame.item.status === "pending") requests.items.set(frame.item.id, frame.item);
  else requests.items.delete(frame.id ?? frame.item.id);
  requests.ready = true;
  const waiting = [...requests.items.values()];
  const count = byId("waiting");
  count.hidden = waiting.length === 0;
  count.replaceChildren(String(waiting.length), h("span", { class: "vh" }, " waiting"));
  for (const hear of requests.hearers) hear(waiting);
}

// Say what went wrong above the page, until the next success.
export function complain(problem) {
  const [banner, words] = [byId("banner"), problem?.message ?? STATES[live.state] ?? ""];
  if (banner.textContent === words) return;
  banner.className = problem ? "banner bad" : "banner";
  banner.textContent = words;
  banner.hidden = !words;
}

// Say in the place of what a page shows that it cannot be read.
export function broken(box, problem, title = "The server cannot be asked", again = () => location.reload()) {
  for (const each of document.querySelectorAll("[aria-busy]")) each.removeAttribute("aria-busy");
  box.replaceChildren(h("div", { class: "nothing" }, h("h2", {}, title), h("p", {}, sentence(problem.message)), h("button", { class: "btn", type: "button", onclick: again }, "Try again")));
}

// Set up the frame; resolves to the signed-in user and the members of the team: { who, agents }.
export async function frame() {
  document.addEventListener("keydown", onKey);
  byId("keys").addEventListener("click", showKeys);
  setUpTheme();
  setUpMore();
  live.onState(() => complain());
  const [who, agents] = await Promise.all([me(), team()]);
  showWho(who);
  if (may(who, "viewer")) {
    live.watch("approvals", takeRequests);
    live.open();
  }
  return { who, agents };
}
