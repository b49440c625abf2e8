// What differs between two documents, as lines.
import { h } from "../dom.js";

export function linesOf(value, name = "", depth = 0) {
  const pad = "  ".repeat(depth);
  const head = name === "" ? pad : `${pad}${name}:`;
  if (Array.isArray(value) && value.length) return [...(name === "" ? [] : [head]), ...value.flatMap((each) => linesOf(each, "-", depth + 1))];
  if (value && typeof value === "object" && Object.keys(value).length) return [...(name === "" ? [] : [head.replace("-:", "-")]), ...Object.keys(value).sort().flatMap((key) => linesOf(value[key], key, depth + (name === "" ? 0 : 1)))];
  if (typeof value === "string" && value.includes("\n")) return [`${head} |`, ...value.split("\n").map((line) => `${pad}  ${line}`)];
  return [`${head.replace("-:", "-")} ${typeof value === "string" ? value : JSON.stringify(value)}`.trimEnd()];
}

// The lines of both lists, each as [sign, line] with the sign " ", "+" or "-", by their longest common subsequence.
export function diff(before, after) {
  const long = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i--) for (let j = after.length - 1; j >= 0; j--) long[i][j] = before[i] === after[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
  const found = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) found.push([" ", before[i++], j++]);
    else if (j >= after.length || (i < before.length && long[i + 1][j] >= long[i][j + 1])) found.push(["-", before[i++]]);
    else found.push(["+", after[j++]]);
  }
  return found;
}

const WORDS = { "+": "added: ", "-": "removed: " };
export function drawn(before, after) {
  const lines = diff(linesOf(before), linesOf(after));
  if (!lines.some(([sign]) => sign !== " ")) return h("p", { class: "quiet" }, "They are the same.");
  return h("pre", { class: "diff", tabindex: "0" }, lines.map(([sign, line]) => h("span", { class: sign === "+" ? "plus" : sign === "-" ? "minus" : "" }, WORDS[sign] && h("span", { class: "vh" }, WORDS[sign]), `${sign} ${line}\n`)));
}

// The keys that differ, for a line in the history.
export const changedKeys = (before, after) => [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
