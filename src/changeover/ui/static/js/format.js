// How values read: times, durations, numbers, values of variables.
export const STATUSES = { running: "Running", waiting: "Waiting", pending: "In the queue", completed: "Completed", failed: "Failed", cancelled: "Cancelled", idle: "Idle" };
const pad = (number) => String(number).padStart(2, "0");

export function took(seconds) {
  if (seconds < 0.0005) return seconds > 0 ? "<1 ms" : "0 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return seconds < 3600
    ? `${Math.floor(seconds / 60)}:${pad(Math.floor(seconds % 60))} min`
    : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

export function left(seconds) {
  if (seconds <= 0) return "0:00";
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${pad(Math.floor(seconds % 60))}`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

export function clock(at) {
  return new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
}

// To the second, for lists of what happens often.
export const moment = (at) => new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

export function day(at) {
  const date = new Date(at * 1000);
  return date.toDateString() === new Date().toDateString()
    ? clock(at)
    : `${date.toLocaleDateString(undefined, { day: "numeric", month: "short" })}, ${clock(at)}`;
}

export function ago(at, now) {
  const seconds = Math.max(0, now - at);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h ago` : day(at);
}

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
export const value = (given) => (typeof given === "string" ? given : JSON.stringify(given));
// For reading only: a list of texts without quotes.
export const listed = (given) => (Array.isArray(given) && given.every((each) => typeof each === "string") ? given.join(", ") : value(given));
// A message of the server as a sentence.
export const sentence = (text) => text.replace(/^./u, (first) => first.toUpperCase()).replace(/[^.!?…]$/u, "$&.");
export const cut = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);
export const bytes = (count) => (count < 1024 ? `${count} B` : count < 1048576 ? `${Math.round(count / 1024)} KB` : `${(count / 1048576).toFixed(1)} MB`);
export const count = (given) => Math.round(given).toLocaleString("en");
export const percent = (share, digits = 1) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(share === 1 ? 0 : digits)} %`);
export const maybe = (value, show) => (value === null || value === undefined ? "–" : show(value));
