/**
 * Follows an event stream of the hub with `fetch`, and tells honestly how that goes.
 *
 * A native EventSource hides heartbeats, status codes and the time it will try again; here all three
 * are seen: silence for longer than three heartbeats is a lost connection, a refusal ends it, and
 * whoever watches is told since when nothing was heard. Resumes with `Last-Event-ID`.
 */

const SILENCE_MS = 45_000;
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 30_000;

/** @typedef {{name: string, id: string, data: string}} Frame */

/** Decodes the text of a stream, cut anywhere, into frames. WHATWG HTML §9.2.6. */
export class Decoder {
  #rest = "";
  #name = "";
  #data = [];
  #id = "";
  retryMs = 0;

  /** @param {string} text @returns {Frame[]} */
  feed(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    const frames = [];
    for (const line of lines) {
      const bare = line.endsWith("\r") ? line.slice(0, -1) : line;
      if (bare !== "") this.#field(bare);
      else if (this.#data.length > 0) {
        frames.push({ name: this.#name || "message", id: this.#id, data: this.#data.join("\n") });
        this.#name = "";
        this.#data = [];
      } else this.#name = "";
    }
    return frames;
  }

  #field(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#name = value;
    else if (field === "id") this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
  }
}

/**
 * Follows `path` until `signal` aborts or the hub refuses.
 *
 * @param {string} path relative to the page
 * @param {object} watch
 * @param {string} watch.liveOn name of the frame that says all that was missed is here
 * @param {(frame: Frame) => void} watch.onFrame
 * @param {(state: {name: string, since?: Date, retryAt?: Date, detail?: string}) => void} watch.onState
 *   names: connecting, catching-up, live, offline (since, retryAt), refused (detail), ended
 * @param {AbortSignal} signal
 */
export async function follow(path, { liveOn, onFrame, onState }, signal) {
  let lastId = "";
  let failures = 0;
  let heard = new Date();
  onState({ name: "connecting" });
  while (!signal.aborted) {
    let waitMs = 0;
    try {
      for await (const frame of frames(path, lastId, signal, () => (heard = new Date()))) {
        if (frame.id) lastId = frame.id;
        if (frame.name === "connected") {
          failures = 0;
          onState({ name: "catching-up" });
        }
        if (frame.name === "disconnecting") {
          const told = JSON.parse(frame.data);
          if (told.reason === "deleted") return onState({ name: "ended" });
          waitMs = told.retry_ms;
          continue;
        }
        onFrame(frame);
        if (frame.name === liveOn) onState({ name: "live" });
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused) return onState({ name: error.final, detail: error.message });
    }
    if (signal.aborted) return;
    if (waitMs === 0) {
      waitMs = Math.min(FIRST_RETRY_MS * 2 ** failures, LAST_RETRY_MS) * (0.75 + Math.random() / 2);
      failures += 1;
    }
    onState({ name: "offline", since: heard, retryAt: new Date(Date.now() + waitMs) });
    await pause(waitMs, signal);
  }
}

class Refused extends Error {
  constructor(final, message) {
    super(message);
    this.final = final;
  }
}

async function* frames(path, lastId, signal, onBytes) {
  const attempt = new AbortController();
  const stop = () => attempt.abort();
  signal.addEventListener("abort", stop);
  let watchdog = setTimeout(stop, SILENCE_MS);
  try {
    const headers = { Accept: "text/event-stream" };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const response = await fetch(path, { headers, cache: "no-store", signal: attempt.signal });
    if (response.status === 204) throw new Refused("ended", "");
    if ([400, 401, 403, 404].includes(response.status)) {
      throw new Refused("refused", await problemOf(response));
    }
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    const decoder = new Decoder();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, SILENCE_MS);
      onBytes();
      yield* decoder.feed(value);
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
    attempt.abort();
  }
}

/** The sentence of an error body, or its status where it has none. */
export async function problemOf(response) {
  try {
    const body = await response.json();
    return body.detail || body.title || `HTTP ${response.status}`;
  } catch {
    return `HTTP ${response.status}`;
  }
}

/** Waits, but not past the moment when the machine says that it is online again. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
