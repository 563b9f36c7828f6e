/**
 * One session, live: durable events as rows, messages being written as text that grows, and what
 * the connection is doing. Everything from the hub reaches the page as text, never as markup.
 */

import { closedBy, deltaOf, isDurable, messageOf, summaryOf, timeOf, toneOf } from "./events.js";
import { follow, problemOf } from "./stream.js";

const FIRST_PAGE = 200;
const MORE = 100;
const MAX_ROWS = 2_000;
const MAX_TEXT = 20_000;

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

const byId = (id) => document.getElementById(id);

/** Makes an element with a class and a text. */
export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

/** Writes what a connection is doing; offline counts down to the next try. */
export class Link {
  #element;
  #brief;
  #timer = 0;

  constructor(element, { brief = false } = {}) {
    this.#element = element;
    this.#brief = brief;
  }

  show(state) {
    clearInterval(this.#timer);
    this.#element.dataset.state = state.name;
    if (state.name !== "offline") {
      const words = { "catching-up": "catching up", ended: "ended", refused: `refused: ${state.detail}` };
      this.#element.textContent = words[state.name] ?? state.name;
      return;
    }
    this.#element.textContent = `offline since ${clock.format(state.since)}`;
    if (this.#brief) return;
    // Not for screen readers: they would read it out every second.
    const countdown = make("span");
    countdown.setAttribute("aria-hidden", "true");
    this.#element.append(countdown);
    const write = () => {
      const left = Math.max(0, Math.ceil((state.retryAt - Date.now()) / 1000));
      countdown.textContent = left > 0 ? `, next try in ${left} s` : ", trying again";
    };
    write();
    this.#timer = setInterval(write, 500);
  }

  stop() {
    clearInterval(this.#timer);
  }
}

export class Conversation {
  #sid;
  #stop = new AbortController();
  #link = new Link(byId("stream-state"));
  #rows = byId("events");
  #log = byId("log");
  #parts = new Map();
  #sequence = 0;
  #before = 0;
  #unseen = 0;
  #drawing = 0;
  #waiting = [];

  constructor(sid) {
    this.#sid = sid;
    this.#rows.replaceChildren();
    byId("streaming").replaceChildren();
    byId("no-events").hidden = true;
    byId("earlier").hidden = true;
    this.#seen();
    const { signal } = this.#stop;
    this.#log.addEventListener("scroll", () => this.#atEnd() && this.#seen(), { signal });
    byId("newest").addEventListener("click", () => this.#toEnd(), { signal });
    byId("earlier").addEventListener("click", () => this.#showEarlier(), { signal });
    const path = `v1/sessions/${encodeURIComponent(sid)}/sse?control=1&names=0&from=-${FIRST_PAGE}`;
    follow(
      path,
      { liveOn: "caught_up", onFrame: (frame) => this.#take(frame), onState: (s) => this.#tell(s) },
      signal,
    );
  }

  close() {
    this.#stop.abort();
    this.#link.stop();
    cancelAnimationFrame(this.#drawing);
  }

  #tell(state) {
    this.#link.show(state);
    if (state.name === "live") byId("no-events").hidden = this.#rows.children.length > 0;
  }

  /** Frames that arrive together are drawn together. */
  #take(frame) {
    this.#waiting.push(frame);
    if (this.#waiting.length === 1) {
      // A tab in the background gets no animation frames; it must not gather frames without end.
      const draw = () => this.#draw();
      this.#drawing = document.hidden ? setTimeout(draw, 100) : requestAnimationFrame(draw);
    } else if (this.#waiting.length > 500) this.#draw();
  }

  #draw() {
    const stay = this.#atEnd();
    const frames = this.#waiting;
    this.#waiting = [];
    if (this.#stop.signal.aborted) return;
    for (const frame of frames) this.#one(frame);
    while (this.#rows.children.length > MAX_ROWS) this.#dropOldest();
    if (this.#rows.children.length > 0) byId("no-events").hidden = true;
    if (stay) this.#toEnd();
    else byId("newest").hidden = this.#unseen === 0;
  }

  #one(frame) {
    const data = JSON.parse(frame.data);
    if (frame.name === "message") this.#event(data, frame.id);
    else if (frame.name === "connected") this.#connected(data);
    else if (frame.name === "gap") this.#note(`Events are missing here: ${data.reason.replace("_", " ")}`);
    else if (frame.name === "reset") this.#reset();
  }

  #connected(data) {
    const start = sequenceOf(data.cursor);
    if (this.#rows.children.length === 0) {
      this.#before = start + 1;
      byId("earlier").hidden = start === 0;
    }
    this.#sequence = start;
    if (data.gap) this.#note(`Events are missing here: ${data.gap.reason.replace("_", " ")}`);
  }

  #reset() {
    this.#rows.replaceChildren();
    this.#parts.clear();
    byId("streaming").replaceChildren();
    this.#sequence = 0;
    this.#note("The hub's history began anew here");
  }

  #event(event, id) {
    const sequence = sequenceOf(id);
    const durable = isDurable(event, sequence > this.#sequence);
    this.#sequence = Math.max(this.#sequence, sequence);
    const delta = deltaOf(event);
    if (delta) this.#grow(delta);
    this.#close(closedBy(event));
    if (event.type === "session.title_changed" || event.type === "session.title.updated") {
      byId("session-title").textContent = event.data?.title ?? this.#sid;
    }
    if (!durable || delta) return;
    this.#rows.append(row(event, sequence));
    this.#unseen += 1;
  }

  #grow(delta) {
    let open = this.#parts.get(delta.key);
    if (!open) {
      open = { text: "", element: make("section", "part"), body: make("p", "text") };
      const clip = make("div", "clip");
      clip.append(open.body);
      const label = delta.kind === "message" ? "Agent" : delta.kind;
      open.element.append(make("span", "who", [label, delta.name].filter(Boolean).join(" · ")), clip);
      open.element.dataset.kind = delta.kind;
      this.#parts.set(delta.key, open);
      byId("streaming").append(open.element);
    }
    open.text = (delta.whole ?? open.text + delta.text).slice(-MAX_TEXT);
    open.body.textContent = open.text.trimStart();
  }

  #close(keys) {
    for (const key of keys ?? [...this.#parts.keys()]) {
      this.#parts.get(key)?.element.remove();
      this.#parts.delete(key);
    }
  }

  #note(text) {
    this.#rows.append(make("li", "note", text));
  }

  #dropOldest() {
    this.#rows.firstElementChild.remove();
    const first = this.#rows.querySelector("[data-sequence]");
    if (first) this.#before = Number(first.dataset.sequence);
    byId("earlier").hidden = false;
  }

  async #showEarlier() {
    const button = byId("earlier");
    button.disabled = true;
    const path = `v1/sessions/${encodeURIComponent(this.#sid)}/events`;
    try {
      const response = await fetch(`${path}?limit=${MORE}&before_sequence=${this.#before}`);
      if (!response.ok) throw new Error(await problemOf(response));
      const page = await response.json();
      if (this.#stop.signal.aborted) return;
      const height = this.#log.scrollHeight;
      this.#rows.prepend(...page.data.map((event) => row(event, event.sequence ?? 0)));
      this.#log.scrollTop += this.#log.scrollHeight - height;
      this.#before = page.first_sequence ?? 0;
      button.hidden = this.#before <= 1;
      button.textContent = "Show earlier events";
    } catch (error) {
      button.textContent = `${error.message} – try again`;
    } finally {
      button.disabled = false;
    }
  }

  #atEnd() {
    return this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < 60;
  }

  #toEnd() {
    this.#log.scrollTop = this.#log.scrollHeight;
    this.#seen();
  }

  #seen() {
    this.#unseen = 0;
    byId("newest").hidden = true;
  }
}

/** The hub's own page may look into its cursors: the sequence is their second part. */
function sequenceOf(cursor) {
  return Number(String(cursor).split(".")[1] ?? 0) || 0;
}

function row(event, sequence) {
  const item = make("li", "event");
  item.dataset.tone = toneOf(event);
  if (sequence) item.dataset.sequence = String(sequence);
  const details = make("details");
  const summary = make("summary");
  const time = timeOf(event);
  const stamp = make("time", "", time ? clock.format(time) : "");
  if (time) {
    stamp.dateTime = time.toISOString();
    stamp.title = full.format(time);
  }
  const type = make("code", "type", event.type);
  const message = messageOf(event);
  summary.append(stamp, type);
  if (event.agentId) summary.append(make("span", "agent", event.agentId));
  if (!message) summary.append(make("span", "what", summaryOf(event)));
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (details.open && !details.querySelector("pre")) {
      details.append(make("pre", "", JSON.stringify(event, null, 2)));
    }
  });
  item.append(details);
  if (message) {
    item.classList.add("message");
    item.append(make("span", "who", message.who), make("p", "text", message.text.trim()));
  }
  return item;
}
