/**
 * Cursors (protocol.md §2): `<epoch>.<sequence>.<offset>.<check>`. Opaque to an application; this
 * module compares two of them, where several tabs share a connection, and shows numbers to people.
 */

/** @param {string} cursor @returns {string} */
export function epochOf(cursor) {
  return cursor.split(".")[0] ?? "";
}

/** How many durable events are before it. @param {string} cursor @returns {number} */
export function sequenceOf(cursor) {
  return Number(cursor.split(".")[1] ?? 0) || 0;
}

/** How many events of any kind are before it. @param {string} cursor @returns {number} */
export function offsetOf(cursor) {
  return Number(cursor.split(".")[2] ?? 0) || 0;
}

/**
 * Whether what ends at `cursor` is before or at `place`, and so was had by who is there. Unknown
 * where the epochs differ: then it was not.
 *
 * @param {string} cursor
 * @param {string} place
 */
export function isHad(cursor, place) {
  if (!cursor || !place || epochOf(cursor) !== epochOf(place)) return false;
  return offsetOf(cursor) <= offsetOf(place);
}
