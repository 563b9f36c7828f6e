/** How long to wait before the next try: full jitter, so that many tabs do not come at once. */

export const FIRST_MS = 500;
export const LAST_MS = 30_000;

/**
 * @param {number} failures tries since the hub was last heard, from 0
 * @param {() => number} [random] in [0, 1)
 * @returns {number} milliseconds
 */
export function waitMs(failures, random = Math.random) {
  const most = Math.min(FIRST_MS * 2 ** Math.min(failures, 16), LAST_MS);
  // Never at once: a hub that accepts and closes would be asked in a busy loop.
  return FIRST_MS / 5 + random() * (most - FIRST_MS / 5);
}
