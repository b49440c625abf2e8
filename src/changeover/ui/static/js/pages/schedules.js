// Schedules: what each starts and when, its next runs, and the outcome of its last run.
import { call, get, inPath, may, now } from "../api.js";
import { deliveries, target } from "../deliveries.js";
import { byId, h, icon, root } from "../dom.js";
import { day, left, plural } from "../format.js";
import { broken, complain, frame } from "../frame.js";
import { live } from "../live.js";
import { ask, keepFresh } from "../panel.js";

const REFRESH = 15; // seconds; changes come over the socket at once
const MISSED = { run_once: "starts once for all due times that were missed", skip: "starts nothing for due times that were missed" };
const OVERLAP = { skip: "leaves a due time out while the last work goes on", queue: "starts when the last work has ended" };
const DATED = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
const inZone = (at, { timezone }, more = {}) => new Date(at * 1000).toLocaleString("en-GB", { timeZone: timezone, ...DATED, ...more });
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const NUMBER = /^\d+$/;

// The usual cron expressions in words; others are not guessed at.
function inWords(cron) {
  const [minute, hour, date, month, weekday] = cron.trim().split(/\s+/);
  const every = /^\*\/(\d+)$/;
  if (month !== "*" || cron.trim().split(/\s+/).length !== 5) return "";
  if ([hour, date, weekday].every((each) => each === "*")) return minute === "*" ? "every minute" : every.test(minute) ? `every ${every.exec(minute)[1]} minutes` : NUMBER.test(minute) ? `every hour at :${minute.padStart(2, "0")}` : "";
  if (!NUMBER.test(minute) || !NUMBER.test(hour)) return "";
  const at = `at ${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
  if (date !== "*") return weekday === "*" && NUMBER.test(date) ? `on day ${date} of each month ${at}` : "";
  if (weekday === "*") return `every day ${at}`;
  if (weekday === "1-5") return `from Monday to Friday ${at}`;
  return NUMBER.test(weekday) ? `every ${DAYS[weekday % 7]} ${at}` : "";
}

const chosen = () => decodeURIComponent(location.pathname.slice(`${root}/schedules`.length + 1));

class Schedules {
  #timer = 0;
  #seen = "";

  constructor(who) {
    Object.assign(this, { operates: may(who, "operator") });
    byId("body").addEventListener("click", (event) => this.#follow(event));
    addEventListener("popstate", () => this.load(true));
    for (const list of ["bus", "schedules"]) live.watch(list, () => this.#soon());
  }

  #follow(event) {
    const link = event.target.closest("a[data-here]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const name = link.dataset.here;
    history.pushState({}, "", link.href);
    this.load(true).then(() => document.querySelector(`a[data-here="${CSS.escape(name)}"]`)?.focus());
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.load(), 200);
  }

  async load(anew = false) {
    try {
      const { items } = await get("/schedules");
      const one = items.some((each) => each.name === chosen()) ? await get(`/schedules/${inPath(chosen())}`) : null;
      complain();
      this.#draw(items.map((each) => (each.name === one?.name ? one : each)), anew);
    } catch (problem) {
      if (this.#seen) complain(problem);
      else broken(byId("schedules"), problem);
    }
    byId("body").removeAttribute("aria-busy");
  }

  #draw(items, anew) {
    const standing = JSON.stringify([chosen(), items, Math.floor(now() / 30)]);
    if (!anew && (standing === this.#seen || document.querySelector("#body :focus-visible"))) return;
    this.#seen = standing;
    const paused = items.filter((each) => each.paused).length;
    byId("count").textContent = items.length ? `${plural(items.length, "schedule")}${paused ? `, ${paused} paused` : ""}` : "What starts at which times";
    const missing = chosen() && !items.some((each) => each.name === chosen());
    byId("schedules").replaceChildren(...(items.length ? [missing && h("p", { class: "quiet" }, "No schedule is called ", h("bdi", {}, chosen()), "."), h("ul", { class: "events plans" }, items.map((each) => this.#schedule(each)))].filter(Boolean) : [nothing()]));
  }

  #schedule(each) {
    const open = each.name === chosen();
    const [next] = each.next_runs;
    const row = h("a", { class: "event", href: `${root}/schedules${open ? "" : `/${inPath(each.name)}`}`, "data-here": each.name, "aria-expanded": String(open), role: "button" },
      icon("chevron-right", "small"), h("b", {}, h("bdi", {}, each.name)), h("span", { class: "when" }, inWords(each.cron) || h("span", { class: "mono" }, each.cron), h("span", { class: "meta" }, each.timezone)), target(each.kind, each.start),
      h("span", { class: "states" }, each.paused ? h("span", { class: "pill warn" }, "paused") : next ? h("span", {}, h("b", {}, inZone(next, each)), " ", h("span", { class: "meta" }, `in ${left(next - now())}`)) : h("span", { class: "meta" }, "never again")));
    return h("li", { class: open ? "open" : "" }, row, open && this.#inside(each));
  }

  #inside(each) {
    const facts = [["Cron", each.cron], ["Task", each.task], ["Priority", each.priority === "normal" ? "" : String(each.priority)], ["If missed", MISSED[each.missed]], ["Overlap", OVERLAP[each.overlap]]].filter(([, words]) => words);
    return h("div", { class: "inside" }, this.#acts(each), h("dl", {}, facts.map(([name, words]) => [h("dt", {}, name), h("dd", {}, words)])),
      h("section", { "aria-label": "Next runs" }, h("h2", {}, "Next runs ", h("span", { class: "meta" }, each.timezone)), each.next_runs.length ? h("ol", { class: "next" }, each.next_runs.map((at) => h("li", {}, h("time", { class: "mono" }, inZone(at, each, { day: "2-digit", year: "numeric" }))))) : h("p", { class: "meta" }, each.paused ? "None while it is paused." : "None in the next 50 years.")),
      h("section", { "aria-label": "Last run" }, h("h2", {}, "Last run ", each.last && h("span", { class: "meta" }, `${day(each.last.at)}, `, h("a", { class: "link", href: `${root}/bus/${inPath(each.last.id)}` }, "open its event"))), each.last ? deliveries(each.last) : h("p", { class: "meta" }, "It has not started anything yet.")));
  }

  #acts(each) {
    if (!this.operates) return null;
    const send = (what) => call("POST", `/schedules/${inPath(each.name)}/${what}`).then(() => this.load(true));
    const run = () => ask({ title: `Run ${each.name} now?`, words: "It starts once, beside its due times.", button: "Run now", act: () => send("run") });
    const pause = () => ask({ title: `Pause ${each.name}?`, words: "Nothing starts at its due times, in all processes, until an operator resumes it.", button: "Pause", act: () => send("pause") });
    const resume = () => ask({ title: `Resume ${each.name}?`, words: "It starts again at its next due time. What was due in the pause is not made up for.", button: "Resume", act: () => send("resume") });
    return h("div", { class: "acts" }, h("button", { class: "btn small", type: "button", onclick: run }, icon("play", "small"), "Run now"), each.paused ? h("button", { class: "btn small", type: "button", onclick: resume }, icon("play", "small"), "Resume") : h("button", { class: "btn small", type: "button", onclick: pause }, icon("pause", "small"), "Pause"));
  }
}

const nothing = () =>
  h("div", { class: "nothing" }, h("h2", {}, "Schedules appear here"), h("p", {}, "A schedule starts an agent, a workflow, an event or a function at times, once per due time however many processes there are."),
    h("div", { class: "start-here" }, h("pre", {}, h("code", {}, 'Schedule("weekly-report", cron="0 7 * * 1", start="writer")'))));

try {
  const { who } = await frame();
  const schedules = new Schedules(who);
  await keepFresh(() => schedules.load(), REFRESH);
} catch (problem) {
  broken(byId("schedules"), problem);
}
