// Settings: tokens and roles, the health of the store, versions, export of everything, and the audit.
import { BASE, call, get, may, now, post, query } from "../api.js";
import { grid } from "../chart.js";
import { byId, h, icon } from "../dom.js";
import { ago, bytes, count, day, plural, took } from "../format.js";
import { broken, complain, frame } from "../frame.js";
import { ask, field, keepFresh, panel, quiet, scrolling } from "../panel.js";
import { nameOf } from "../team.js";

const REFRESH = 15; // seconds
const SOON = 7 * 86400; // seconds before a token ends
const SLOW = 0.25; // seconds of a short read
const ROLES = {
  worker: "Claims and answers tickets of the agents that its token names, and nothing else",
  viewer: "Reads conversations, runs and metrics",
  operator: "Starts, cancels and hands on work; serves the queue",
  approver: "Decides about requests to people",
  admin: "Changes agents, tools, tokens and settings",
};
const ACTIONS = {
  "token.issue": (each) => `made a token for ${each.detail.user} with the role ${each.detail.role}`,
  "token.revoke": (each) => `revoked the token of ${each.detail.user}`,
  refused: (each) => `asked for ${each.subject}: ${each.detail.reason}`,
  "breakers.reset": (each) => `reset the circuit breaker of ${nameOf(each.subject)}`,
  "breakers.force": (each) => `opened the circuit breaker of ${nameOf(each.subject)}`,
  "experience.reset": ({ detail }) => `reset what the router had learned${detail.capability || detail.agent ? ` about ${[detail.capability, detail.agent].filter(Boolean).join(" by ")}` : ""}`,
  "ticket.retry": (each) => `let another worker try ${each.subject}`,
  "bus.resend": (each) => `sent the event ${each.subject} again`,
  "schedule.run": (each) => `ran the schedule ${each.subject}`,
  "schedule.pause": (each) => `paused the schedule ${each.subject}`,
  "schedule.resume": (each) => `resumed the schedule ${each.subject}`,
  "agents.switch": (each) => `${each.detail.enabled ? "enabled" : "disabled"} ${nameOf(each.subject)}`,
  "declaration.put": (each) => `saved ${declared(each)}, version ${each.detail.version}`,
  "declaration.enabled": (each) => `enabled ${declared(each)}`,
  "declaration.disabled": (each) => `disabled ${declared(each)}`,
  "declaration.removed": (each) => `removed ${declared(each)}`,
  "tool.test": (each) => `tried the tool ${each.subject}${each.detail.ok ? "" : ", and it failed"}`,
  "tool.discover": (each) => `asked the server ${each.subject} for its tools`,
  "conversation.forget": (each) => `deleted the conversation ${each.subject}`,
  export: () => "exported everything",
};
const declared = ({ subject }) => `the ${subject.replace("/", " ")}`;
const words = (each) => ACTIONS[each.action]?.(each) ?? `${each.action} ${each.subject}`;

class Settings {
  #seen = "";

  constructor(who) {
    Object.assign(this, { who, admin: may(who, "admin"), older: [], next: null });
  }

