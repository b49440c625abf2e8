// The public API: JSON in and out, the CSRF token with every change, and errors as sentences.
import { root } from "./dom.js";

export const BASE = `${root}/api/v1`;
let skew = 0; // seconds by which this clock is ahead of the server's

export class Problem extends Error {
  constructor(status, detail, body = {}) {
    super(detail);
    this.status = status;
    this.body = body;
  }
}

const cookie = (name) =>
  document.cookie.split("; ").find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";

export const now = () => Date.now() / 1000 - skew;

export async function call(method, path, body, headers = {}) {
  let answer;
  try {
    answer = await fetch(BASE + path, {
      method,
      headers: {
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(method === "GET" ? {} : { "X-CSRF-Token": cookie("changeover_csrf") }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem(0, "The server cannot be reached.");
  }
  note(answer.headers.get("Date"));
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "/session") leaveForSignIn();
  throw new Problem(answer.status, said.detail ?? said.title ?? `The server answered ${answer.status}.`, said);
}

function note(date) {
  const ahead = date ? Date.now() / 1000 - Date.parse(date) / 1000 : 0;
  skew = Math.abs(ahead) > 2 ? ahead : 0; // the header counts whole seconds
}

function leaveForSignIn() {
  const here = location.pathname.slice(root.length) + location.search;
  location.assign(`${root}/sign-in?next=${encodeURIComponent(here)}`);
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}, headers) => call("POST", path, body, headers);
export const query = (values) => {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given)}` : "";
};
// An id within a path: delegates' ids contain slashes, which stay.
export const inPath = (id) => id.split("/").map(encodeURIComponent).join("/");

const RANK = ["public", "worker", "viewer", "operator", "approver", "admin"];
let asked;
// Who is signed in; the same answer for all who ask on this page.
export const me = () => (asked ??= get("/me"));
export const may = (who, role) => RANK.indexOf(who.role) >= RANK.indexOf(role);
