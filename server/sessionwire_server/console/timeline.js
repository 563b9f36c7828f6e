/**
 * A session's events in a window that can be anywhere in its log: at its head it grows with the
 * stream, elsewhere pages of the list extend it both ways. What is far from the view is let go of.
 */

import { Texts, sequenceOf } from "./console/client/index.js";
import { isDurable, timeOf } from "./events.js";
import { isOf } from "./families.js";
import { Fold } from "./fold.js";

const PAGE = 200;
/** Events of a window; more are let go of at the far end. */
const MOST = 1_600;
/** A window that is not looked at grows to this before the stream stops feeding it. */
const LIVE_MOST = 2_400;

export class Timeline {
  #session;
  #changed;
  #failed;
  /** In order: `{event, sequence, durable}`. */
  #entries = [];
  #fold;
  #texts = new Texts();
  #foldedAgents = new Set();
  #filter = { view: "", text: "" };
  /** Every event after this one is in the window, up to its end. */
  #after = 0;
  #reached = 0;
  #isHead = true;
  #newer = 0;
  #loading = null;
  #atStart = false;
  /** The log's newest event that is known of. */
  #head = 0;
  /** Where the stream is. */
  #streamed = 0;
  #openItems = new Map();
  #stop = new AbortController();
  isLoaded = false;

  /**
   * @param {import("../../../client/sessionwire/browser/hub.js").Session} session
   * @param {{changed: () => void, failed: (error: Error) => void}} tell
   */
  constructor(session, { changed, failed }) {
    this.#session = session;
    this.#changed = changed;
    this.#failed = failed;
    this.#fold = new Fold();
  }

  close() {
    this.#stop.abort();
  }

  get isHead() {
    return this.#isHead;
  }

  /** Events that came since the window left the head. */
  get newer() {
    return this.#newer;
  }

  get head() {
    return this.#head;
  }

  get filter() {
    return this.#filter;
  }

  nameOf(agentId) {
    return this.#fold.nameOf(agentId);
  }

  isFolded(agent) {
    return this.#foldedAgents.has(agent);
  }