  async load() {
    try {
      const version = await get("/version");
      byId("where").textContent = `Team “${version.team}”${this.who.user ? `, signed in as ${this.who.user}` : ""}`;
      const [tokens, store, audit] = this.admin ? await Promise.all([get("/tokens"), get("/store"), get("/audit?limit=20")]) : [];
      complain();
      this.#draw(version, tokens?.items, store, audit);
    } catch (problem) {
      if (this.#seen) complain(problem);
      else broken(byId("body"), problem);
    }
    byId("body").removeAttribute("aria-busy");
  }

  #draw(version, tokens, store, audit) {
    if (store) store.read_time = Number(store.read_time.toPrecision(1)); // its last digits change with every look
    const standing = JSON.stringify([tokens, store, audit, this.older.length]);
    if (standing === this.#seen || document.querySelector("#body :focus-visible")) return;
    this.#seen = standing;
    const left = this.admin ? [this.#tokens(tokens), this.#audit(audit)] : [panel("Tokens and audit", {}, quiet(`Your role is ${this.who.role}. An admin sees and changes tokens, the store and the audit here.`)), roles()];
    const right = this.admin ? [health(store), this.#everything(store), roles(), server(version, store)] : [server(version)];
    byId("body").replaceChildren(h("div", { class: "setting" }, h("div", { class: "column" }, left), h("div", { class: "column" }, right)));
  }

  #tokens(tokens) {
    const valid = tokens.filter((each) => !each.revoked_at && (each.expires_at === null || each.expires_at > now()));
    const make = h("button", { class: "btn small primary", type: "button", onclick: () => this.#make() }, icon("plus", "small"), "New token");
    const more = [h("span", { class: "meta" }, `${valid.length} valid`), h("span", { class: "grow" }), make];
    if (!valid.length) return panel("Tokens", { more }, quiet("No token is valid. This server was started without one, or with one on the command line; callers from other machines need a token."));
    const until = (each) => (each.expires_at === null ? "never" : h("span", { class: each.expires_at - now() < SOON ? "warn" : "" }, day(each.expires_at)));
    const sees = (each) => [each.agents.length ? `serves ${each.agents.join(", ")}` : "", each.approval_roles.length ? `decides as ${each.approval_roles.join(", ")}` : "", each.everything ? "sees all users" : ""].filter(Boolean).join("; ");
    const rows = valid.map((each) => [h("span", { title: sees(each) }, h("bdi", {}, each.user), sees(each) && h("small", { class: "meta" }, sees(each))), h("span", { class: `role ${each.role}` }, each.role), h("span", { class: "mono" }, `chg_${each.id.slice(0, 4)}…`), each.used_at ? ago(each.used_at, now()) : h("span", { class: "warn" }, "never"), until(each), h("button", { class: "btn small quiet", type: "button", "aria-label": `Revoke the token of ${each.user}`, onclick: () => this.#revoke(each) }, "Revoke")]);
    return panel("Tokens", { more }, scrolling("Tokens", grid({ heads: ["User", "Role", "Begins with", "Last used", "Expires", ""], rows, label: "Tokens" })));
  }

  #make() {
    const days = h("select", { class: "in", name: "days" }, [[30, "30 days"], [90, "90 days"], [365, "1 year"], ["", "never"]].map(([value, label]) => h("option", { value }, label)));
    const role = h("select", { class: "in", name: "role" }, Object.keys(ROLES).map((each) => h("option", { value: each, selected: each === "viewer" }, each)));
    const list = (text) => (text ?? "").split(",").map((each) => each.trim()).filter(Boolean);
    const act = async ({ user, role: chosen, days: lasts, agents, roles: decides, everything }) => {
      const made = await post("/tokens", { user: user.trim(), role: chosen, agents: list(agents), approval_roles: list(decides), everything: everything === "on", expires_at: lasts ? now() + lasts * 86400 : null });
      this.load();
      return h("div", { class: "in-panel" }, h("h2", {}, `The token of ${made.token.user}`), h("p", { class: "soft" }, "Copy it now: it is shown only this once, and the store keeps only a digest."), h("code", { class: "secret", tabindex: 0 }, made.secret));
    };
    ask({ title: "New token", button: "Make the token", act, fields: [field("User", h("input", { class: "in", name: "user", required: true, maxlength: 200, autocomplete: "off" })), field("Role", role), field("Agents, for a worker (with commas)", h("input", { class: "in", name: "agents" })), field("Decides in these roles (with commas)", h("input", { class: "in", name: "roles" })), field("Expires", days), h("label", { class: "row" }, h("input", { type: "checkbox", name: "everything" }), "Sees the conversations of all users")] });
  }

  #revoke(each) {
    ask({ title: `Revoke the token of ${each.user}?`, words: "Its user is refused from now on. This cannot be undone.", button: "Revoke", danger: true, act: () => call("DELETE", `/tokens/${encodeURIComponent(each.id)}`).then(() => this.load()) });
  }

  #audit(audit) {
    if (!this.older.length) this.next = audit.next;
    const all = [...audit.items, ...this.older.filter((each) => !audit.items.some(({ id }) => id === each.id))];
    const line = (each) => h("li", {}, h("time", { title: new Date(each.at * 1000).toLocaleString() }, day(each.at)), h("span", {}, h("b", {}, each.actor || "The owner"), " ", words(each)), each.action === "refused" && h("span", { class: "pill bad" }, "refused"));
    const more = h("button", { class: "btn small", type: "button", onclick: (event) => this.#further(event.target) }, "Show older");
    return panel("Audit", { more: h("span", { class: "meta" }, "who changed what, and what was refused") }, all.length ? h("ul", { class: "audit" }, all.map(line)) : quiet("Nothing was changed or refused yet."), this.next && h("p", { class: "more-audit" }, more));
  }

  async #further(button) {
    button.disabled = true;
    try {
      const page = await get(`/audit${query({ limit: 50, cursor: this.next })}`);
      this.older.push(...page.items);
      this.next = page.next;
      button.blur();
      await this.load();
    } catch (problem) {
      complain(problem);
    }
  }

  #everything(store) {
    const save = h("a", { class: "btn", href: `${BASE}/store/export`, download: "" }, "Export everything");
    return panel("Export", {}, h("div", { class: "in-panel" }, h("p", { class: "soft" }, `All declarations, ${plural(store.conversations, "conversation")} with their events, and the audit, as lines of JSON. Secrets are not in it.`), h("p", {}, save)));
  }
}

function health(store) {
  const stored = store.database !== "memory";
  const check = (fine, label, value) => h("li", {}, icon(fine ? "circle-check" : "triangle-alert", fine ? "good" : "warn"), h("span", {}, label), h("span", { class: `meta ${fine ? "" : "warn"}` }, value));
  const fine = store.unfinished === 0 && store.read_time < SLOW;
  const size = (label, value) => h("div", {}, label, h("b", {}, value));
  return panel("Store", { more: [h("span", { class: "grow" }), h("span", { class: `pill ${fine ? "good" : "warn"}` }, h("i", { class: "dot" }), fine ? "Healthy" : "Look at this")] },
    h("div", { class: "sizes" }, size("Conversations", count(store.conversations)), size("Events", count(store.events)), size("Size", store.size === null ? "–" : bytes(store.size))),
    h("ul", { class: "checks" },
      check(stored, store.database === "memory" ? "In memory: it is lost when the server stops" : store.database, stored ? `tables ${store.schema}, current` : ""),
      check(store.read_time < SLOW, "A short read", took(store.read_time)),
      check(store.unfinished === 0, "Unfinished runs that no process works on", String(store.unfinished)),
      stored && check(true, "Processes at work on it", store.processes.map((each) => `${each.host} ${each.pid}`).join(", ") || "none at this moment")),
    stored && h("p", { class: "meta in-panel" }, "Compare all logs with the tables: ", h("code", {}, "changeover db check")));
}

const roles = () => panel("Roles", { more: h("span", { class: "meta" }, "from viewer on, each includes the one above") }, h("dl", { class: "facts" }, Object.entries(ROLES).map(([name, may]) => [h("dt", {}, name), h("dd", {}, may)])));

const server = (version, store) => {
  const facts = [["version", version.version], ["team", version.team], ...(store ? [["access", store.open_access ? "open to this machine, no token needed" : "token required"], ["python", store.python]] : [])];
  return panel("Server", {}, h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)])));
};

try {
  const { who } = await frame();
  const settings = new Settings(who);
  await keepFresh(() => settings.load(), REFRESH);
} catch (problem) {
  broken(byId("body"), problem);
}
