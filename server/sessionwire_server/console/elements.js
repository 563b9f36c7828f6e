/** Elements, times and other small things that every part of the console makes. */

/** Makes an element with a class and a text: text, never markup. */
export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== "") element.textContent = text;
  return element;
}

export const byId = (id) => document.getElementById(id);

/** A button that says what it does; `hint` is the key that does the same. */
export function button(text, act, { className = "", hint = "" } = {}) {
  const made = make("button", className, text);
  made.type = "button";
  if (hint) {
    const shown = make("kbd", "", hint);
    shown.setAttribute("aria-hidden", "true");
    made.append(" ", shown);
    made.setAttribute("aria-keyshortcuts", hint);
  }
  made.addEventListener("click", act);
  return made;
}

let labels = 0;

/** A label around nothing: names a field that follows it. */
export function labelled(text, field, className = "") {
  field.id ||= `field-${(labels += 1)}`;
  const label = make("label", className, text);
  label.htmlFor = field.id;
  return label;
}

const medium = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

export const clock = (time) => medium.format(time);
export const full = (time) => whole.format(time);

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

export function ago(time) {
  const seconds = (new Date(time) - Date.now()) / 1000;
  if (Number.isNaN(seconds)) return "";
  if (seconds > -60) return "just now";
  if (seconds > -3_600) return relative.format(Math.round(seconds / 60), "minute");
  if (seconds > -86_400) return relative.format(Math.round(seconds / 3_600), "hour");
  return relative.format(Math.round(seconds / 86_400), "day");
}

/** How long something took or will take: `0.4 s`, `12 s`, `3 m 20 s`. */
export function lasting(ms) {
  if (!(ms >= 0)) return "";
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} m ${seconds % 60} s`;
  return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} m`;
}

/** A value as people read JSON. */
export function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
}

export function wordFor(status) {
  return status === "waitingfortoolresults" ? "waiting" : status ?? "";
}
