/**
 * The shared worker: follows each stream once, whoever watches it, and tells every tab.
 *
 * A tab that joins a session which is followed already begins elsewhere, so the stream goes back to
 * the earlier of the two places; each tab drops what it has had (`shared.js`). Nothing is kept here
 * but places: what a tab missed comes from the hub.
 */

import { Feeds, Follower } from "./follow.js";
import { Hub } from "./hub.js";
import { isHad } from "./cursor.js";

/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").StreamRequest} StreamRequest */
/** @typedef {{port: MessagePort, n: number, era: number}} Member */

/** A ticket that no tab brings in this time is asked of the next. */
const TICKET_MS = 5_000;

/** One stream and the tabs that watch it. */
class Topic {
  /** @type {Set<Member>} */
  members = new Set();
  /** @type {Follower} */
  #follower;
  /** The list as it is, for those who join. @type {Map<string, any>} */
  #list = new Map();
  /** The newest of each, for those who join. @type {Map<string, Frame>} */
  #states = new Map();
  /** Where the stream was before it went back. */
  #reached = "";

  /** @param {Feeds} feeds @param {StreamRequest} request */
  constructor(feeds, request) {
    this.request = request;
    this.#follower = new Follower(feeds, request, {
      onFrame: (frame) => this.#take(frame),
      onState: (state) => this.#say({ state }),
    });
  }

  /** @param {Member} member @param {StreamRequest} request */
  join(member, request) {
    const first = this.members.size === 0;
    this.members.add(member);
    if (first) return;
    post(member, { state: this.#follower.state });
    if (request.kind === "list") {
      if (this.#follower.state.name !== "live") return;
      post(member, { frame: { name: "snapshot", data: { data: [...this.#list.values()] }, cursor: "" } });
      return;
    }
    for (const frame of this.#states.values()) post(member, { frame });
    const at = this.#follower.cursor;
    if (!request.place.since || !isHad(at, request.place.since)) {
      this.#reached = isHad(this.#reached, at) || !this.#reached ? at : this.#reached;
      this.#follower.restart(request.place);
    }
  }

  close() {
    this.#follower.close();
  }

  /** @param {Frame} frame */
  #take(frame) {
    if (this.request.kind === "list") this.#remember(frame);
    else if (frame.name === "prompts" || frame.name === "presence") this.#states.set(frame.name, frame);
    else if (frame.name === "connected" && this.#reached) {
      // One who joined further on than all others are: these begin where they were.
      const reached = this.#reached;
      this.#reached = "";
      if (!isHad(frame.cursor, reached) && frame.data.gap === null) {
        this.#follower.restart({ since: reached });
        return;
      }
    }
    this.#say({ frame });
  }

  /** @param {Frame} frame */
  #remember({ name, data }) {
    if (name === "snapshot") this.#list = new Map(data.data.map((/** @type {any} */ each) => [each.id, each]));
    else if (name === "session.updated") this.#list.set(data.id, data);
    else if (name === "session.deleted") this.#list.delete(data.id);
  }

  /** @param {{frame?: Frame, state?: State}} told */
  #say(told) {
    for (const member of this.members) post(member, told);
  }
}

/** @param {Member} member @param {{frame?: Frame, state?: State}} told */
function post({ port, n, era }, told) {
  port.postMessage({ n, era, ...told });
}

/** @type {Map<string, Topic>} */
const topics = new Map();
/** @type {Set<MessagePort>} */
const ports = new Set();
/** @type {Map<number, (ticket: string) => void>} */
const tickets = new Map();
let asked = 0;
/** @type {Feeds | null} */
let feeds = null;

/** Asks the tabs, one after the other. @returns {Promise<string>} */
async function ticket() {
  for (const port of [...ports].reverse()) {
    const n = (asked += 1);
    const value = await new Promise((resolve) => {
      const late = setTimeout(() => resolve(""), TICKET_MS);
      tickets.set(n, (given) => {
        clearTimeout(late);
        resolve(given);
      });
      port.postMessage({ ticket: n });
    });
    tickets.delete(n);
    if (value) return value;
  }
  throw new Error("no tab has a ticket");
}

/** @param {MessagePort} port @param {number} [n] only this stream of the tab */
function leave(port, n) {
  for (const [key, topic] of topics) {
    for (const member of topic.members) {
      if (member.port === port && (n === undefined || member.n === n)) topic.members.delete(member);
    }
    if (topic.members.size > 0) continue;
    topic.close();
    topics.delete(key);
  }
}

/** @param {MessagePort} port @param {any} told */
function take(port, told) {
  if (told.hub) {
    const given = told.token ? { token: told.token } : told.renewable ? { ticket } : {};
    feeds ??= new Feeds(new Hub(told.hub, given), told.transport);
    ports.add(port);
    port.postMessage({ hello: true });
  } else if (told.lock) {
    void navigator.locks.request(told.lock, () => {
      ports.delete(port);
      leave(port);
    });
  } else if (told.ticket) tickets.get(told.ticket)?.(told.value);
  else if (told.close) leave(port, told.n);
  else if (told.open && feeds) {
    leave(port, told.n);
    const { place: _, ...what } = told.open;
    const key = JSON.stringify(what);
    const topic = topics.get(key) ?? new Topic(feeds, told.open);
    topics.set(key, topic);
    topic.join({ port, n: told.n, era: told.era }, told.open);
  }
}

globalThis.addEventListener("connect", (event) => {
  const [port] = /** @type {MessageEvent} */ (event).ports;
  if (port) port.onmessage = ({ data }) => take(port, data);
});
