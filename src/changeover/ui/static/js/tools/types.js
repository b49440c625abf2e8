// The forms of the five types of tools.
import { nameOf } from "../team.js";

export const TYPES = {
  handoff: ["Handoff", "arrow-right-left"],
  internal: ["Function", "square-function"],
  mcp_server: ["MCP server", "plug"],
  http_api: ["HTTP API", "globe"],
  sql_function: ["SQL function", "database"],
  skill: ["Skill", "book-open"],
};

const members = (agents, none) => () => [["", none], ...agents.map(({ id }) => [id, nameOf(id).toLowerCase() === id ? nameOf(id) : `${nameOf(id)} (${id})`])];
const description = (label = "Description for the model") => ({ key: "description", label, kind: "area", rows: 2 });
const variables = (key, label, help, add = "Add variable") => ({ key, label, help, kind: "variables", add });
const approval = {
  key: "approval", label: "A person approves it first", kind: "part", switch: true, fields: [
    { key: "summary", label: "The sentence that the person reads first", placeholder: "Send {amount} EUR back", help: "Arguments stand in braces." },
    { key: "expires", label: "Seconds to decide", kind: "number", wide: false },
    { key: "on_expiry", label: "Then it is", kind: "select", wide: false, options: () => [["", "rejected"], ["approve", "approved"]] },
    { key: "roles", label: "Roles that may decide, one in a line", kind: "lines" }],
};
const OPTIONS = [
  approval,
  { key: "timeout", label: "Timeout of a try, in seconds", kind: "seconds" },
  { key: "retries", label: "Retries", kind: "number", wide: false, placeholder: "as the team" },
  { key: "max_result", label: "Most characters of a result", kind: "number", wide: false, placeholder: "50000" },
  { key: "read_only", label: "It changes nothing", help: "Its calls may run in parallel.", kind: "check", tri: true },
  { key: "at_most_once", label: "Never call it twice for one call of the model", help: "Also not after a crash.", kind: "check" },
  { key: "when", label: "Only while this function is true", mono: true, placeholder: "desk_tools:is_open" },
];
const auth = {
  key: "auth", label: "Authentication", kind: "part", help: "Secrets are references to the environment, such as ${ORDERS_TOKEN}.",
  wrap: ({ way, ...given }) => ({ [way ?? "bearer"]: given }),
  unwrap: (value) => (value ? { way: Object.keys(value)[0], ...Object.values(value)[0] } : undefined),
  fields: [
    { key: "way", label: "Kind", kind: "select", options: () => [["", "None"], ["bearer", "Bearer token"], ["basic", "User name and password"], ["api_key", "Key in a header or the query"]] },
    { key: "token", label: "Token", mono: true, placeholder: "${TOKEN}" },
    { key: "username", label: "User name", wide: false },
    { key: "password", label: "Password", mono: true, wide: false, placeholder: "${PASSWORD}" },
    { key: "name", label: "Name of the header or parameter", mono: true, wide: false },
    { key: "value", label: "Key", mono: true, wide: false, placeholder: "${API_KEY}" },
    { key: "place", label: "Place", kind: "select", wide: false, options: () => [["", "header"], ["query", "query"]] }],
};
const network = [auth, { key: "headers", label: "Headers", kind: "pairs", add: "Add header" }, { key: "hosts", label: "Hosts that may be reached, one in a line", kind: "lines" }, { key: "allow_private", label: "Private addresses may be reached", kind: "check" }];
const more = (specs) => ({ title: "Options", open: false, specs });

const strategy = {
  key: "strategy", label: "What the receiver sees of the conversation", kind: "select", wide: false,
  options: () => [["", "As the receiver declares"], ["full", "All of it"], ["recent", "The last messages"], ["summary", "A summary"], ["message_only", "Only the message"], ["reference", "A reference to look it up"]],
};

