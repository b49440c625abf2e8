// Bus: events with what each subscriber did, dead letters with one action, and the subscribers with their backlog.
import { get, inPath, may, now, post, query } from "../api.js";
import { deliveries, sign, state } from "../deliveries.js";
import { byId, h, icon, root } from "../dom.js";
import { ago, cut, day, moment, plural, sentence, value } from "../format.js";
import { broken, complain, frame } from "../frame.js";
import { live } from "../live.js";
import { ask, field, keepFresh, panel } from "../panel.js";
import { hueOf, named, nameOf } from "../team.js";

const REFRESH = 15; // seconds; changes come over the socket at once
const MOST = 50; // events of a page
const TYPES = 4; // types of events to choose from
const EXAMPLE = '{"severity": 9, "summary": "login from two countries"}';
const chosen = () => decodeURIComponent(location.pathname.slice(`${root}/bus`.length + 1));
const wanted = () => new URLSearchParams(location.search).get("type") ?? "";
const at = (id) => `${root}/bus${id ? `/${inPath(id)}` : ""}${query({ type: wanted() })}`;

class Bus {
  #timer = 0;
  #seen = "";

  constructor(who) {
    Object.assign(this, { operates: may(who, "operator"), view: null, page: null, more: [], types: new Set() });
    byId("body").addEventListener("click", (event) => this.#follow(event));
    byId("types").addEventListener("click", (event) => this.#follow(event));
    addEventListener("popstate", () => this.load(true));
    live.watch("bus", () => this.#soon());
    if (this.operates) byId("acts").append(h("button", { class: "btn primary", type: "button", onclick: () => this.#publish() }, icon("plus"), "Publish an event"));
  }

  // A link to this page shows another event or type without loading the page.
  #follow(event) {
    const link = event.target.closest("a[data-here]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (new URL(link.href).search !== location.search) [this.more, this.page] = [[], null];
    history.pushState({}, "", link.href);
    this.load(true).then(() => document.querySelector(`a[href="${CSS.escape(link.getAttribute("href"))}"]`)?.focus());
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.load(), 200);
  }

  async load(anew = false) {
    try {
      const id = chosen();
      const [view, page] = await Promise.all([get("/bus"), get(`/bus/events${query({ type: wanted(), limit: MOST })}`)]);
      const known = [...page.items, ...this.more].some((each) => each.id === id);
      this.apart = id && !known ? await get(`/bus/events/${inPath(id)}`) : null;
      Object.assign(this, { view, page });
      complain();
      this.#draw(anew);
    } catch (problem) {
      if (this.#seen) complain(problem);
      else broken(byId("happened"), problem, problem.status === 404 ? "There is no such event" : undefined);
    }
    byId("body").removeAttribute("aria-busy");
  }

  #draw(anew) {
    const { subscribers, dead_letters: letters } = this.view;
    const events = [...(this.apart ? [this.apart] : []), ...new Map([...this.page.items, ...this.more].map((each) => [each.id, each])).values()];
    const standing = JSON.stringify([chosen(), wanted(), events, subscribers, letters, Math.floor(now() / 30)]);
    if (!anew && (standing === this.#seen || document.querySelector("#body :focus-visible"))) return;
    this.#seen = standing;
    const [waiting, dead] = ["waiting", "dead"].map((each) => subscribers.reduce((sum, one) => sum + one[each], 0));
    byId("count").textContent = [waiting && `${plural(waiting, "delivery waits", "deliveries wait")}`, dead && plural(dead, "dead letter")].filter(Boolean).join(", ") || "Events, and what they start";
    this.#tabs(events);
    byId("happened").replaceChildren(...(events.length || wanted() ? [letters.length > 0 && this.#letters(letters), this.#events(events)].filter(Boolean) : [nothing()]));
    byId("subscribers").replaceChildren(h("header", {}, h("h2", {}, "Subscribers"), h("span", { class: "meta" }, subscribers.length ? String(subscribers.length) : "none")), h("ul", {}, subscribers.map(subscriber)), how(this.view.signed));
  }

  #tabs(events) {
    for (const each of events) if (this.types.size < TYPES) this.types.add(each.type);
    const types = ["", ...new Set([...this.types, wanted()].filter(Boolean))];
    byId("types").replaceChildren(...(types.length > 2 || wanted() ? types.map((type) => h("a", { href: `${root}/bus${query({ type })}`, "data-here": true, "aria-current": type === wanted() ? "true" : undefined }, type || "All types")) : []));
  }

  #letters(letters) {
    const line = (each) => h("li", {}, h("span", { class: "mono" }, h("bdi", {}, each.type)), h("a", { href: at(each.event), "data-here": true }, each.subject ? [h("bdi", {}, each.subject), " to "] : "to ", h("b", {}, h("bdi", {}, each.subscriber))), h("span", { class: "bad why" }, cut(each.error, 200)), h("time", { class: "meta", title: day(each.updated_at) }, `${plural(each.attempts, "attempt")}, `, ago(each.updated_at, now())), this.#again(each.event, each.subscriber));
    return h("section", { class: "panel letters", "aria-label": "Dead letters" }, h("header", {}, icon("triangle-alert"), h("h2", {}, "Dead letters"), h("span", { class: "meta" }, "tried as often as allowed, then put here")), h("ul", {}, letters.map(line)));
  }

  #again(event, subscriber) {
    if (!this.operates) return null;
    const act = () => ask({ title: "Send it again?", words: `${subscriber} gets the event again at once, and its failed attempts are forgotten.`, button: "Send again", act: () => post(`/bus/events/${inPath(event)}/resend`, { subscriber }).then(() => this.load(true)) });
    return h("button", { class: "btn small", type: "button", "aria-label": `Send again to ${subscriber}`, onclick: act }, icon("rotate-ccw", "small"), "Send again");
  }

  #events(events) {
    const older = this.more.length ? this.next : this.page.next;
    const load = async () => {
      const page = await get(`/bus/events${query({ type: wanted(), limit: MOST, cursor: older })}`);
      this.more.push(...page.items);
      this.next = page.next;
      this.#draw(true);
    };
    const list = events.length ? h("ul", { class: "events" }, events.map((each) => this.#event(each))) : h("p", { class: "quiet in-panel" }, "No event of this type was published yet.");
    return panel("Events", { more: h("span", { class: "meta" }, "the newest first") }, list, older && h("p", { class: "in-panel" }, h("button", { class: "btn small", type: "button", onclick: () => load().catch(complain) }, "Older events")));
  }

  #event(event) {
    const open = event.id === chosen();
    const states = Object.values(Object.groupBy(event.deliveries, (each) => each.state));
    const row = h("a", { class: "event", href: open ? at("") : at(event.id), "data-here": true, "aria-expanded": String(open), role: "button" },
      icon("chevron-right", "small"), h("time", { class: "mono", title: new Date(event.at * 1000).toLocaleString() }, today(event.at) ? moment(event.at) : day(event.at)), h("span", { class: "mono type" }, h("bdi", {}, event.type)), h("span", { class: "about" }, h("bdi", {}, about(event))), this.#went(event),
      h("span", { class: "states" }, states.length ? states.map((each) => h("span", { class: "row" }, each.length > 1 && h("span", { class: "meta" }, `${each.length} ×`), state(each[0]))) : h("span", { class: "meta" }, "no subscriber wanted it")));
    return h("li", { class: open ? "open" : "" }, row, open && this.#inside(event));
  }

  // The signs of its subscribers, in the order of the list beside.
  #went(event) {
    const got = new Set(event.deliveries.map((each) => each.subscriber));
    return h("span", { class: "went" }, this.view.subscribers.filter(({ id }) => got.has(id)).map(({ id, kind, to }) => h("span", { class: hueOf(to), title: id }, sign(kind, to))));
  }

  #inside(event) {
    const facts = [["Id", event.id], ["Source", event.source], ["Subject", event.subject], ["Key", event.key]].filter(([, each]) => each);
    return h("div", { class: "inside" }, deliveries(event, (each) => each.state === "dead" && this.#again(event.id, each.subscriber)), h("dl", {}, facts.map(([name, each]) => [h("dt", {}, name), h("dd", { class: "mono" }, h("bdi", {}, each))])),
      event.data !== null && h("pre", { tabindex: 0, role: "group", "aria-label": "Data" }, h("code", {}, JSON.stringify(event.data, null, 2))));
  }

  #publish() {
    const fields = [field("Type", h("input", { class: "in mono", name: "type", required: true, maxlength: 200, placeholder: "security.alert" })), field("Data, as JSON (optional)", h("textarea", { class: "in mono", name: "data", rows: 4, placeholder: EXAMPLE })), field("Source (optional)", h("input", { class: "in", name: "source", maxlength: 200 }))];
    const act = async ({ type, data, source }) => {
      const { ids } = await post("/bus/events", { type: type.trim(), data: data.trim() ? read(data) : null, source: source.trim() });
      history.pushState({}, "", `${root}/bus/${inPath(ids[0])}`);
      await this.load(true);
    };
    ask({ title: "Publish an event", words: "Each subscriber that wants it gets it. It cannot be taken back.", fields, button: "Publish", act });
  }
}

function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("The data is not JSON: a text needs double quotes.");
  }
}

const today = (at) => new Date(at * 1000).toDateString() === new Date().toDateString();
// A time as programs write it is shown as people read it.
const dated = (given) => (typeof given === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(given) && !Number.isNaN(Date.parse(given)) ? day(Date.parse(given) / 1000) : value(given));

function about(event) {
  if (event.subject) return event.subject;
  const pairs = event.data && typeof event.data === "object" && !Array.isArray(event.data) ? Object.entries(event.data).filter(([, each]) => each !== false && each !== null).map(([name, each]) => (each === true ? name : `${name} ${dated(each)}`)) : event.data === null ? [] : [value(event.data)];
  return cut(pairs.join(", "), 120);
}

// A subscription without a name is called after its types and its target; the types stand below.
const calledBy = ({ id, types, kind, to }) => (!id.startsWith(`${types} to `) ? id : kind === "agent" ? nameOf(to) : sentence(id.slice(types.length + 4)).slice(0, -1));

function subscriber(each) {
  const stands = each.dead ? ["bad", plural(each.dead, "dead letter")] : each.waiting ? ["warn", `${each.waiting} behind`] : ["good", "up to date"];
  return h("li", {}, h("span", { class: `row ${hueOf(each.to)}` }, sign(each.kind, each.to), h("bdi", { title: each.id }, calledBy(each))), h("span", { class: `pill ${stands[0]}` }, stands[1]), h("code", {}, each.types),
    h("span", { class: "meta" }, { agent: "starts a handoff to ", specialist: "the router finds a specialist in ", workflow: "starts the workflow ", webhook: "sends a CloudEvent to ", event: "publishes ", function: "calls " }[each.kind], named(each.to), each.priority !== "normal" && `, ${each.priority}`, `, in ${plural(each.tries, "attempt")} at most`, each.where && [", where ", h("code", {}, each.where)], each.oldest_at && `; the oldest waits since ${day(each.oldest_at)}`));
}

const how = (signed) =>
  h("div", { class: "start-one" }, h("h3", {}, "Publish from anywhere"), h("p", {}, signed ? "CloudEvents, with a token or signed:" : "CloudEvents, with a token:"), h("pre", { tabindex: 0, role: "group", "aria-label": "How to publish" }, h("code", {}, `POST ${root}/api/v1/bus\ncontent-type: application/cloudevents+json\n\n{"specversion": "1.0",\n "id": "17",\n "source": "/monitors/3",\n "type": "security.alert",\n "data": {"severity": 9}}`)));

const nothing = () =>
  h("div", { class: "nothing" }, h("h2", {}, "Events appear here"), h("p", {}, "Something happens elsewhere: an alert, a payment, a file. A program publishes it as an event, and each subscription of the team decides what starts."),
    h("div", { class: "start-here" }, h("pre", {}, h("code", {}, 'Subscription("security.*", to="security", priority="urgent")')), h("pre", {}, h("code", {}, `changeover bus publish security.alert --data '${EXAMPLE}'`))));

try {
  const { who } = await frame();
  const bus = new Bus(who);
  await keepFresh(() => bus.load(), REFRESH);
} catch (problem) {
  broken(byId("happened"), problem);
}
