/**
 * Streams over one WebSocket (protocol.md §7): however many sessions are followed, and the list of
 * them, share it. It opens with the first, closes a little after the last, and when it is lost every
 * stream on it ends; each comes back by itself, with its own cursor.
 */

import { Disconnected, HubError, Refused } from "./errors.js";
import { isOffline } from "./wake.js";

/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {import("./types.js").StreamRequest} StreamRequest */
/** @typedef {{frame: Frame} | {error: unknown}} Item */

const PROTOCOL = "sessionwire.v1.jsonrpc";
/** Pings of the protocol are invisible here, so the page asks after this much silence. */
const QUIET_MS = 20_000;
const ANSWER_MS = 10_000;
const OFFLINE_ANSWER_MS = 2_000;
const OPEN_MS = 15_000;
const LINGER_MS = 2_000;

/** No WebSocket could be opened at all: SSE may do. */
export class NoSocket extends Error {}

export class Socket {
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {Promise<void> | null} */
  #opening = null;
  #calls = 0;
  /** @type {Map<number, {resolve: (result: any) => void, reject: (error: unknown) => void}>} */
  #waiting = new Map();
  /** @type {Map<string, Stream>} by session id; "" is the list */
  #streams = new Map();
  /** Ends of streams, so that a session is not asked for before it was left. @type {Map<string, Promise<void>>} */
  #leaving = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #linger;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #quiet;
  /** @type {unknown} */
  #ending = null;
  /** Whether one was ever open. */
  worked = false;

  /** @param {import("./hub.js").Hub} hub */
  constructor(hub) {
    this.hub = hub;
  }

