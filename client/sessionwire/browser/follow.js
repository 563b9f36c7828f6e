/**
 * Follows one stream for as long as it is wanted: reconnects, resumes exactly, and says honestly
 * what the connection is doing.
 *
 * The cursor moves after an event was handed over, so whatever ends a connection, the next one begins
 * at the event that was not. `connected` resets the backoff, a planned close costs nothing of it.
 */

import { waitMs } from "./backoff.js";
import { Disconnected, Refused } from "./errors.js";
import { onWake, pause } from "./wake.js";
import { NoSocket, Socket } from "./ws_feed.js";
import { sseFeed } from "./sse_feed.js";

/** @typedef {import("./types.js").Feed} Feed */
/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").StreamRequest} StreamRequest */
/** @typedef {import("./types.js").Watch} Watch */

/** A WebSocket that could not be opened is tried again after this; until then it is SSE. */
const SSE_FOR_MS = 300_000;

/** The connections of one page, or of one worker, to one hub. */
export class Feeds {
  /** @param {import("./hub.js").Hub} hub @param {"auto" | "websocket" | "sse"} [transport] */
  constructor(hub, transport = "auto") {
    this.hub = hub;
    this.transport = transport;
    this.socket = new Socket(hub);
    this.sseUntil = 0;
  }

  /** @returns {{feed: Feed, isSocket: boolean}} */
  choose() {
    const isSocket =
      this.transport === "websocket" || (this.transport === "auto" && Date.now() >= this.sseUntil);
    return { feed: isSocket ? this.socket.feed() : sseFeed(this.hub), isSocket };
  }

  /** After a failure. @param {unknown} error @returns {boolean} whether another way can be tried at once */
  fallBack(error) {
    if (this.transport !== "auto" || !(error instanceof NoSocket)) return false;
    this.sseUntil = Date.now() + SSE_FOR_MS;
    return true;
  }
}

export class Follower {
  #feeds;
  #request;
  #watch;
  #place;
  #over = new AbortController();
  /** @type {AbortController | null} The connection that is open, or the wait for the next. */
  #attempt = null;
  #check = () => {};
  #heard = new Date();
  #failures = 0;
  #paused = false;
  /** @type {(() => void) | null} */
  #resume = null;
  /** Counts restarts: what an earlier one still brings is dropped. */
  #era = 0;
  /** @type {State} */
  state = { name: "connecting" };

  /**
   * @param {Feeds} feeds
   * @param {StreamRequest} request
   * @param {Watch} watch
   */
  constructor(feeds, request, watch) {
    this.#feeds = feeds;
    this.#request = request;
    this.#watch = watch;
    /** @type {Place} */
    this.#place = request.kind === "session" ? request.place : {};
    onWake(() => this.#woken(), this.#over.signal);
    void this.#run();
  }

  /** The place after the last event that was handed over; "" before the first connection. */
  get cursor() {
    return this.#place.since ?? "";
  }

  close() {
    this.#over.abort();
    this.#attempt?.abort();
    this.#resume?.();
  }

  /** Lets go of the connection and keeps the place. */
  pause() {
    if (this.#paused || this.#over.signal.aborted) return;
    this.#paused = true;
    this.#attempt?.abort();
  }

  resume() {
    this.#paused = false;
    this.#resume?.();
  }

  /** Goes on from another place. @param {Place} place */
  restart(place) {
    this.#era += 1;
    this.#place = place;
    this.#failures = 0;
    this.#attempt?.abort();
  }

  #woken() {
    if (this.state.name === "offline") this.#attempt?.abort();
    else this.#check();
  }

  /** @param {State} state */
  #tell(state) {
    this.state = state;
    if (!this.#over.signal.aborted) this.#watch.onState?.(state);
  }

  async #run() {
    this.#tell({ name: "connecting" });
    while (!this.#over.signal.aborted) {
      if (this.#paused) {
        this.#tell({ name: "paused" });
        await new Promise((resolve) => (this.#resume = () => resolve(undefined)));
        this.#resume = null;
        continue;
      }
      const attempt = (this.#attempt = new AbortController());
      const era = this.#era;
      const error = await this.#connection(attempt.signal, era);
      if (this.#over.signal.aborted) return;
      if (error instanceof Refused) {
        this.#tell({ name: error.final, detail: error.message, code: error.code });
        this.close();
        return;
      }
      if (this.#paused || era !== this.#era || this.#feeds.fallBack(error)) continue;
      await this.#wait(error);
    }
  }

  /** @param {unknown} error */
  async #wait(error) {
    let ms = 0;
    if (error instanceof Disconnected) ms = error.retryMs;
    else {
      ms = waitMs(this.#failures);
      this.#failures += 1;
    }
    const waiting = (this.#attempt = new AbortController());
    this.#tell({ name: "offline", since: this.#heard, retryAt: new Date(Date.now() + ms) });
    await pause(ms, waiting.signal);
  }

  /** One connection until its end, and why. @param {AbortSignal} signal @param {number} era @returns {Promise<unknown>} */
  async #connection(signal, era) {
    const { feed } = this.#feeds.choose();
    const request = this.#request.kind === "list" ? this.#request : { ...this.#request, place: this.#place };
    const heard = () => {
      this.#heard = new Date();
    };
    try {
      for await (const frame of feed(request, { signal, heard, onCheck: (check) => (this.#check = check) })) {
        if (signal.aborted || era !== this.#era) return null;
        heard();
        this.#frame(frame);
      }
      return null;
    } catch (error) {
      return error;
    } finally {
      this.#check = () => {};
    }
  }

  /** @param {Frame} frame */
  #frame(frame) {
    if (frame.name === "connected") {
      this.#failures = 0;
      this.#tell({ name: "catching-up" });
    }
    try {
      this.#watch.onFrame(frame);
    } catch (error) {
      // The page's own fault: told as any, and the frame comes again with the next connection.
      globalThis.reportError?.(error);
      throw error;
    }
    // After it was handed over, and only now: an error in between gives it again.
    if (frame.cursor) this.#place = { since: frame.cursor };
    if (frame.name === "caught_up" || (this.#request.kind === "list" && frame.name === "snapshot")) {
      this.#tell({ name: "live" });
    }
  }
}
