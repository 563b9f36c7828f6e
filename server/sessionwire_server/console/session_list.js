/** The list of sessions, live: search, filters, and only the rows in view in the page. */

import { followSessions } from "./console/client/index.js";
import { Badge } from "./badge.js";
import { ago, byId, make, wordFor } from "./elements.js";
import { VirtualRows } from "./virtual_rows.js";

const ROW_PX = 66;
/** The stream brings the newest 200; the rest is paged in, up to this. */
const MOST = 10_000;
const PAGE = 200;

export class SessionList {
  #hub;
  #tell;
  #sessions = new Map();
  #rows;
  #badge = new Badge(byId("list-state"), { brief: true });
  #following;
  #over = new AbortController();
  #sorted = null;
  #shown = "";
  #filling = new AbortController();

  /**
   * @param {import("../../../client/sessionwire/browser/hub.js").Hub} hub
   * @param {{refused: (detail: string) => void, changed: (session: any, before: any) => void}} tell
   */
  constructor(hub, tell) {
    this.#hub = hub;
    this.#tell = tell;
    const { signal } = this.#over;
    this.#rows = new VirtualRows(byId("session-scroll"), byId("session-list"), {
      make: (item) => this.#row(item),
      estimate: () => ROW_PX,
    });
    for (const field of ["find", "find-status", "find-catalog"]) {
      byId(field).addEventListener("input", () => this.draw(), { signal });
    }
    const timer = setInterval(() => document.hidden || this.#age(), 30_000);
    signal.addEventListener("abort", () => clearInterval(timer));
    this.#following = followSessions(hub, {
      onSnapshot: (sessions) => this.#snapshot(sessions),
      onUpdated: (session) => this.#updated(session),
      onDeleted: (id) => this.#deleted(id),
      onState: (state) => (state.name === "refused" ? tell.refused(state.detail) : this.#badge.show(state)),
    }, { pauseHiddenMs: 0 });
  }

  close() {
    this.#over.abort();
    this.#filling.abort();
    this.#following.close();
    this.#rows.close();
    this.#badge.stop();
  }

  get(id) {
    return this.#sessions.get(id);
  }

  /** How many prompts wait in all. */
  get waiting() {
    let waiting = 0;
    for (const session of this.#sessions.values()) waiting += session.pending_prompts ?? 0;
    return waiting;
  }

  /** A session that waits for somebody, another than the one that is shown. */
  waitingOne(shownId) {
    for (const session of this.#sessions.values()) {
      if (session.pending_prompts > 0 && session.id !== shownId) return session.id;
    }
    return "";
  }

  /** Marks the session that is open. */
  mark(id) {
    const before = this.#shown;
    this.#shown = id;
    for (const each of [before, id]) this.#touch(each);
    this.draw();
  }

  #touch(id) {
    const session = this.#sessions.get(id);
    if (session) session.version += 1;
  }

  #age() {
    for (const session of this.#sessions.values()) session.version += 1;
    this.draw();
  }

  #keep(session) {
    const before = this.#sessions.get(session.id);
    session.key = session.id;
    session.version = (before?.version ?? 0) + 1;
    session.words = `${session.title ?? ""} ${session.id}`.toLowerCase();
    this.#sessions.set(session.id, session);
    this.#sorted = null;
    return before;
  }

  #snapshot(sessions) {
    const before = this.#sessions;
    this.#sessions = new Map();
    this.#sorted = null;
    for (const session of sessions) this.#keep(session);
    this.draw();
    for (const session of sessions) this.#tell.changed(session, before.get(session.id));
    this.#filling.abort();
    this.#filling = new AbortController();
    if (sessions.length >= PAGE) void this.#fill(this.#filling.signal);
  }

  /** Brings what is older than the snapshot. */
  async #fill(signal) {
    let token = "";
    while (!signal.aborted && this.#sessions.size < MOST) {
      let page;
      try {
        page = await this.#hub.json("v1/sessions", { query: { limit: PAGE, page_token: token }, signal });
      } catch {
        return;
      }
      if (signal.aborted) return;
      for (const session of page.data) if (!this.#sessions.has(session.id)) this.#keep(session);
      this.draw();
      token = page.next_page_token ?? "";
      if (!token) return;
    }
  }

  #updated(session) {
    const before = this.#keep(session);
    this.draw();
    this.#tell.changed(session, before);
  }

  #deleted(id) {
    this.#sessions.delete(id);
    this.#sorted = null;
    this.draw();
    this.#tell.changed({ id, deleted: true }, null);
  }

  draw() {
    this.#sorted ??= [...this.#sessions.values()].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
    const words = byId("find").value.trim().toLowerCase();
    const status = byId("find-status").value;
    const catalog = byId("find-catalog").value;
    const kept = this.#sorted.filter((session) =>
      session.words.includes(words)
      && (!status || (status === "waiting" ? session.pending_prompts > 0 || session.status === "waitingfortoolresults" : session.status === status))
      && (!catalog || session.catalog === catalog));
    this.#rows.set(kept);
    const isFiltered = words || status || catalog;
    byId("session-count").textContent = isFiltered ? `${kept.length} of ${this.#sorted.length}` : `${this.#sorted.length}`;
    byId("no-sessions").hidden = kept.length > 0;
    byId("no-sessions").textContent = isFiltered ? "No session matches." : "No sessions yet. One appears with its first event.";
  }

  #row(session) {
    const item = make("div", "entry");
    item.role = "listitem";
    const link = make("a");
    link.href = `#/s/${encodeURIComponent(session.id)}`;
    link.dataset.id = session.id;
    if (session.id === this.#shown) link.setAttribute("aria-current", "page");
    const waits = session.pending_prompts ?? 0;
    const status = make("span", "status", waits > 0 ? `waiting for you: ${waits}` : wordFor(session.status));
    status.dataset.status = waits > 0 ? "waitingfortoolresults" : session.status ?? "";
    const facts = [
      session.catalog,
      ago(session.updated_at),
      session.viewers > 0 ? `${session.viewers} watching` : "",
      session.host?.connected ? "host connected" : "",
    ];
    link.append(make("span", "title", session.title || session.id), status, make("span", "sub", facts.filter(Boolean).join(" · ")));
    item.append(link);
    return item;
  }
}
