// The form of an agent.
import { Field, fieldOf } from "../build/fields.js";
import { h } from "../dom.js";
import { nameOf } from "../team.js";

// The receivers of an agent: everyone, by its handoff tools only, or a list. For everyone the document has no key.
class Handoffs extends Field {
  make() {
    const choose = () => (this.#show(), this.tell());
    this.how = h("select", { class: "in", id: this.id, "aria-describedby": `${this.id}-fault`, onchange: choose }, [["", "Everyone in the team; by its handoff tools if it has any"], ["none", "Only by its handoff tools"], ["list", "These agents"]].map(([value, words]) => h("option", { value }, words)));
    this.list = fieldOf({ key: "handoffs", label: "Agents", kind: "choices", add: "Add an agent…", empty: true, options: this.spec.options }, this.tell);
    return h("div", { class: "choices" }, this.how, this.list.control);
  }
  #show() { this.list.control.hidden = this.how.value !== "list"; }
  read() { return this.how.value === "none" ? [] : this.how.value === "list" ? this.list.read() : this.auto; }
  write(value) {
    this.auto = value === "auto" ? "auto" : undefined;
    this.how.value = Array.isArray(value) ? (value.length ? "list" : "none") : "";
    this.list.write(value);
    this.#show();
  }
  mark(faults) {
    this.how.setAttribute("aria-invalid", faults.length > 0);
    this.list.mark(faults);
  }
}

const STRATEGIES = [["", "As the team declares"], ["full", "All of it"], ["recent", "The last messages"], ["summary", "A summary"], ["message_only", "Only the message"], ["reference", "A reference to look it up"]];

// `known` holds the names that a document may use: tools, skills and members.
export function sectionsOf(known) {
  const members = () => known.agents.map(({ id }) => [id, nameOf(id) === id ? id : `${nameOf(id)} (${id})`]);
  const names = (list) => () => list.map((each) => [each, each]);
  return [
    { title: "Profile", grid: true, specs: [
      { key: "id", label: "Id", mono: true, wide: false, placeholder: "billing", help: "Letters, digits, '-' and '_'. Handoffs name it." },
      { key: "name", label: "Name", wide: false },
      { key: "model", label: "Model", mono: true, wide: false, placeholder: "the team's" },
      { key: "specialization", label: "Field of work", wide: false },
      { key: "description", label: "What others hand to it for" },
      { key: "capabilities", label: "Capabilities, one in a line", kind: "lines", wide: false },
      { key: "examples", label: "Example tasks, one in a line", kind: "lines", wide: false }] },
    { title: "Instructions", specs: [{ key: "instructions", label: "System prompt", kind: "area", rows: 9 }] },
    { title: "Tools and skills", specs: [
      { key: "tools", label: "Tools", kind: "choices", add: "Add a tool…", options: names(known.tools) },
      { key: "skills", label: "Skills", kind: "choices", add: "Add a skill…", options: names(known.skills) }] },
    { title: "Handoffs", specs: [{ key: "handoffs", label: "To whom it may hand off", kind: Handoffs, options: members }, { key: "requires", label: "Context variables without which it accepts no handoff", kind: "variables", add: "Add variable" }] },
    { title: "Limits", grid: true, specs: [
      { key: "max_concurrency", label: "Tasks at a time", kind: "number", wide: false, placeholder: "no limit" },
      { key: "strategy", label: "What it sees of the conversation", kind: "select", wide: false, options: () => STRATEGIES },
      { key: "pull", label: "Workers claim its tasks from the queue", kind: "check" },
      { key: "parallel_tools", label: "All tool calls of one reply may run in parallel", kind: "check" }] },
    { title: "More", open: false, specs: [
      { key: "settings", label: "Settings of the model, as JSON", kind: "json", rows: 2 },
      { key: "briefing", label: "Template that introduces a handoff to it", kind: "area", rows: 3 }] }];
}
