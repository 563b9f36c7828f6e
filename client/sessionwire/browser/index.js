/**
 * sessionwire for browsers: follow a session live, answer its prompts, steer it.
 *
 *     import { Hub, followSession, Texts } from "./index.js";
 *
 *     const hub = new Hub("https://hub.example/", { ticket: () => fetchTicketFromMyServer() });
 *     const texts = new Texts();
 *     const following = followSession(hub, "my-session", {
 *       onEvent: (event) => show(event, texts.add(event)),
 *       onState: ({ name }) => say(name),
 *     });
 *     // later: following.close();
 *
 * No build step and no dependencies; types are JSDoc, checked by `tsc --checkJs --strict`. The
 * contract is docs/protocol.md, the guide docs/browser.md.
 */

import { Feeds, Follower } from "./follow.js";
import { SharedConnection } from "./shared.js";

export { epochOf, isHad, offsetOf, sequenceOf } from "./cursor.js";
export { Texts, closedBy, deltaOf } from "./deltas.js";
export { HubError } from "./errors.js";
export { Hub, Session } from "./hub.js";

/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {import("./types.js").Prompt} Prompt */
/** @typedef {import("./types.js").SessionEvent} SessionEvent */
/** @typedef {import("./types.js").State} State */
/** @typedef {import("./hub.js").Hub} AnyHub */

/**
 * @typedef {object} Choice How to connect.
 * @property {"auto" | "websocket" | "sse"} [transport] auto: a WebSocket, SSE where none can be opened
 * @property {boolean} [share] one connection for all tabs of this origin; default true where it can be
 * @property {number} [pauseHiddenMs] a tab that is hidden for this long lets go of the stream and
 *   resumes exactly when it is looked at; default 60,000, 0 for never
 * @property {AbortSignal} [signal] ends it
 */

/**
 * @typedef {object} Following A stream that is followed.
 * @property {string} cursor the place after the last event that was handed over: keep it to resume
 *   from in another page, as `since`
 * @property {State} state
 * @property {() => void} close
 * @property {() => void} pause
 * @property {() => void} resume
 * @property {(place: import("./types.js").Place) => void} restart
 */

/** @type {WeakMap<AnyHub, Map<string, Feeds>>} */
const feedsOf = new WeakMap();
/** @type {WeakMap<AnyHub, Map<string, SharedConnection>>} */
const sharedOf = new WeakMap();

/**
 * @template T
 * @param {WeakMap<AnyHub, Map<string, T>>} all @param {AnyHub} hub @param {string} name @param {() => T} make
 * @returns {T}
 */
function kept(all, hub, name, make) {
  const known = all.get(hub) ?? new Map();
  all.set(hub, known);
  const found = known.get(name) ?? make();
  known.set(name, found);
  return found;
}

/**
 * @param {AnyHub} hub
 * @param {import("./types.js").StreamRequest} request
 * @param {import("./types.js").Watch} watch
 * @param {Choice} choice
 * @returns {Following}
 */
function follow(hub, request, watch, { transport = "auto", share = true, pauseHiddenMs = 60_000, signal }) {
  const alone = () => new Follower(kept(feedsOf, hub, transport, () => new Feeds(hub, transport)), request, watch);
  /** @type {Following} */
  let following;
  if (share && SharedConnection.possible()) {
    const connection = kept(sharedOf, hub, transport, () => new SharedConnection(hub, transport));
    const shared = connection.follow(request, watch);
    following = shared;
    void connection.works.then((/** @type {boolean} */ works) => {
      if (works || ended) return;
      shared.close();
      following = alone();
    });
  } else following = alone();

  let ended = false;
  const over = new AbortController();
  const close = () => {
    ended = true;
    over.abort();
    following.close();
  };
  if (signal?.aborted) close();
  else signal?.addEventListener("abort", close, { signal: over.signal });
  if (pauseHiddenMs > 0 && typeof document !== "undefined") {
    hideAndSeek(pauseHiddenMs, () => following, over.signal);
  }
  return {
    get cursor() {
      return following.cursor;
    },
    get state() {
      return following.state;
    },
    close,
    pause: () => following.pause(),
    resume: () => following.resume(),
    restart: (place) => following.restart(place),
  };
}

/** @param {number} ms @param {() => Following} following @param {AbortSignal} signal */
function hideAndSeek(ms, following, signal) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => following().pause(), ms);
    else following().resume();
  };
  document.addEventListener("visibilitychange", look, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  if (document.hidden) look();
}

/**
 * @typedef {object} SessionWatch What is told of a session, in order.
 * @property {(event: SessionEvent, cursor: string) => void} [onEvent] every event, once
 * @property {(prompts: Prompt[]) => void} [onPrompts] the open prompts, whenever they change
 * @property {(state: State) => void} [onState] what the connection is doing
 * @property {(gap: {reason: string, after_sequence: number, resumed_sequence: number}) => void} [onGap]
 *   events are missing here
 * @property {(place: {epoch: string, cursor: string}) => void} [onReset] clear what you show: the
 *   hub's history began anew
 * @property {(frame: Frame) => void} [onFrame] every frame as it is, before the others
 */

/**
 * Follows a session until it is closed, refused or deleted. Whatever happens to the connection, each
 * event is handed over once and in order.
 *
 * @param {AnyHub} hub
 * @param {string} sid
 * @param {SessionWatch} watch
 * @param {import("./types.js").Place & import("./types.js").Filters & Choice} [options]
 * @returns {Following}
 */
export function followSession(hub, sid, watch, options = {}) {
  const { since, from, types, exclude, agents, ...choice } = options;
  const place = since ? { since } : from ? { from } : {};
  const filters = Object.fromEntries(
    Object.entries({ types, exclude, agents }).filter(([, value]) => value && value.length > 0),
  );
  return follow(hub, { kind: "session", sid, place, filters }, {
    onFrame: (frame) => tell(watch, frame),
    ...(watch.onState ? { onState: watch.onState } : {}),
  }, choice);
}

/** @param {SessionWatch} watch @param {Frame} frame */
function tell(watch, frame) {
  watch.onFrame?.(frame);
  if (frame.name === "event") watch.onEvent?.(frame.data, frame.cursor);
  else if (frame.name === "prompts") watch.onPrompts?.(frame.data.data);
  else if (frame.name === "gap") watch.onGap?.(frame.data);
  else if (frame.name === "reset") watch.onReset?.(frame.data);
  else if (frame.name === "connected" && frame.data.gap) watch.onGap?.(frame.data.gap);
}

/**
 * Follows the list of sessions.
 *
 * @param {AnyHub} hub
 * @param {{onSnapshot: (sessions: any[]) => void, onUpdated: (session: any) => void,
 *   onDeleted: (id: string) => void, onState?: (state: State) => void}} watch
 * @param {{status?: string, catalog?: string, q?: string} & Choice} [options]
 * @returns {Following}
 */
export function followSessions(hub, watch, options = {}) {
  const { status, catalog, q, ...choice } = options;
  const filters = Object.fromEntries(Object.entries({ status, catalog, q }).filter(([, value]) => value));
  return follow(hub, { kind: "list", filters }, {
    onFrame: ({ name, data }) => {
      if (name === "snapshot") watch.onSnapshot(data.data);
      else if (name === "session.updated") watch.onUpdated(data);
      else if (name === "session.deleted") watch.onDeleted(data.id);
    },
    ...(watch.onState ? { onState: watch.onState } : {}),
  }, choice);
}