  /** @returns {import("./types.js").Feed} */
  feed() {
    const socket = this;
    return async function* (request, attempt) {
      const key = request.kind === "list" ? "" : request.sid;
      const stream = new Stream(attempt.heard);
      const stop = () => stream.end(null);
      attempt.signal.addEventListener("abort", stop);
      try {
        await socket.#opened();
        await socket.#leaving.get(key);
        if (attempt.signal.aborted) return;
        attempt.onCheck(() => socket.#ask());
        socket.#streams.set(key, stream);
        const result = await socket.#subscribe(request);
        if (result) yield* opening(result);
        else yield { name: "connected", data: { status: "connected" }, cursor: "" };
        yield* stream.frames();
      } finally {
        attempt.signal.removeEventListener("abort", stop);
        socket.#leave(key, stream);
      }
    };
  }

  async #opened() {
    clearTimeout(this.#linger);
    this.#opening ??= this.#open().catch((error) => {
      this.#opening = null;
      throw error;
    });
    await this.#opening;
  }

  async #open() {
    const url = this.hub.address("v1/ws");
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const token = await this.hub.credential();
    const socket = new WebSocket(url, [PROTOCOL]);
    this.#socket = socket;
    this.#ending = null;
    await new Promise((resolve, reject) => {
      const late = setTimeout(() => socket.close(), OPEN_MS);
      socket.onopen = () => {
        clearTimeout(late);
        resolve(undefined);
      };
      socket.onclose = () => {
        clearTimeout(late);
        reject(this.worked ? new Error("no connection") : new NoSocket("no WebSocket"));
      };
    });
    socket.onmessage = ({ data }) => this.#take(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.#lost(socket, code, reason);
    this.#listen();
    if (token) await this.call("authenticate", { token });
    this.worked = true;
  }

  /** @param {string} method @param {object} [params] @returns {Promise<any>} */
  call(method, params = {}) {
    return new Promise((resolve, reject) => {
      if (this.#socket?.readyState !== WebSocket.OPEN) {
        reject(new Error("no connection"));
        return;
      }
      const id = (this.#calls += 1);
      this.#waiting.set(id, { resolve, reject });
      this.#socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  /** @param {StreamRequest} request */
  async #subscribe(request) {
    try {
      if (request.kind === "list") {
        await this.call("sessions.subscribe", request.filters);
        return null;
      }
      const { since, from } = request.place;
      return await this.call("session.subscribe", {
        session_id: request.sid,
        ...(since ? { since_id: since } : {}),
        ...(from && !since ? { from } : {}),
        ...request.filters,
      });
    } catch (error) {
      if (error instanceof HubError && error.code === "session_deleted") {
        throw new Refused("ended", error.message, error.code);
      }
      if (error instanceof HubError && Refused.fits(error.status, error.code, this.hub.renewable)) {
        throw new Refused("refused", error.message, error.code);
      }
      throw error;
    }
  }

  /** @param {string} key @param {Stream} stream */
  #leave(key, stream) {
    if (this.#streams.get(key) !== stream) return;
    this.#streams.delete(key);
    if (this.#socket?.readyState === WebSocket.OPEN) {
      const left = key === ""
        ? this.call("sessions.unsubscribe")
        : this.call("session.unsubscribe", { session_id: key });
      const done = left.then(() => {}, () => {}).finally(() => this.#leaving.delete(key));
      this.#leaving.set(key, done);
    }
    if (this.#streams.size > 0) return;
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => this.#streams.size > 0 || this.#socket?.close(1000), LINGER_MS);
  }

  /** @param {any} message */
  #take(message) {
    this.#listen();
    if (message.id !== undefined && message.id !== null) {
      const call = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (!message.error) call?.resolve(message.result);
      else {
        const { data, message: text } = message.error;
        call?.reject(new HubError(data?.status ?? 500, data?.code ?? "", text, data));
      }
      return;
    }
    const params = message.params ?? {};
    if (message.method === "disconnecting") this.#disconnecting(params);
    else if (message.method?.startsWith("sessions.")) {
      const name = message.method === "sessions.snapshot" ? "snapshot" : `session.${message.method.slice(9)}`;
      this.#streams.get("")?.put({ name, data: params, cursor: "" });
    } else if (message.method === "session.event") {
      const { session_id: sid, cursor, event } = params;
      this.#streams.get(sid)?.put({ name: "event", data: event, cursor });
    } else if (message.method?.startsWith("session.")) {
      const frame = { name: message.method.slice(8), data: params, cursor: params.cursor ?? "" };
      this.#streams.get(params.session_id)?.put(frame);
    }
  }

  /** @param {{session_id?: string, reason: string, retry_ms?: number}} told */
  #disconnecting({ session_id: sid, reason, retry_ms: retryMs }) {
    const error = reason === "deleted"
      ? new Refused("ended", "deleted", "session_deleted")
      : new Disconnected(reason, retryMs ?? 1_000);
    if (sid === undefined) this.#ending = error;
    else this.#streams.get(sid)?.end(error);
  }

  /** @param {WebSocket} socket @param {number} code @param {string} reason */
  #lost(socket, code, reason) {
    if (socket !== this.#socket) return;
    clearTimeout(this.#quiet);
    clearTimeout(this.#linger);
    this.#socket = null;
    this.#opening = null;
    let error = this.#ending ?? new Error(reason || "connection lost");
    // Told by number too: what precedes a close may have been lost with it.
    if (code >= 4500 && code < 5000 && !(this.hub.renewable && (code === 4500 || code === 4503))) {
      error = code === 4504
        ? new Refused("ended", "deleted", "session_deleted")
        : new Refused("refused", reason || "the hub closed the connection", `${code}`);
    }
    for (const call of this.#waiting.values()) call.reject(error);
    this.#waiting.clear();
    for (const stream of this.#streams.values()) stream.end(error);
    this.#streams.clear();
    this.#leaving.clear();
  }

  #listen() {
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => this.#ask(), QUIET_MS);
    for (const stream of this.#streams.values()) stream.heard();
  }

  /** Asks whether the hub is there; a connection that does not answer is over. */
  #ask() {
    const socket = this.#socket;
    if (socket?.readyState !== WebSocket.OPEN) return;
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => {
      // A dead connection's close handshake takes long: it is given up now.
      if (socket === this.#socket) this.#lost(socket, 1006, "no answer");
      socket.close();
    }, isOffline() ? OFFLINE_ANSWER_MS : ANSWER_MS);
    this.call("ping").catch(() => {});
  }
}

/** What a subscription's result says, as the frames that SSE has for it. @param {any} result */
function* opening(result) {
  const { prompts, last, session, ...place } = result;
  const data = { status: "connected", session_id: session?.id, pending_prompts: prompts?.length ?? 0, ...place };
  yield { name: "connected", data, cursor: place.cursor };
  if (session) yield { name: "session", data: session, cursor: "" };
  if (prompts) yield { name: "prompts", data: { data: prompts }, cursor: "" };
  if (last?.length) yield { name: "snapshot", data: { events: last }, cursor: "" };
}

/** Frames of one stream that wait to be taken. */
class Stream {
  /** @type {Item[]} */
  #items = [];
  /** @type {(() => void) | null} */
  #wake = null;

  /** @param {() => void} heard */
  constructor(heard) {
    this.heard = heard;
  }

  /** @param {Frame} frame */
  put(frame) {
    this.#items.push({ frame });
    this.#wake?.();
  }

  /** @param {unknown} error null: it was left */
  end(error) {
    this.#items.push({ error });
    this.#wake?.();
  }

  async *frames() {
    for (;;) {
      for (const item of this.#items.splice(0)) {
        if ("frame" in item) yield item.frame;
        else if (item.error === null) return;
        else throw item.error;
      }
      if (this.#items.length === 0) await new Promise((resolve) => (this.#wake = () => resolve(undefined)));
    }
  }
}
