/** One item of the timeline as a row. Everything from the hub reaches the page as text. */

import { inputBlock, textBlock } from "./diff.js";
import { argumentsOf } from "./events.js";
import { clock, full, lasting, make } from "./elements.js";

/** What a message shows before it is asked for the rest. */
const SHORT = 1_600;
/** What is shown of a text that is being written. */
const TAIL = 8_000;

const STATES = { running: "running", done: "", failed: "failed", cancelled: "cancelled", timeout: "timed out" };

/**
 * @param {any} item
 * @param {{isOpen: (key: string) => boolean, nameOf: (agentId: string) => string, isFolded: (agent: string) => boolean}} view
 */
export function makeRow(item, view) {
  const row = make("div", `row ${item.kind}`);
  row.role = "listitem";
  row.dataset.key = item.key;
  row.dataset.tone = item.tone ?? "plain";
  if (item.agentId) row.classList.add("nested");
  const build = BUILDERS[item.kind] ?? BUILDERS.event;
  build(row, item, view);
  return row;
}

/** Changes a row in place where that is cheap: text that grows. */
export function updateRow(row, item) {
  if (item.kind !== "open" || !row.classList.contains("open")) return false;
  const shown = row.querySelector(".text");
  const text = tailOf(item.text);
  const node = shown.firstChild;
  if (node && text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else shown.textContent = text;
  return true;
}

function tailOf(text) {
  const begun = text.trimStart();
  return begun.length > TAIL ? `…${begun.slice(-TAIL)}` : begun;
}

const BUILDERS = {
  event(row, item, view) {
    row.append(line(item, view, make("code", "type", item.type), make("span", "what", item.what)));
  },

  marker(row, item) {
    const text = make("button", "mark", item.text);
    text.type = "button";
    if (item.detail) text.append(" ", make("span", "what", item.detail));
    row.append(text);
  },

  message(row, item, view) {
    row.append(line(item, view, make("span", "who", item.who)));
    const text = item.text.trim();
    const isLong = text.length > SHORT && !view.isOpen(item.key);
    row.append(make("p", "text", isLong ? `${text.slice(0, SHORT)}…` : text));
    if (text.length > SHORT) row.append(toggle(isLong ? "Show all" : "Show less"));
  },

  reasoning(row, item, view) {
    const isOpen = view.isOpen(item.key);
    const head = line(item, view, make("span", "who", "Reasoning"));
    if (!isOpen) head.append(make("span", "what", item.text.slice(0, 300)));
    head.ariaExpanded = `${isOpen}`;
    row.append(head);
    if (isOpen) row.append(make("p", "text", item.text.trim()), raw());
  },

  tool(row, item, view) {
    const isOpen = view.isOpen(item.key);
    const head = line(item, view, make("code", "type", item.server ? `${item.server} · ${item.name}` : item.name));
    head.append(make("span", "what", item.error && !isOpen ? item.error : argumentsOf(item.input) || item.progress || ""));
    head.append(stateOf(item));
    head.ariaExpanded = `${isOpen}`;
    row.append(head);
    if (item.output) row.append(make("pre", "live", tailOf(item.output).slice(-2_000)));
    if (!isOpen) return;
    const input = inputBlock(item.input);
    if (input) row.append(input);
    if (item.error) row.append(make("p", "problem", item.error));
    if (item.result) row.append(textBlock(item.result, "result"));
    row.append(raw());
  },

  agent(row, item, view) {
    const head = line(item, view, make("span", "who", item.name), make("span", "what", item.error || item.line));
    head.append(stateOf(item));
    if (item.agent) head.ariaExpanded = `${!view.isFolded(item.agent)}`;
    row.append(head);
    if (item.steps) row.append(make("p", "text steps", item.steps.map((step) => `${MARKS[step.status] ?? "○"} ${step.title}`).join("\n")));
  },

  ask(row, item, view) {
    const head = line(item, view, make("span", "who", `Asks: ${item.what}`), make("span", "what", item.line));
    head.append(make("span", "state", item.outcome ?? (item.state === "open" ? "waits" : "")));
    row.append(head);
    if (item.plan) row.append(make("p", "text", item.plan.slice(0, SHORT)));
  },

  open(row, item, view) {
    const label = item.textKind === "message" ? "Agent" : item.textKind === "thinking" ? "Reasoning" : item.textKind;
    row.dataset.kind = item.textKind;
    const who = [label, item.name].filter(Boolean).join(" · ");
    row.append(make("span", "who", item.agentId ? `${view.nameOf(item.agentId)} · ${who}` : who));
    row.append(make("p", "text", tailOf(item.text)));
  },
};

const MARKS = { done: "✓", in_progress: "▸", skipped: "–", pending: "○" };

/** The line of a row: a button that opens it, or shows the event as JSON. */
function line(item, view, ...parts) {
  const head = make("button", "line");
  head.type = "button";
  const time = make("time", "", item.time ? clock(item.time) : "");
  if (item.time) {
    time.dateTime = item.time.toISOString();
    time.title = full(item.time);
  }
  head.append(time);
  if (item.agentId) head.append(make("span", "agent", view.nameOf(item.agentId)));
  head.append(...parts);
  return head;
}

function stateOf(item) {
  const words = [STATES[item.state] ?? item.state, lasting(item.ms)].filter(Boolean).join(" · ");
  const state = make("span", "state", words);
  state.dataset.state = item.state ?? "";
  return state;
}

function toggle(text) {
  const more = make("button", "quiet more", text);
  more.type = "button";
  more.dataset.act = "toggle";
  return more;
}

function raw() {
  const shown = make("button", "quiet more", "Raw JSON");
  shown.type = "button";
  shown.dataset.act = "raw";
  return shown;
}