function handoff(agents, way) {
  const returns = way === "transfer"
    ? [{ key: "return_to", label: "Who gets the user's next message", kind: "select", wide: false, options: members(agents, "The target agent") }, { key: "merge", label: "Context variables", kind: "select", wide: false, options: () => [["", "are merged with those before"], ["replace", "replace those before"]] }]
    : [{ key: "max_iterations", label: "Most replies of its model", kind: "number", wide: false, placeholder: "15" }, { key: "final", label: "Its answer is the answer of the run", kind: "check" }];
  const target = way === "specialist"
    ? { key: "among", label: "Agents to choose from", kind: "choices", add: "Any; or only…", options: members(agents, "").bind(null) }
    : { key: "to", label: "Target agent", kind: "select", options: members(agents, "Choose an agent") };
  if (way === "specialist") target.options = () => members(agents, "")().slice(1);
  const own = way === "specialist" ? [] : [variables("variables", "Context variables", "The model fills them in, and the target agent finds them in its context.")];
  const others = way === "specialist" ? [] : [{ key: "alternatives", label: "If it declines, ask in this order", kind: "choices", options: () => members(agents, "")().slice(1) }];
  return [
    { specs: [target, { key: "description", label: "When to use it", kind: "area", rows: 2 }, ...own, { key: "instructions", label: "Instructions for the handover", help: "The target agent is told this with the handoff.", kind: "area" }] },
    { grid: true, title: "Rules", specs: [strategy, { key: "timeout", label: "Timeout in seconds", kind: "seconds", wide: false }, ...returns, approval] },
    more([...others, { key: "on_timeout", label: "If there is no answer in time", kind: "select", wide: false, options: () => [["", "tell the sender"], ["rollback", "roll it back"]] }, { key: "on_failure", label: "If the target agent fails", kind: "select", wide: false, options: () => [["", "tell the sender"], ["rollback", "roll it back"]] }, { key: "when", label: "Only while this function is true", mono: true, placeholder: "desk_tools:is_open" }, { key: "expects", label: "What the result must be: a JSON schema, or output, criteria and timeout", kind: "json" }]),
  ];
}

export const WAYS = { transfer: "Hand over", delegate: "Delegate, comes back", specialist: "Let the router choose" };
export const wayOf = (document) => (document.specialist ? "specialist" : document.delegate ? "delegate" : "transfer");

// The sections of the form of a type; the rest of the document is `fixed`.
export function sectionsOf(type, agents, way) {
  return {
    handoff: () => handoff(agents, way),
    internal: () => [{ specs: [{ key: "function", label: "Python function", mono: true, placeholder: "desk_tools:refund", help: "Of a module that the server lists with CHANGEOVER_TOOL_MODULES, or the team with tool_modules." }, description("Description for the model, in place of the docstring")] }, more(OPTIONS)],
    http_api: () => [{ specs: [{ key: "url", label: "URL", mono: true, help: "It begins with https or http; {name} in the path stands for a parameter." }, { key: "method", label: "Method", kind: "select", wide: false, options: () => ["", "POST", "PUT", "PATCH", "DELETE", "HEAD"].map((each) => [each, each || "GET"]) }, description(), variables("parameters", "Parameters", "What the model fills in.", "Add parameter")] }, { title: "Request", open: false, specs: [{ key: "query", label: "Query", kind: "pairs", add: "Add parameter" }, { key: "body", label: "Body", kind: "json" }, { key: "select", label: "What the model reads of a JSON answer", mono: true, placeholder: "items[].name", help: "A JMESPath expression." }, ...network] }, more(OPTIONS)],
    mcp_server: () => [{ specs: [{ key: "command", label: "Command, one argument in a line", kind: "lines", rows: 3, mono: true, placeholder: "npx\n-y\n@example/server" }, { key: "url", label: "or URL", mono: true }] }, { title: "Which tools, and how to reach it", open: false, specs: [{ key: "include", label: "Only these tools, one name or pattern in a line", kind: "lines", mono: true }, { key: "exclude", label: "Not these", kind: "lines", mono: true }, { key: "prefix", label: "Prefix of their names", mono: true, wide: false }, { key: "connect_timeout", label: "Seconds to start", kind: "number", wide: false }, { key: "env", label: "Environment", kind: "pairs", add: "Add variable", placeholder: "${TOKEN}" }, { key: "cwd", label: "Folder", mono: true }, { key: "headers", label: "Headers", kind: "pairs", add: "Add header", placeholder: "Bearer ${TOKEN}" }] }, more(OPTIONS)],
    sql_function: () => [{ specs: [{ key: "database", label: "Database", mono: true, placeholder: "${DATABASE_URL}" }, { key: "rest", label: "or address of a PostgREST server", mono: true }, { key: "function", label: "Function of the database", mono: true, placeholder: "shop.find_orders", help: "By default the name of the tool." }, description(), variables("parameters", "Parameters", "What the model fills in.", "Add parameter")] }, { title: "Network", open: false, specs: [{ key: "max_rows", label: "Most rows", kind: "number", wide: false }, ...network] }, more(OPTIONS)],
  }[type]();
}
