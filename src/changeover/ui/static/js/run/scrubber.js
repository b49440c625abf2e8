// The scrubber: goes to a step, or plays them one after another. Dots mark handoffs.
import { h, icon, s } from "../dom.js";

const SLOWEST = 600; // milliseconds for a step
const LONGEST = 24000; // milliseconds for a whole run

export class Scrubber {
  #timer = 0;

  constructor(box, go) {
    this.go = go;
    this.at = this.last = -1;
    this.input = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Step", oninput: () => this.#pick(Number(this.input.value)) });
    this.marks = s("svg", { class: "marks", "aria-hidden": "true" });
    this.play = h("button", { class: "btn quiet square", type: "button", onclick: () => this.toggle() });
    this.words = h("span", { class: "mono at" });
    const button = (name, words, act) => h("button", { class: "btn quiet square", type: "button", title: words, onclick: act }, icon(name), h("span", { class: "vh" }, words));
    box.replaceChildren(button("skip-back", "First step", () => this.#pick(0)), this.play, button("skip-forward", "Last step", () => this.#pick(this.last)),
      h("div", { class: "track" }, this.marks, this.input), this.words);
    this.#label();
  }

  get playing() {
    return this.#timer !== 0;
  }

  // The number of steps, and which of them are handoffs: [{step, bad}].
  resize(count, handoffs) {
    this.last = count - 1;
    this.input.max = Math.max(0, this.last);
    const place = (step) => `${this.last ? (100 * step) / this.last : 0}%`;
    this.marks.replaceChildren(...handoffs.map(({ step, bad }) => s("circle", { class: bad ? "bad" : "", cx: place(step), cy: "50%", r: 3.5 })));
  }

  show(step, words) {
    this.at = step;
    if (Number(this.input.value) !== step) this.input.value = step;
    this.input.setAttribute("aria-valuetext", words);
    this.words.textContent = words;
  }

  // Go `by` steps on; playing stops.
  step(by) {
    this.#pick(Math.min(this.last, Math.max(0, this.at + by)));
  }

  toggle() {
    if (this.playing) return this.stop();
    if (this.at >= this.last) this.go(0);
    const pause = Math.min(SLOWEST, LONGEST / (this.last || 1));
    this.#timer = setInterval(() => (this.at < this.last ? this.go(this.at + 1) : this.stop()), pause);
    return this.#label();
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = 0;
    this.#label();
  }

  #pick(step) {
    if (this.playing) this.stop();
    this.go(step);
  }

  #label() {
    const words = this.playing ? "Pause" : "Play";
    this.play.title = words;
    this.play.replaceChildren(icon(this.playing ? "pause" : "play"), h("span", { class: "vh" }, words));
  }
}
