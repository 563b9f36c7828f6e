/**
 * Streams over server-sent events, by `fetch` (protocol.md §6): a native EventSource hides
 * heartbeats and status codes, and gives up for good on most of them.
 */

import { Decoder } from "./decoder.js";
import { Disconnected, HubError, Refused } from "./errors.js";
import { isOffline } from "./wake.js";

/** Three heartbeats: one may be lost, two may be late. */
export const SILENCE_MS = 45_000;
/** After a wake: a hub that is there beats within this. */
const CHECK_MS = 18_000;

/** @typedef {import("./types.js").Frame} Frame */

const OWN = new Set([
  "connected", "caught_up", "prompts", "presence", "snapshot", "gap", "reset", "cursor", "disconnecting",
  "session.updated", "session.deleted",
]);

/** @param {import("./hub.js").Hub} hub @returns {import("./types.js").Feed} */
export function sseFeed(hub) {
  return async function* (request, attempt) {
    const own = new AbortController();
    const stop = () => own.abort();
    attempt.signal.addEventListener("abort", stop);
    let watchdog = setTimeout(stop, SILENCE_MS);
    let heardAt = Date.now();
    attempt.onCheck(() => {
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, isOffline() ? 0 : Math.max(0, heardAt + CHECK_MS - Date.now()));
    });
    try {
      const response = await open(hub, request, own.signal);
      if (!response.body) throw new Error("no body");
      const decoder = new Decoder();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(stop, SILENCE_MS);
        heardAt = Date.now();
        attempt.heard();
        for (const message of decoder.feed(value)) yield frameOf(message, request.kind);
      }
    } finally {
      clearTimeout(watchdog);
      attempt.signal.removeEventListener("abort", stop);
      own.abort();
    }
  };
}

/**
 * @param {import("./hub.js").Hub} hub
 * @param {import("./types.js").StreamRequest} request
 * @param {AbortSignal} signal
 */
async function open(hub, request, signal) {
  const path = request.kind === "list"
    ? "v1/sessions/sse"
    : `v1/sessions/${encodeURIComponent(request.sid)}/sse`;
  const place = request.kind === "list"
    ? {}
    : { control: 1, names: 0, since_id: request.place.since, from: request.place.from };
  let response;
  try {
    response = await hub.fetch(path, {
      query: { ...place, ...request.filters },
      headers: { Accept: "text/event-stream" },
      signal,
      stream: true,
    });
  } catch (error) {
    if (error instanceof HubError && Refused.fits(error.status, error.code, hub.renewable)) {
      throw new Refused("refused", error.message, error.code);
    }
    throw error;
  }
  if (response.status === 204) throw new Refused("ended", "deleted", "session_deleted");
  return response;
}

/**
 * @param {import("./decoder.js").Message} message
 * @param {"session" | "list"} kind
 * @returns {Frame}
 */
function frameOf(message, kind) {
  const data = JSON.parse(message.data);
  if (message.name === "disconnecting") {
    if (data.reason === "deleted") throw new Refused("ended", "deleted", "session_deleted");
    throw new Disconnected(data.reason, data.retry_ms ?? 1_000);
  }
  const name = kind === "session" && !OWN.has(message.name) ? "event" : message.name;
  return { name, data, cursor: kind === "session" ? message.id : "" };
}
