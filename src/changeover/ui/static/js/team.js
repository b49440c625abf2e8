// The team: names and colours of agents, the same on every page.
import { get } from "./api.js";
import { h } from "./dom.js";

let [asked, known] = [null, []];
// The members of the team, in its order: {id, name, description, start}. Empty if the role may not know them.
export const team = () => (asked ??= Promise.all([get("/agents"), get("/workflows").catch(() => ({ items: [] }))]).then(([agents, flows]) => {
  for (const { id, name } of flows.items) further.set(id, name);
  return (known = agents.items.filter((each) => !each.removed).map(member));
}).catch((problem) => (problem.status === 403 ? [] : Promise.reject(problem))));
const member = ({ id, profile, start, kind }) => ({ id, start, kind, name: profile.name ?? "", description: profile.description ?? "" });

const further = new Map();
// Names of what works like a member without being one: a workflow, and the functions of its steps.
export const nameFlow = ({ workflow, name, steps }) => {
  further.set(workflow, name);
  for (const step of steps) if (step.agent.includes(".")) further.set(step.agent, step.name);
};

export const nameOf = (id) => known.find((each) => each.id === id)?.name || further.get(id) || id;

export function hueOf(id) {
  const place = known.findIndex((each) => each.id === id);
  if (place >= 0) return `hue${(place % 8) + 1}`;
  let sum = 0;
  for (const letter of id) sum = (sum * 31 + letter.codePointAt(0)) % 8191;
  return `hue${(sum % 8) + 1}`;
}

const firstLetter = (name) => [...name].find((each) => /[\p{L}\p{N}]/u.test(each))?.toUpperCase() ?? "•";

export const avatar = (id, more = "") =>
  h("span", { class: `av ${hueOf(id)} ${more}`, "aria-hidden": "true" }, firstLetter(nameOf(id)));
// A name from outside stands by itself: its direction does not spread into the line.
export const named = (id) => h("bdi", {}, nameOf(id));