  toggleAgent(agent) {
    if (!this.#foldedAgents.delete(agent)) this.#foldedAgents.add(agent);
    this.#changed();
  }

  /** What is shown, in order. */
  items() {
    let items = this.#fold.items;
    if (this.#foldedAgents.size > 0) items = items.filter((item) => !this.#foldedAgents.has(item.agentId));
    if (!this.#isHead || this.#texts.open.size === 0) return items;
    const open = [];
    for (const text of this.#texts.open.values()) {
      if (text.kind === "tool output" && this.#fold.tool(text.id)) continue;
      if (!this.#wantsOpen(text) || this.#foldedAgents.has(text.agentId)) continue;
      open.push(this.#openItems.get(text.key));
    }
    return open.length > 0 ? [...items, ...open] : items;
  }

  #wantsOpen(text) {
    const { view, text: words } = this.#filter;
    if (words) return false;
    const family = { message: "messages", thinking: "reasoning", caller: "messages", voice: "messages" }[text.kind] ?? "tools";
    return view === "" || view === "every" || view === `family:${family}`;
  }

  /** @param {{cursor: string, head: string}} place of `connected` */
  connected({ cursor, head }) {
    this.#head = Math.max(this.#head, sequenceOf(head ?? cursor));
    this.#streamed = Math.max(this.#streamed, sequenceOf(cursor));
    if (!this.isLoaded && this.#entries.length === 0 && this.#isHead) {
      this.#after = sequenceOf(cursor);
      this.#reached = this.#after;
      this.#atStart = this.#after === 0;
    }
  }

  caughtUp() {
    this.isLoaded = true;
    this.#changed();
  }

  /** Takes the next event of the stream. */
  add(event, cursor) {
    const sequence = sequenceOf(cursor);
    const durable = isDurable(event, sequence > this.#streamed);
    this.#streamed = Math.max(this.#streamed, sequence);
    this.#head = Math.max(this.#head, sequence);
    const text = this.#texts.add(event);
    if (text) this.#grow(text);
    else if (event.type === "session.snapshot_rewind") this.#rewind(event, sequence);
    else this.#append(event, sequence, durable);
    for (const key of this.#openItems.keys()) if (!this.#texts.open.has(key)) this.#openItems.delete(key);
    this.#changed();
  }

  #append(event, sequence, durable) {
    if (!this.#isHead) {
      if (durable && sequence > this.#reached) this.#newer += 1;
      return;
    }
    // A page of the list may have brought it before the stream did.
    if (durable && sequence <= this.#reached) return;
    if (durable) this.#reached = sequence;
    if (!this.#fits(event)) return;
    this.#entries.push({ event, sequence, durable });
    this.#fold.add(event, { durable });
    if (this.#entries.length > LIVE_MOST) this.#leaveHead();
  }

  /** Told by who draws: the view is at the end, so what is far above may go. */
  trim() {
    if (this.#entries.length <= MOST) return;
    this.#dropStart(this.#entries.length - MOST + PAGE);
    this.#refold();
  }

  #leaveHead() {
    this.#isHead = false;
    this.#newer = 0;
  }

  #grow(text) {
    const tool = text.kind === "tool output" ? this.#fold.tool(text.id) : null;
    if (tool) {
      tool.output = text.text;
      tool.version += 1;
      return;
    }
    const item = this.#openItems.get(text.key) ?? {
      key: `open:${text.key}`, kind: "open", version: 0, textKind: text.kind, agentId: text.agentId, tone: "agent",
    };
    Object.assign(item, { text: text.text, name: text.name, version: item.version + 1 });
    this.#openItems.set(text.key, item);
  }

  #rewind(event, sequence) {
    const id = event.data?.upToEventId;
    const at = this.#entries.findIndex((entry) => entry.event.id === id);
    if (at >= 0) {
      this.#entries.length = at;
      this.#refold();
    } else if (this.#entries.length > 0 && this.#isHead && this.#after > 0) {
      // It is before the window, so all of it may be gone: the hub knows.
      this.#head = Math.max(this.#head, sequence);
      void this.toEnd();
      return;
    }
    this.#append(event, sequence, true);
  }

  /** Events are missing here. */
  gap({ reason }) {
    this.#fold.note(`gap:${this.#head}:${reason}`, "Events are missing here", `${reason}`.replaceAll("_", " "), "bad");
    this.#changed();
  }

  /** The hub's history began anew. */
  reset() {
    this.beginAnew();
    this.#fold.note("reset", "The hub's history began anew here");
    this.#changed();
  }

  /** Forgets all; the stream brings what is next. */
  beginAnew() {
    this.#loading?.stop.abort();
    this.#clear();
    this.#head = 0;
    this.#streamed = 0;
    this.#after = 0;
    this.#reached = 0;
    this.#isHead = true;
    this.isLoaded = false;
    this.#texts.clear();
    this.#openItems.clear();
  }

  #clear() {
    this.#entries = [];
    this.#atStart = false;
    this.#fold = new Fold({ every: this.#every });
  }

  get #every() {
    return this.#filter.view === "every" || this.#filter.view.startsWith("type:") || this.#filter.text !== "";
  }

  #refold() {
    this.#fold = new Fold({ every: this.#every });
    for (const { event, durable } of this.#entries) this.#fold.add(event, { durable });
    for (const text of this.#texts.open.values()) if (text.kind === "tool output") this.#grow(text);
  }

  /** Whether an event passes the filter, as the hub judges it. */
  #fits(event) {
    const { view, text } = this.#filter;
    if (view.startsWith("type:") && event.type !== view.slice(5)) return false;
    if (view.startsWith("family:") && !isOf(event.type, view.slice(7))) return false;
    if (!text) return true;
    const whole = JSON.stringify(event.data ?? null).toLowerCase();
    return text.toLowerCase().split(/\s+/).every((word) => whole.includes(word));
  }

  /** Shows only some. @param {{view: string, text: string}} filter */
  setFilter(filter) {
    if (filter.view === this.#filter.view && filter.text === this.#filter.text) return Promise.resolve();
    this.#filter = filter;
    return this.toEnd();
  }

  #query(catalog) {
    const { view, text } = this.#filter;
    return {
      limit: PAGE,
      ...(text ? { q: text } : {}),
      ...(view.startsWith("type:") ? { types: [view.slice(5)] } : {}),
      ...(view.startsWith("family:") ? { types: catalog(view.slice(7)) } : {}),
    };
  }

  /** Types of a family; set by who knows the session's catalog. @type {(family: string) => string[]} */
  typesOf = () => [];

  /** One request at a time; a later one of another kind ends it. */
  async #load(what, work) {
    if (this.#loading?.what === what) return this.#loading.done;
    this.#loading?.stop.abort();
    const stop = new AbortController();
    const loading = { what, stop, done: null };
    loading.done = (async () => {
      try {
        await work(AbortSignal.any([stop.signal, this.#stop.signal]));
      } catch (error) {
        if (!stop.signal.aborted && !this.#stop.signal.aborted) this.#failed(error);
      } finally {
        if (this.#loading === loading) this.#loading = null;
      }
    })();
    this.#loading = loading;
    return loading.done;
  }

  get isLoading() {
    return this.#loading !== null;
  }

  /** Extends the window backwards. */
  earlier() {
    if (this.#atStart || !this.isLoaded || this.#loading) return Promise.resolve();
    return this.#load("earlier", async (signal) => {
      const query = { ...this.#query(this.typesOf), before_sequence: this.#after + 1, order_desc: true };
      const page = await this.#session.events(query, signal);
      if (signal.aborted) return;
      if (page.data.length < PAGE) this.#atStart = true;
      const found = entriesOf(page.data.reverse(), page);
      this.#after = this.#atStart ? 0 : page.first_sequence - 1;
      this.#entries = [...found, ...this.#entries];
      if (this.#entries.length > MOST) this.#dropEnd(this.#entries.length - MOST);
      this.#refold();
      this.#changed();
    });
  }

  /** Extends the window forwards, until it is at the head again. */
  later() {
    if (this.#isHead || this.#loading) return Promise.resolve();
    return this.#load("later", async (signal) => {
      const query = { ...this.#query(this.typesOf), after_sequence: this.#reached };
      const head = this.#head;
      const page = await this.#session.events(query, signal);
      if (signal.aborted) return;
      this.#entries.push(...entriesOf(page.data, page));
      this.#reached = Math.max(this.#reached, page.last_sequence ?? 0);
      if (page.data.length < PAGE) this.#arrive(head);
      if (this.#entries.length > MOST) this.#dropStart(this.#entries.length - MOST);
      this.#refold();
      this.#changed();
    });
  }

  /** All up to `head` is here: the window is at the log's, unless more came meanwhile. */
  #arrive(head) {
    this.#reached = Math.max(this.#reached, head);
    this.#isHead = this.#head <= this.#reached;
    if (this.#isHead) this.#newer = 0;
  }

  #dropStart(count) {
    const dropped = this.#entries.splice(0, count);
    const last = dropped.findLast((entry) => entry.sequence > 0);
    if (last) this.#after = Math.max(this.#after, last.sequence);
    this.#atStart = false;
  }

  #dropEnd(count) {
    this.#entries.splice(-count, count);
    const last = this.#entries.findLast((entry) => entry.sequence > 0);
    this.#reached = last?.sequence ?? this.#after;
    this.#isHead = false;
  }

  toEnd() {
    return this.#load("end", async (signal) => {
      const query = { ...this.#query(this.typesOf), order_desc: true };
      const head = this.#head;
      const page = await this.#session.events(query, signal);
      if (signal.aborted) return;
      this.#clear();
      this.#entries = entriesOf(page.data.reverse(), page);
      this.#atStart = page.data.length < PAGE;
      this.#after = this.#atStart ? 0 : page.first_sequence - 1;
      this.#reached = page.last_sequence ?? 0;
      this.#arrive(head);
      this.#refold();
      this.#changed();
    });
  }

  toStart() {
    return this.#from({ after_sequence: 0 }, true);
  }

  /** @param {Date} time */
  toTime(time) {
    return this.#from({ after_sequence: 0, from_ts: time.toISOString() }, false);
  }

  #from(place, isStart) {
    return this.#load(`from ${JSON.stringify(place)}`, async (signal) => {
      const head = this.#head;
      const page = await this.#session.events({ ...this.#query(this.typesOf), ...place }, signal);
      if (signal.aborted) return;
      if (page.data.length === 0) return;
      this.#clear();
      this.#entries = entriesOf(page.data, page);
      this.#atStart = isStart;
      this.#after = isStart ? 0 : page.first_sequence - 1;
      this.#reached = page.last_sequence;
      this.#isHead = false;
      this.#newer = 0;
      if (page.data.length < PAGE) this.#arrive(head);
      this.#refold();
      this.#changed();
    });
  }

  /** The time of what is at the window's ends, for who wants to jump. */
  get span() {
    const first = this.#entries[0];
    const last = this.#entries.at(-1);
    return { from: first ? timeOf(first.event) : null, to: last ? timeOf(last.event) : null };
  }
}

/** Entries of a page; copilot's events do not say their number, the page says the ends'. */
function entriesOf(events, { first_sequence: first, last_sequence: last }) {
  const isWhole = first !== null && last - first + 1 === events.length;
  return events.map((event, index) => ({
    event,
    durable: true,
    sequence: event.sequence ?? (isWhole ? first + index : index === 0 ? first : index === events.length - 1 ? last : 0),
  }));
}
