// The composer: text and files, sent once, also when the answer to the request is lost and it is sent again.
import { inPath, post } from "../api.js";
import { byId, h, icon } from "../dom.js";
import { bytes } from "../format.js";

const MOST = 7 * 1024 * 1024; // bytes of all files of a message

export class Composer {
  #files = [];

  // `sending(message)` is called before a message goes out, and returns the handle that `sent` or `failed` gets.
  constructor({ sending, sent, failed }) {
    Object.assign(this, { sending, sent, failed, conversation: null, agent: () => undefined });
    this.text = byId("text");
    byId("composer").addEventListener("submit", (event) => (event.preventDefault(), this.#submit()));
    this.text.addEventListener("keydown", (event) => this.#key(event));
    this.text.addEventListener("input", () => this.#fit());
    byId("files").addEventListener("change", (event) => this.#attach([...event.target.files]).finally(() => (event.target.value = "")));
  }

  focus() {
    this.text.focus();
  }

  close(words) {
    for (const each of byId("composer").elements) each.disabled = true;
    this.text.placeholder = words;
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    this.#submit();
  }

  #fit() {
    this.text.rows = Math.min(8, this.text.value.split("\n").length);
  }

  async #attach(chosen) {
    for (const file of chosen) {
      const size = this.#files.reduce((sum, each) => sum + each.size, file.size);
      if (size > MOST) return this.failed(new Error(`${file.name} is too large: a message carries ${bytes(MOST)} of files.`));
      const raw = new Uint8Array(await file.arrayBuffer());
      let text = "";
      for (let from = 0; from < raw.length; from += 32768) text += String.fromCharCode(...raw.subarray(from, from + 32768));
      this.#files.push({ size: file.size, file: { name: file.name, media_type: file.type || "application/octet-stream", data: btoa(text) } });
    }
    return this.#showFiles();
  }

  #showFiles() {
    const list = byId("attached");
    list.hidden = this.#files.length === 0;
    list.replaceChildren(...this.#files.map((each) => h("li", { class: "file" }, icon("file", "small"), h("bdi", {}, each.file.name), h("span", { class: "dim" }, bytes(each.size)),
      h("button", { type: "button", class: "drop", "aria-label": `Remove ${each.file.name}`, onclick: () => ((this.#files = this.#files.filter((other) => other !== each)), this.#showFiles()) }, icon("x", "small")))));
  }

  #submit() {
    const text = this.text.value.trim();
    if (!text && !this.#files.length) return;
    const files = this.#files.map((each) => each.file);
    this.text.value = "";
    this.#files = [];
    this.#fit();
    this.#showFiles();
    this.#send({ text, files, agent: this.agent(), key: key() });
  }

  async #send(message) {
    const handle = this.sending(message);
    const { text, files, agent, key: once } = message;
    const path = this.conversation ? `/conversations/${inPath(this.conversation)}/messages` : "/conversations?follow=true";
    const body = { text, ...(files.length ? { files } : {}), ...(agent && !this.conversation ? { agent } : {}) };
    try {
      this.sent(handle, await post(path, body, { "Idempotency-Key": once }));
    } catch (problem) {
      this.failed(problem, handle, () => this.#send(message));
    }
  }
}

// A key of its own for each message, so that sending it again does not say it twice.
const key = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (each) => each.toString(16).padStart(2, "0")).join("");
