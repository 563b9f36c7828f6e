/**
 * A hub, seen from a page: where it is, how to speak to it, and all that is asked and answered over
 * HTTP (protocol.md §4, §8, §9). Streams are `follow.js`'s.
 */

import { HubError } from "./errors.js";

/** @typedef {import("./types.js").Prompt} Prompt */
/** @typedef {import("./types.js").Receipt} Receipt */
/** @typedef {import("./types.js").SessionEvent} SessionEvent */

/**
 * @typedef {object} HubOptions
 * @property {string} [token] a key; for programs, a page that carries one shows it to its visitor
 * @property {() => Promise<string>} [ticket] fetches a ticket from a server of your own, each time
 *   that a connection is opened
 */

/** Without token and ticket: the sign-in cookie of this origin. */
export class Hub {
  /**
   * @param {string | URL} [url] the hub's root; the page's own folder where it is left out
   * @param {HubOptions} [options]
   */
  constructor(url = globalThis.document?.baseURI ?? globalThis.location?.href, options = {}) {
    /** Ends with a slash. */
    this.url = new URL(".", new URL(url, globalThis.location?.href)).href;
    this.options = options;
  }

  /** Whether the next connection may have other credentials than the last one. */
  get renewable() {
    return this.options.ticket !== undefined;
  }

  /**
   * What a WebSocket says to sign in: a key or a ticket; "" where the cookie does it.
   *
   * @returns {Promise<string>}
   */
  async credential() {
    return this.options.token ?? (await this.options.ticket?.()) ?? "";
  }

