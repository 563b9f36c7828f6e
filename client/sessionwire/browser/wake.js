/** Knows when the machine or the tab comes back, from sleep or the page cache, and goes on- or offline. */

const BEAT_MS = 5_000;
/** A timer that is this late was not late by itself: the machine slept. */
const LATE_MS = 15_000;

/** Whether the machine says that it has no network; a hub on this machine is there all the same. */
export function isOffline() {
  return globalThis.navigator?.onLine === false;
}

/**
 * Calls `back` when connections may have died unnoticed. Works in pages and in workers.
 *
 * @param {() => void} back
 * @param {AbortSignal} signal
 */
export function onWake(back, signal) {
  if (signal.aborted) return;
  let last = Date.now();
  const timer = setInterval(() => {
    const now = Date.now();
    if (now - last > BEAT_MS + LATE_MS) back();
    last = now;
  }, BEAT_MS);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  // Offline, too: then a connection is asked at once whether it is still there.
  globalThis.addEventListener?.("online", back, { signal });
  globalThis.addEventListener?.("offline", back, { signal });
  globalThis.addEventListener?.("pageshow", back, { signal });
  if (typeof document === "undefined") return;
  document.addEventListener("visibilitychange", () => document.hidden || back(), { signal });
}

/**
 * Waits, but not past a wake.
 *
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const over = new AbortController();
    const done = () => {
      clearTimeout(timer);
      over.abort();
      resolve();
    };
    const timer = setTimeout(done, ms);
    globalThis.addEventListener?.("online", done, { signal: over.signal });
    if (signal.aborted) done();
    else signal.addEventListener("abort", done, { signal: over.signal });
  });
}
