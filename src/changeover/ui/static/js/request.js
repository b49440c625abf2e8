// A request to a person: what is asked, the arguments, and the decisions that fit. Used by the chat and by the inbox.
import { inPath, post } from "./api.js";
import { h, icon } from "./dom.js";
import { value } from "./format.js";
import { isFlow, nameOf } from "./team.js";

// What may be decided about each kind of request.
const POSSIBLE = {
  approval: ["approve", "reject", "respond", "edit"],
  permission: ["approve", "reject"],
  escalation: ["respond", "edit", "reject"],
  task: ["respond", "edit", "reject"],
};
const VERDICTS = { approve: "Approved", edit: "Approved with changes", reject: "Rejected", respond: "Answered" };

// The plain sentence. `message` is the declared summary of a tool's call or of a step, or what a receiver would be told.
export function summaryOf({ kind, agent, tool, receiver, message }) {
  const who = nameOf(agent);
  if (kind === "task") return message || `${who} has a task for a person`;
  if (kind === "escalation") return `No agent takes what ${who} hands on: ${message || `it was meant for ${nameOf(receiver)}`}`;
  if (kind === "permission") return `${nameOf(receiver)} needs a permission to help ${who}`;
  if (receiver) return (isFlow(agent) && message?.split("\n")[0]) || `${who} wants to hand over to ${nameOf(receiver)}`;
  return message || `${who} asks to call ${tool}`;
}

// What each answer leads to: [verdict, words].
export function consequences({ kind, agent, tool, receiver, on_expiry: expiry }, edits = 0) {
  const [who, to] = [nameOf(agent), nameOf(receiver)];
  const act = receiver ? `${who} hands over to ${to}` : `${who} calls ${tool} once`;
  const words = {
    approve: kind === "permission" ? `${to} takes the task.` : `${act}${edits ? ", with your changes" : ""}.`,
    reject: kind === "task" || kind === "escalation" ? `${who} reads your note and goes on without it.` : `${who} reads your note and goes on without it${receiver || !tool ? "" : `; ${tool} is not called`}.`,
    respond: kind === "task" || kind === "escalation" ? `Your text is the answer that ${who} gets.` : `Nothing is called; ${who} gets your text as its result.`,
    edit: "The agent that you choose gets it.",
  };
  const names = { approve: "Approve", reject: "Reject", respond: "Answer", edit: "Hand on" };
  const fits = POSSIBLE[kind].filter((each) => each !== "edit" || receiver || kind !== "approval");
  return [...fits.map((each) => [names[each], words[each]]), ...(expiry === "approve" ? [["No answer", "It is approved by itself when the time is up."]] : [])];
}

export function verdictWords({ state, decision, by }) {
  if (state === "expired") return decision?.type === "approve" ? "Approved, because no person decided in time" : "Rejected, because no person decided in time";
  if (state === "withdrawn") return "No longer needed";
  const words = decision?.type === "edit" && decision.receiver ? "Handed on" : VERDICTS[decision?.type] ?? "Decided";
  return `${words}${by ? ` by ${by}` : ""}`;
}

const parsed = (before, text) => (typeof before === "string" ? text : JSON.parse(text));

// The fields of the arguments; `changed()` is called after every edit.
class Fields {
  constructor(request, changed) {
    this.before = request.arguments ?? {};
    this.rows = Object.entries(this.before).map(([name, old], index) => {
      const id = `field-${request.id}-${index}`;
      const shown = value(old);
      const was = h("span", { class: "was", hidden: true }, "was ", h("s", {}, shown.slice(0, 80)));
      const input = h(shown.length > 60 || shown.includes("\n") ? "textarea" : "input", { class: "in mono", id, dir: "auto", value: shown, oninput: () => (this.check(), changed()) });
      return { name, old, shown, input, was, label: h("label", { for: id }, h("bdi", {}, name)) };
    });
    this.element = h("div", { class: "fields" }, this.rows.map(({ label, input, was }) => [label, input, was]));
  }

  get edits() {
    return this.rows.filter(({ input, shown }) => input.value !== shown).length;
  }

  get values() {
    return Object.fromEntries(this.rows.map(({ name, old, shown, input }) => [name, input.value === shown ? old : parsed(old, input.value)]));
  }

  // True if every field can be read.
  check() {
    return this.rows.map(({ old, shown, input, was }) => {
      const edited = input.value !== shown;
      let fine = true;
      try { parsed(old, edited ? input.value : "null"); } catch { fine = typeof old === "string"; }
      input.classList.toggle("edited", edited);
      input.toggleAttribute("aria-invalid", false);
      if (edited && !fine) input.setAttribute("aria-invalid", "true");
      was.hidden = !edited;
      was.classList.toggle("fault", edited && !fine);
      was.replaceChildren(edited && !fine ? `not a value like ${shown.slice(0, 40)}` : "was ", edited && fine ? h("s", {}, shown.slice(0, 80)) : "");
      return !edited || fine;
    }).every(Boolean);
  }

  undo() {
    for (const { input, shown } of this.rows) input.value = shown;
    this.check();
  }
}