  /** @param {string} path below the root, such as `v1/sessions` @param {Record<string, any>} [query] */
  address(path, query = {}) {
    const url = new URL(path, this.url);
    for (const [name, value] of Object.entries(query)) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== undefined && each !== null && each !== "") url.searchParams.append(name, `${each}`);
      }
    }
    return url;
  }

  /**
   * Sends a request with the hub's credentials.
   *
   * @param {string} path
   * @param {{method?: string, query?: Record<string, any>, body?: unknown, headers?: Record<string, string>,
   *   signal?: AbortSignal, stream?: boolean}} [request] `stream`: a ticket does
   * @returns {Promise<Response>} a success
   * @throws {HubError}
   */
  async fetch(path, { method = "GET", query = {}, body, headers = {}, signal, stream } = {}) {
    const url = this.address(path, query);
    const sent = new Headers(headers);
    if (this.options.token) sent.set("Authorization", `Bearer ${this.options.token}`);
    else if (this.options.ticket && stream) url.searchParams.set("ticket", await this.options.ticket());
    if (body !== undefined) sent.set("Content-Type", "application/json");
    const response = await fetch(url, {
      method,
      headers: sent,
      cache: "no-store",
      credentials: "same-origin",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
    if (!response.ok) throw await HubError.of(response);
    return response;
  }

  /** @param {string} path @param {Parameters<Hub["fetch"]>[1]} [request] @returns {Promise<any>} */
  async json(path, request) {
    return (await this.fetch(path, request)).json();
  }

  /** Trades a key for the cookie of this origin. @param {string} key */
  async signIn(key) {
    await this.fetch("v1/sign-in", { method: "POST", headers: { Authorization: `Bearer ${key}` } });
  }

  async signOut() {
    await this.fetch("v1/sign-in", { method: "DELETE" });
  }

  /** @param {string} sid */
  session(sid) {
    return new Session(this, sid);
  }
}

/** One session's requests. */
export class Session {
  /** @param {Hub} hub @param {string} sid */
  constructor(hub, sid) {
    this.hub = hub;
    this.sid = sid;
    this.path = `v1/sessions/${encodeURIComponent(sid)}`;
  }

  /** The session as it is now. @param {AbortSignal} [signal] @returns {Promise<any>} */
  show(signal) {
    return this.hub.json(this.path, signal ? { signal } : {});
  }

  /**
   * Durable events (protocol.md §5).
   *
   * @param {Record<string, any>} query
   * @param {AbortSignal} [signal]
   * @returns {Promise<{data: SessionEvent[], first_sequence: number | null, last_sequence: number | null,
   *   cursor: string, gap?: any}>}
   */
  events(query, signal) {
    return this.hub.json(`${this.path}/events`, { query, ...(signal ? { signal } : {}) });
  }

  /** Counts by type. @param {AbortSignal} [signal] @returns {Promise<any>} */
  summary(signal) {
    return this.hub.json(`${this.path}/events/summary`, signal ? { signal } : {});
  }

  /** Publishes events; make ids of your own to be able to try again. @param {object | object[]} events */
  publish(events) {
    return this.hub.json(`${this.path}/events`, { method: "POST", body: events });
  }

  /**
   * The open prompts, or those of other states. @param {string[]} [status]
   * @returns {Promise<Prompt[]>} the first 200
   */
  async prompts(status = []) {
    const found = await this.hub.json(`${this.path}/prompts`, { query: { status, limit: 200 } });
    return found.data;
  }

  /** @param {string} rid @returns {string} */
  #prompt(rid) {
    return `${this.path}/prompts/${encodeURIComponent(rid)}`;
  }

  /** @param {string} rid @returns {Promise<Prompt>} */
  prompt(rid) {
    return this.hub.json(this.#prompt(rid));
  }

  /**
   * Answers a prompt; the first answer wins.
   *
   * @param {string} rid
   * @param {unknown} answer of the shape that its kind wants (protocol.md §8.1)
   * @param {{comment?: string, claimId?: string, key?: string}} [how] `key`: the same one again is
   *   the same answer, so a retry is safe
   * @returns {Promise<Prompt>}
   * @throws {HubError} 409 `prompt_already_answered` with who won in `body`; 410; 422 with `faults`
   */
  answer(rid, answer, { comment, claimId, key = crypto.randomUUID() } = {}) {
    return this.hub.json(`${this.#prompt(rid)}/answer`, {
      method: "POST",
      headers: { "Idempotency-Key": key },
      body: { answer, ...(comment ? { comment } : {}), ...(claimId ? { claim_id: claimId } : {}) },
    });
  }

  /** @param {string} rid @param {{leaseS?: number, claimId?: string}} [how] */
  claim(rid, { leaseS, claimId } = {}) {
    return this.hub.json(`${this.#prompt(rid)}/claim`, {
      method: "POST",
      body: { ...(leaseS ? { lease_s: leaseS } : {}), ...(claimId ? { claim_id: claimId } : {}) },
    });
  }

  /** @param {string} rid @param {string} claimId */
  async release(rid, claimId) {
    await this.hub.fetch(`${this.#prompt(rid)}/claim`, { method: "DELETE", query: { claim_id: claimId } });
  }

  /**
   * Sends a command to the session's host.
   *
   * @param {string} type @param {object} [data] @param {string} [id] the same id again is the same command
   * @returns {Promise<Receipt>}
   */
  command(type, data = {}, id = crypto.randomUUID()) {
    return this.hub.json(`${this.path}/commands`, { method: "POST", body: { id, type, data } });
  }

  /** @param {string} text @param {{now?: boolean}} [how] now: into the running turn, not after it */
  send(text, { now = false } = {}) {
    return this.command("message.send", { prompt: text, mode: now ? "immediate" : "enqueue" });
  }

  /** @param {string} [reason] */
  abort(reason) {
    return this.command("abort", reason ? { reason } : {});
  }

  /** @param {string} mode */
  setMode(mode) {
    return this.command("mode.set", { mode });
  }

  /** @param {string} cid @param {{waitS?: number, signal?: AbortSignal}} [how] @returns {Promise<Receipt>} */
  receipt(cid, { waitS, signal } = {}) {
    return this.hub.json(`${this.path}/commands/${encodeURIComponent(cid)}`, {
      query: { wait_s: waitS },
      ...(signal ? { signal } : {}),
    });
  }

  /**
   * Tells each change of a command until the host is done with it.
   *
   * @param {Receipt} first what the sending gave
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<Receipt, void, void>}
   */
  async *receipts(first, signal) {
    let now = first;
    yield now;
    while (!signal?.aborted && (now.status === "accepted" || now.status === "delivered")) {
      const next = await this.receipt(first.id, { waitS: 20, ...(signal ? { signal } : {}) });
      if (next.status !== now.status) yield next;
      now = next;
    }
  }
}
