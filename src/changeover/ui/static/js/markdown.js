// Markdown to DOM: paragraphs, headings, lists, quotes, code, tables, links. HTML stays text; other syntax too.
// Bounded patterns keep the time linear in the length of the text.
import { h } from "./dom.js";

const INLINE = /(`+)([^`]{1,2000})\1|\*\*(?=\S)([^*]{1,2000})\*\*|(?<![\w*])\*(?=\S)([^*\n]{1,1000})\*(?![\w*])|(?<!\w)_(?=\S)([^_\n]{1,1000})_(?!\w)|~~(?=\S)([^~]{1,1000})~~|\[([^\]\n]{1,500})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>"'`]{1,2000})/g;
const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const LIST = /^(\s{0,12})([-*+]|\d{1,9}[.)])\s+(.*)$/;

// The address of a link, if its scheme is harmless.
export function safeHref(text) {
  try {
    const url = new URL(text);
    return SCHEMES.has(url.protocol) ? url.href : null;
  } catch {
    return null; // relative addresses too: a model knows no page of ours
  }
}

const link = (href, ...kids) => h("a", { class: "link", href, rel: "noopener noreferrer nofollow", target: "_blank" }, kids);

function inline(text) {
  const made = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, , code, bold, star, under, gone, label, href, bare] = found;
    if (found.index > from) made.push(text.slice(from, found.index));
    from = found.index + whole.length;
    if (code) made.push(h("code", {}, code));
    else if (bold) made.push(h("b", {}, inline(bold)));
    else if (star || under) made.push(h("em", {}, inline(star || under)));
    else if (gone) made.push(h("s", {}, inline(gone)));
    else if (label) made.push(safeHref(href) ? link(safeHref(href), label) : whole);
    else made.push(...address(bare));
  }
  if (from < text.length) made.push(text.slice(from));
  return made;
}

function address(bare) {
  const end = bare.search(/[.,;:!?)\]]+$/); // the full stop behind an address is not part of it
  const [given, rest] = end < 0 ? [bare, ""] : [bare.slice(0, end), bare.slice(end)];
  return safeHref(given) ? [link(safeHref(given), given), rest] : [bare];
}

const lines = (text) => text.split("\n").flatMap((line, index) => (index ? [h("br"), ...inline(line)] : inline(line)));
const cells = (line) => line.replace(/^\s*\||\|\s*$/g, "").split("|").map((cell) => cell.trim());
const isRule = (line) => line.length < 2000 && line.includes("|") && /^[\s|:-]+$/.test(line) && line.includes("-");
const begins = (line) => /^(```|#{1,6}\s|>)/.test(line) || LIST.test(line);

// Each takes lines from the front of `rest` and returns an element, or nothing if it is not its kind.
const BLOCKS = [
  function fence(rest) {
    const open = /^\s{0,3}(```+|~~~+)\s*([\w+#.-]{0,30})\s*$/.exec(rest[0]);
    if (!open) return null;
    rest.shift();
    const kept = [];
    while (rest.length && !rest[0].trimStart().startsWith(open[1])) kept.push(rest.shift());
    rest.shift();
    return h("pre", { class: "code", tabindex: "0", "aria-label": open[2] ? `Code, ${open[2]}` : "Code", role: "group" }, kept.join("\n"));
  },
  function heading(rest) {
    const found = /^#{1,6}\s+(.*)$/.exec(rest[0]);
    return found ? (rest.shift(), h("p", { class: "head" }, inline(found[1]))) : null;
  },
  (rest) => (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(rest[0].slice(0, 200)) ? (rest.shift(), h("hr")) : null),
  function table(rest) {
    if (rest.length < 2 || !rest[0].includes("|") || !isRule(rest[1])) return null;
    const [head] = [cells(rest.shift()), rest.shift()];
    const body = [];
    while (rest.length && rest[0].includes("|")) body.push(cells(rest.shift()));
    const row = (tag, all) => h("tr", {}, head.map((_, index) => h(tag, {}, inline(all[index] ?? ""))));
    return h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" }, h("table", {}, h("thead", {}, row("th", head)), h("tbody", {}, body.map((each) => row("td", each)))));
  },
  function quote(rest) {
    if (!rest[0].startsWith(">")) return null;
    const kept = [];
    while (rest.length && rest[0].startsWith(">")) kept.push(rest.shift().replace(/^>\s?/, ""));
    return h("blockquote", {}, blocks(kept));
  },
  (rest) => (LIST.test(rest[0]) ? list(rest, LIST.exec(rest[0])[1].length, 0) : null),
];

function list(rest, indent, depth) {
  const first = LIST.exec(rest[0])[2];
  const ordered = /\d/.test(first);
  const made = h(ordered ? "ol" : "ul", ordered && first !== "1." ? { start: parseInt(first, 10) } : {});
  while (rest.length) {
    const found = LIST.exec(rest[0]);
    if (found && found[1].length > indent && made.lastChild && depth < 5) made.lastChild.append(list(rest, found[1].length, depth + 1));
    else if (found && found[1].length >= indent && /\d/.test(found[2]) === ordered) made.append((rest.shift(), h("li", {}, inline(found[3]))));
    else if (!found && /^\s{2,}\S/.test(rest[0]) && made.lastChild) made.lastChild.append(h("br"), ...inline(rest.shift().trim()));
    else break;
  }
  return made;
}

function blocks(rest) {
  const made = [];
  while (rest.length) {
    if (!rest[0].trim()) {
      rest.shift();
      continue;
    }
    let block = null;
    for (const kind of BLOCKS) if ((block = kind(rest))) break;
    if (!block) {
      const kept = [rest.shift()];
      while (rest.length && rest[0].trim() && !begins(rest[0])) kept.push(rest.shift());
      block = h("p", {}, lines(kept.join("\n")));
    }
    made.push(block);
  }
  return made;
}

export const markdown = (text) => blocks(text.split(/\r\n?|\n/));
