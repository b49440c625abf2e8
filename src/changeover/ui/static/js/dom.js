// h(): the only way to make elements. Text goes in as text nodes, never as HTML; the CSP forbids style attributes.
const SVG = "http://www.w3.org/2000/svg";
export const root = document.documentElement.dataset.root ?? "";

function build(element, props, kids) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...kids.flat(Infinity).filter((kid) => kid !== undefined && kid !== null && kid !== false));
  return element;
}

export const h = (tag, props, ...kids) => build(document.createElement(tag), props, kids);
export const s = (tag, props, ...kids) => build(document.createElementNS(SVG, tag), props, kids);
export const icon = (name, more = "") =>
  s("svg", { class: `icon ${more}`, "aria-hidden": "true" }, s("use", { href: `${root}/icons.svg#${name}` }));
export const byId = (id) => document.getElementById(id);

// The children of a box, by key: an element is made again only if its revision has changed, and keeps what was open.
export function keyed(box, items, make) {
  const old = new Map([...box.children].map((each) => [each.dataset.key, each]));
  const kept = items.map((item) => {
    const before = old.get(String(item.key));
    if (before && before.dataset.rev === String(item.rev)) return before;
    const made = make(item);
    made.dataset.key = item.key;
    made.dataset.rev = item.rev;
    if (before) keepOpen(before, made);
    return made;
  });
  kept.forEach((each, index) => {
    if (box.children[index] !== each) box.insertBefore(each, box.children[index] ?? null);
  });
  while (box.children.length > kept.length) box.lastElementChild.remove();
}

function keepOpen(before, after) {
  const places = (element) => [element, ...element.querySelectorAll("details")].filter((each) => each.matches("details"));
  const known = new Map(places(before).map((each) => [each.dataset.at, each.open]));
  for (const each of places(after)) if (known.has(each.dataset.at)) each.open = known.get(each.dataset.at);
}