// The form that decides about a request. `request` is a record of the list of approvals; `done(decision)` follows.
export class RequestForm {
  constructor(request, { agents, allowed, compact, over, done = () => {} }) {
    Object.assign(this, { request, done, compact, allowed });
    this.possible = POSSIBLE[request.kind];
    this.fields = new Fields(request, () => this.#changed());
    const receives = request.receiver || request.kind === "task" || request.kind === "escalation";
    this.others = receives && this.possible.includes("edit") ? agents.filter(({ id }) => id !== request.receiver && id !== request.agent) : [];
    this.undo = h("button", { class: "btn small", type: "button", hidden: true, onclick: () => (this.fields.undo(), this.#changed()) }, icon("undo-2", "small"), "Undo");
    this.count = h("span", { class: "pill waiting", hidden: true });
    this.note = h("textarea", { class: "in note", rows: 1, dir: "auto", id: `note-${request.id}`, placeholder: this.#noteWords(), hidden: compact });
    this.fault = h("p", { class: "fault", role: "alert", hidden: true });
    this.element = h("form", { class: "request", onsubmit: (event) => event.preventDefault() }, this.#arguments(), allowed ? this.#controls() : !over && h("p", { class: "meta" }, this.#refusal()), this.fault);
  }

  #noteWords() {
    return this.possible.includes("approve") ? `Note for ${nameOf(this.request.agent)} and the record (optional)` : `Your answer or note for ${nameOf(this.request.agent)}`;
  }

  #refusal() {
    const { roles = [] } = this.request;
    return roles.length ? `Only ${roles.join(" or ")} may decide.` : "Your role may read this, not decide it.";
  }

  #arguments() {
    const { arguments: given = {}, tool, kind } = this.request;
    if (!Object.keys(given).length) return null;
    const editable = this.allowed && kind === "approval";
    for (const { input } of this.fields.rows) input.disabled = !editable;
    const plain = h("dl", { class: "pairs" }, Object.entries(given).map(([name, each]) => [h("dt", {}, h("bdi", {}, name)), h("dd", {}, h("bdi", {}, value(each)))]));
    if (!editable) return this.compact ? plain : this.#card(tool, plain);
    if (!this.compact) return this.#card(tool, this.fields.element);
    const edit = h("button", { class: "btn small quiet edit", type: "button", onclick: () => (plain.replaceWith(this.fields.element), edit.remove(), this.fields.rows[0].input.focus()) }, icon("pencil", "small"), "Edit arguments");
    return [plain, edit];
  }

  #card(tool, body) {
    return h("section", { class: "card", "aria-label": "Arguments" }, h("div", { class: "cardhead" }, h("h3", {}, "Arguments"), tool && h("span", { class: "mono dim" }, h("bdi", {}, tool)), h("span", { class: "grow" }), this.count, this.undo), body);
  }

  #controls() {
    const can = (each) => this.possible.includes(each);
    const button = (words, act, more = "") => h("button", { class: `btn ${more}`, type: "button", onclick: act }, words);
    this.approve = can("approve") && button("Approve", () => this.#approve(), "primary");
    const answer = can("respond") && button("Answer", () => this.#noted(() => this.#respond()), can("approve") ? "" : "primary");
    const reject = button("Reject", () => this.#noted(() => this.#send({ type: "reject", note: this.note.value.trim() })));
    return [h("label", { class: "vh", for: this.note.id }, "Note"), this.note, h("div", { class: "acts" }, this.approve, !this.approve && answer, reject, this.approve && answer, this.#handOn())];
  }

  #handOn() {
    if (!this.others.length) return null;
    const pick = h("select", { class: "in", "aria-label": "Hand on to", onchange: () => pick.value && this.#send({ type: "edit", receiver: pick.value }) }, h("option", { value: "" }, "Hand on to…"), this.others.map(({ id }) => h("option", { value: id }, nameOf(id))));
    return pick;
  }

  #changed() {
    const { edits } = this.fields;
    this.count.hidden = this.undo.hidden = edits === 0;
    this.count.textContent = edits === 1 ? "1 change" : `${edits} changes`;
    if (this.approve) this.approve.textContent = edits ? `Approve with ${this.count.textContent}` : "Approve";
  }

  #approve() {
    if (!this.fields.check()) return this.fields.element.querySelector("[aria-invalid]").focus();
    return this.#send(this.fields.edits ? { type: "edit", arguments: this.fields.values } : { type: "approve" });
  }

  #respond() {
    if (!this.note.value.trim()) {
      this.#say("Write the answer first.");
      return this.note.focus();
    }
    return this.#send({ type: "respond", text: this.note.value.trim() });
  }

  // In the chat the note appears when it is wanted; the next click sends it.
  #noted(act) {
    if (!this.note.hidden) return act();
    this.note.hidden = false;
    return this.note.focus();
  }

  async #send(decision) {
    const controls = [...this.element.elements].filter((each) => !each.disabled);
    for (const each of controls) each.disabled = true;
    this.fault.hidden = true;
    try {
      await decide(this.request.id, decision);
      this.done(decision);
    } catch (problem) {
      for (const each of controls) each.disabled = false;
      this.#say(problem.message);
    }
  }

  #say(words) {
    this.fault.textContent = words;
    this.fault.hidden = false;
  }
}

export const decide = (id, decision) => post(`/approvals/${inPath(id)}/decision`, { decision });

// True if a person may decide: by role, and by the roles that the request demands.
export const mayDecide = (who, request) =>
  ["approver", "admin"].includes(who.role) && (!request.roles?.length || !who.roles?.length && who.role === "admin" || request.roles.some((each) => who.roles?.includes(each)));
