/** Knows when the machine or the tab comes back: from sleep, from the page cache, online. */

const BEAT_MS = 5_000;
/** A timer that is this late was not late by itself: the machine slept. */
const LATE_MS = 15_000;

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
  globalThis.addEventListener?.("online", back, { signal });
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
