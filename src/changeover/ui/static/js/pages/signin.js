// Sign in with a token; the server keeps it in a cookie that no script reads.
import { call, get } from "../api.js";
import { byId, h, root, s } from "../dom.js";

const next = () => {
  const wanted = new URLSearchParams(location.search).get("next") ?? "/chat";
  return root + (/^\/(?![/\\])/.test(wanted) ? wanted : "/chat"); // never to another host
};

byId("where").textContent = location.host;
byId("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const [field, fault] = [byId("token"), byId("fault")];
  fault.hidden = true;
  try {
    await call("POST", "/session", { token: field.value.trim() });
    location.assign(next());
  } catch (problem) {
    fault.textContent = problem.message;
    fault.hidden = false;
    field.setAttribute("aria-invalid", "true");
    field.focus();
  }
});
get("/health").catch(() => byId("alive").classList.replace("good", "bad"));

const box = (x, y, hue, name, sub) =>
  s("g", { class: `node ${hue}`, transform: `translate(${x} ${y})` },
    s("rect", { class: "box", width: 168, height: 60, rx: 9 }), s("rect", { class: "mark", x: 9, y: 17, width: 4, height: 26, rx: 2 }),
    s("text", { class: "name", x: 22, y: 27 }, name), s("text", { class: "sub", x: 22, y: 43 }, sub));
const line = (kind, path, head) =>
  s("g", { class: `edge ${kind}` }, s("path", { class: "shaft", d: path }), s("path", { class: "head", d: head }));
const say = (cls, x, y, text) => s("text", { class: cls, x, y }, text);
byId("art").append(
  s("svg", { width: 660, height: 470, viewBox: "0 0 660 470", role: "img", "aria-label": "Work passes from Triage to Billing, to Research and back, and to a person" },
    line("", "M208 60h18q14 0 14 14v82q0 14 14 14h12", "M272 170l-8-4.5v9z"),
    say("why", 256, 84, "Charged twice for order 1042"), say("sub", 256, 100, "412 tok · 180 ms"),
    line("asks", "M330 200v76", "M330 282l-4.5-8h9z"), say("soft", 194, 246, "find the carrier report"),
    line("back", "M380 282v-76", "M380 200l-4.5 8h9z"), say("soft", 394, 246, "delivered nine days late"),
    line("strong", "M440 170h102q14 0 14 14v190", "M556 380l-4.5-8h9z"), say("why", 456, 156, "Needs a person"),
    box(40, 30, "hue1", "Triage", "412 tok · 1.4 s"), box(272, 140, "hue2", "Billing", "986 tok · 1.9 s"),
    box(272, 282, "hue5", "Research", "1.2k tok · 3.4 s"), box(472, 380, "hue7", "Person on duty", "approved")));
