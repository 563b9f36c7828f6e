/**
 * One connection for all tabs of an origin: a shared worker holds it, and each tab is told what it
 * has not had. Where there are no shared workers, or the page is of another origin than this file,
 * a tab has a connection of its own.
 */

import { isHad } from "./cursor.js";

/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").StreamRequest} StreamRequest */
/** @typedef {import("./types.js").Watch} Watch */

/** The worker of a hub, as one tab speaks to it. */
export class SharedConnection {
  #streams = 0;
  /** @type {Map<number, SharedFollower>} */
  #followers = new Map();

  /** @param {import("./hub.js").Hub} hub @param {"auto" | "websocket" | "sse"} transport */
  constructor(hub, transport) {
    const script = new URL("./shared_worker.js", import.meta.url);
    this.worker = new SharedWorker(script, { type: "module", name: `sessionwire ${hub.url} ${transport}` });
    this.port = this.worker.port;
    /** Set once the worker has spoken, or failed to start. @type {Promise<boolean>} */
    this.works = new Promise((resolve) => {
      this.worker.onerror = () => resolve(false);
      this.port.onmessage = ({ data }) => {
        if (data.hello) resolve(true);
        else if (data.ticket) void this.#ticket(hub, data.ticket);
        else this.#followers.get(data.n)?.take(data);
      };
    });
    this.port.postMessage({ hub: hub.url, transport, token: hub.options.token, renewable: hub.renewable });
    // The worker cannot see a tab go: it waits for the tab's lock, which goes with it.
    const lock = `sessionwire tab ${crypto.randomUUID()}`;
    void navigator.locks.request(lock, () => {
      this.port.postMessage({ lock });
      return new Promise(() => {});
    });
    globalThis.addEventListener("pageshow", ({ persisted }) => {
      if (persisted) for (const follower of this.#followers.values()) follower.again();
    });
  }

  /** @param {import("./hub.js").Hub} hub @param {number} n */
  async #ticket(hub, n) {
    try {
      this.port.postMessage({ ticket: n, value: await hub.credential() });
    } catch {
      this.port.postMessage({ ticket: n, value: "" });
    }
  }

  /** @param {StreamRequest} request @param {Watch} watch */
  follow(request, watch) {
    const n = (this.#streams += 1);
    const follower = new SharedFollower(this.port, n, request, watch, () => this.#followers.delete(n));
    this.#followers.set(n, follower);
    return follower;
  }

  static possible() {
    return typeof SharedWorker === "function" && !!globalThis.navigator?.locks
      && new URL(import.meta.url).origin === globalThis.location?.origin;
  }
}

/** A stream that the worker follows for this tab, with the face of a `Follower`. */
class SharedFollower {
  #port;
  #n;
  #request;
  #watch;
  #gone;
  /** @type {Place} */
  #place;
  #closed = false;
  /** Counts what was asked for: the worker's answers to an earlier asking are dropped. */
  #era = 0;
  /** @type {State} */
  state = { name: "connecting" };

  /**
   * @param {MessagePort} port @param {number} n @param {StreamRequest} request @param {Watch} watch
   * @param {() => void} gone
   */
  constructor(port, n, request, watch, gone) {
    this.#port = port;
    this.#n = n;
    this.#request = request;
    this.#watch = watch;
    this.#gone = gone;
    this.#place = request.kind === "session" ? request.place : {};
    this.#tell(this.state);
    this.again();
  }

  get cursor() {
    return this.#place.since ?? "";
  }

  /** Asks from where it is. */
  again() {
    if (this.#closed || this.state.name === "paused") return;
    this.#era += 1;
    const request = this.#request.kind === "list" ? this.#request : { ...this.#request, place: this.#place };
    this.#port.postMessage({ n: this.#n, era: this.#era, open: request });
  }

  /** @param {{era: number, frame?: Frame, state?: State}} told */
  take({ era, frame, state }) {
    if (this.#closed || era !== this.#era) return;
    if (state) this.#tell(state);
    if (!frame) return;
    // Whoever joins makes the worker go back to where they begin: that is nothing new here.
    if (frame.name === "event" && isHad(frame.cursor, this.cursor)) return;
    this.#watch.onFrame(frame);
    if (frame.cursor && !isHad(frame.cursor, this.cursor)) this.#place = { since: frame.cursor };
  }

  /** @param {State} state */
  #tell(state) {
    this.state = state;
    this.#watch.onState?.(state);
  }

  #leave() {
    this.#era += 1;
    this.#port.postMessage({ n: this.#n, close: true });
  }

  pause() {
    if (this.#closed || this.state.name === "paused") return;
    this.#leave();
    this.#tell({ name: "paused" });
  }

  resume() {
    if (this.state.name !== "paused") return;
    this.#tell({ name: "connecting" });
    this.again();
  }

  /** @param {Place} place */
  restart(place) {
    this.#place = place;
    this.#leave();
    this.again();
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#leave();
    this.#gone();
  }
}
