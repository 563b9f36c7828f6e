/** One session, live: its head, its timeline, its prompts and what is sent to it. */

import { followSession, sequenceOf } from "./console/client/index.js";
import { Badge } from "./badge.js";
import { byId, clock, make, wordFor } from "./elements.js";
import { NAMES, typesOf } from "./families.js";
import { PromptsPanel } from "./prompts_panel.js";
import { makeRow, updateRow } from "./rows.js";
import { Steering } from "./steering.js";
import { Timeline } from "./timeline.js";
import { VirtualRows } from "./virtual_rows.js";

const FIRST = 200;
/** A tab that comes back this far behind begins at the newest events again. */
const FAR = 2_000;
const TYPED_MS = 250;

const ESTIMATES = { message: 92, reasoning: 28, tool: 28, open: 60 };

export class SessionView {
  #sid;
  #session;
  #over = new AbortController();
  #badge = new Badge(byId("stream-state"));
  #timeline;
  #rows;
  #prompts;
  #steering;
  #inspector;
  #following;
  #opened = new Set();
  #record = { id: "" };
  #viewers = null;
  #host = null;
  #typed = 0;
  #setting = 0;
  #first = "";

  /**
   * @param {import("../../../client/sessionwire/browser/hub.js").Hub} hub
   * @param {string} sid
   * @param {{inspector: import("./inspector.js").Inspector, onPrompts: (count: number) => void}} page
   */
  constructor(hub, sid, { inspector, onPrompts }) {
    this.#sid = sid;
    this.#session = hub.session(sid);
    this.#inspector = inspector;
    byId("filter-text").value = "";
    byId("filter-view").value = "";
    byId("jump").hidden = true;
    this.#trouble("");
    this.#timeline = new Timeline(this.#session, {
      changed: () => this.#changed(),
      failed: (error) => this.#trouble(error.message),
    });
    this.#timeline.typesOf = (family) => typesOf(family, this.#record.catalog);
    this.#rows = new VirtualRows(byId("log"), byId("events"), {
      make: (item) => makeRow(item, this.#rowView),
      update: updateRow,
      estimate: estimateOf,
      sticky: true,
      onDraw: (range) => this.#drawn(range),
    });
    this.#rows.toEnd();
    this.#prompts = new PromptsPanel(this.#session, () => onPrompts(this.#prompts?.open ?? 0));
    this.#steering = new Steering(this.#session);
    this.#listen();
    void this.#describe();
    this.#following = followSession(hub, sid, {
      onFrame: (frame) => this.#frame(frame),
      onEvent: (event, cursor) => this.#timeline.add(event, cursor),
      onPrompts: (prompts) => this.#prompts.show(prompts),
      onGap: (gap) => this.#timeline.gap(gap),
      onReset: () => this.#timeline.reset(),
      onState: (state) => this.#tell(state),
    }, { from: `-${FIRST}` });
  }

  close() {
    this.#over.abort();
    this.#following.close();
    this.#timeline.close();
    this.#rows.close();
    this.#prompts.close();
    this.#steering.close();
    this.#badge.stop();
    this.#inspector.hide();
    clearTimeout(this.#typed);
    cancelAnimationFrame(this.#setting);
  }

  /** Takes the session as the list has it. */
  describe(record) {
    this.#record = record;
    this.#head();
  }

  focusPrompts() {
    return this.#prompts.focus();
  }

  async #describe() {
    try {
      const record = await this.#session.show(this.#over.signal);
      if (!this.#over.signal.aborted) this.describe(record);
    } catch {
      // The stream says why.
    }
  }

  #tell(state) {
    this.#badge.show(state);
    if (state.name === "live") this.#trouble("");
    byId("no-events").hidden = state.name !== "live" || this.#timeline.items().length > 0;
  }

  #trouble(text) {
    byId("log-trouble").textContent = text;
    byId("log-trouble").hidden = text === "";
  }

  #frame({ name, data }) {
    if (name === "connected") this.#connected(data);
    else if (name === "caught_up") this.#timeline.caughtUp();
    else if (name === "session") this.describe(data);
    else if (name === "presence") {
      this.#viewers = data.viewers;
      this.#host = data.host;
      this.#head();
    }
  }

  #connected(data) {
    const behind = sequenceOf(data.head) - sequenceOf(data.cursor);
    if (this.#timeline.isLoaded && behind > FAR) {
      this.#timeline.beginAnew();
      queueMicrotask(() => this.#following.restart({ from: `-${FIRST}` }));
      return;
    }
    this.#timeline.connected(data);
  }

  #head() {
    const record = this.#record;
    const title = record.title || this.#sid;
    if (byId("session-title").textContent !== title) byId("session-title").textContent = title;
    byId("session-id").textContent = this.#sid;
    const viewers = this.#viewers ?? record.viewers;
    const host = this.#host ?? record.host;
    byId("session-facts").textContent = [
      record.catalog,
      wordFor(record.status),
      viewers > 0 ? `${viewers} watching` : "",
      host?.connected ? "host connected" : "no host",
    ].filter(Boolean).map((each) => ` · ${each}`).join("");
    document.title = `${record.pending_prompts > 0 ? `(${record.pending_prompts}) ` : ""}${title} · sessionwire`;
    this.#steering.show({ ...record, host });
  }

  /* The timeline */

  #rowView = {
    isOpen: (key) => this.#opened.has(key),
    nameOf: (agentId) => this.#timeline.nameOf(agentId),
    isFolded: (agent) => this.#timeline.isFolded(agent),
  };

  /** However much arrives, rows are set once a frame. */
  #changed() {
    if (this.#setting) return;
    const set = () => {
      this.#setting = 0;
      if (this.#over.signal.aborted) return;
      if (this.#rows.sticks && this.#timeline.isHead) this.#timeline.trim();
      this.#rows.set(this.#timeline.items());
      this.#rows.draw();
    };
    if (document.hidden) this.#setting = setTimeout(set, 200);
    else this.#setting = requestAnimationFrame(set);
  }

  #drawn({ first, nearStart, nearEnd }) {
    const items = this.#timeline.items();
    if (items.length > 0) byId("no-events").hidden = true;
    if (this.#timeline.isLoaded) {
      if (nearStart) void this.#timeline.earlier();
      if (nearEnd) void this.#timeline.later();
    }
    const atEnd = this.#timeline.isHead && this.#rows.sticks;
    byId("newest").hidden = atEnd || items.length === 0;
    const words = this.#timeline.newer > 0 ? `Newest ↓ (${this.#timeline.newer})` : "Newest ↓";
    if (byId("newest").textContent !== words) byId("newest").textContent = words;
    const top = items[first];
    if (top && top.key !== this.#first) {
      this.#first = top.key;
      byId("jump-now").textContent = top.time ? `Shown: ${clock(top.time)}` : "";
    }
  }

  async #toEnd() {
    if (!this.#timeline.isHead) await this.#timeline.toEnd();
    this.#rows.toEnd();
  }

  async #jump(load) {
    byId("jump").hidden = true;
    await load();
    this.#rows.set(this.#timeline.items());
    this.#rows.toStart();
    byId("log").focus({ preventScroll: true });
  }

  #act(target) {
    const row = target.closest(".row");
    const key = row?.dataset.key;
    const item = key && this.#timeline.items().find((each) => each.key === key);
    if (!item || item.kind === "open") return;
    if (target.closest("[data-act=toggle]")) return this.#toggle(item);
    if (target.closest("[data-act=raw]")) return this.#raw(item);
    if (!target.closest(".line, .mark")) return;
    if (item.kind === "agent" && item.agent) this.#timeline.toggleAgent(item.agent);
    else if (item.kind === "tool" || item.kind === "reasoning") return this.#toggle(item);
    else if (item.event) return this.#raw(item);
    item.version += 1;
    this.#changed();
  }

  #toggle(item) {
    if (!this.#opened.delete(item.key)) this.#opened.add(item.key);
    this.#rows.release();
    item.version += 1;
    this.#changed();
  }

  #raw(item) {
    const events = [item.event, ...(item.also ?? [])].filter(Boolean);
    if (events.length > 0) this.#inspector.show(events, () => this.#rows.focusRow(item.key));
  }

  #filter() {
    const filter = { view: byId("filter-view").value, text: byId("filter-text").value.trim() };
    void this.#timeline.setFilter(filter).then(() => this.#rows.toEnd());
  }

  /** The types that the session has, for the filter. */
  async #types() {
    const group = byId("filter-types");
    try {
      const { by_type: counts } = await this.#session.summary(this.#over.signal);
      const chosen = byId("filter-view").value;
      group.replaceChildren(...counts.map(({ event_type: type, count }) => {
        const option = make("option", "", `${type} (${count})`);
        option.value = `type:${type}`;
        return option;
      }));
      byId("filter-view").value = chosen;
    } catch {
      // The families are there without it.
    }
  }

  #listen() {
    const { signal } = this.#over;
    byId("events").addEventListener("click", (event) => this.#act(event.target), { signal });
    byId("newest").addEventListener("click", () => void this.#toEnd(), { signal });
    byId("filter-view").addEventListener("change", () => this.#filter(), { signal });
    byId("filter-text").addEventListener("input", () => {
      clearTimeout(this.#typed);
      this.#typed = setTimeout(() => this.#filter(), TYPED_MS);
    }, { signal });
    byId("filter-types").replaceChildren();
    byId("filter-families").replaceChildren(...Object.entries(NAMES).map(([family, name]) => {
      const option = make("option", "", name);
      option.value = `family:${family}`;
      return option;
    }));
    byId("filter-view").addEventListener("focus", () => void this.#types(), { signal });
    byId("jump-open").addEventListener("click", () => {
      const jump = byId("jump");
      jump.hidden = !jump.hidden;
      byId("jump-open").ariaExpanded = `${!jump.hidden}`;
      const { from } = this.#timeline.span;
      if (from) byId("jump-time").value = local(from);
    }, { signal });
    byId("jump-start").addEventListener("click", () => void this.#jump(() => this.#timeline.toStart()), { signal });
    byId("jump-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const time = new Date(byId("jump-time").value);
      if (!Number.isNaN(time.getTime())) void this.#jump(() => this.#timeline.toTime(time));
    }, { signal });
  }

  /** Keys of the page that are this session's. @returns {boolean} whether it was one */
  key(name) {
    if (name === "p") return this.#prompts.focus();
    if (name === "m") byId("steer-text").focus();
    else if (name === "G") void this.#toEnd();
    else if (name === "g") void this.#jump(() => this.#timeline.toStart());
    else if (name === "f") byId("filter-text").focus();
    else return false;
    return true;
  }
}

function estimateOf(item) {
  const base = ESTIMATES[item.kind] ?? 28;
  if (item.kind !== "message") return base;
  return 40 + 23 * Math.ceil(Math.min(item.text.length, 1_600) / 90);
}

/** A time as its input wants it. */
function local(time) {
  const shifted = new Date(time.getTime() - time.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
}
