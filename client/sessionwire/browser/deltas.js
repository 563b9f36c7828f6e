/**
 * Text so far: the deltas of messages that are still being written, put together (protocol.md §3.5).
 * Both catalogs; what is replaced, and by what, is theirs.
 */

/** @typedef {import("./types.js").SessionEvent} SessionEvent */
/** @typedef {"message" | "thinking" | "tool call" | "tool output" | "caller" | "voice"} Kind */

/**
 * @typedef {object} Delta The part of a message that one event brings.
 * @property {string} key names the message: kind and id
 * @property {Kind} kind
 * @property {string} id
 * @property {string} name the tool's, where the delta says it
 * @property {string} text what is new
 * @property {string} [whole] all of it, where the delta carries that too
 */

/**
 * @typedef {object} OpenText A message that is still being written.
 * @property {string} key
 * @property {Kind} kind
 * @property {string} id
 * @property {string} name
 * @property {string} text
 * @property {string} agentId "" for the root agent
 */

/** @type {Record<string, (data: any) => Delta>} */
const DELTAS = {
  "assistant.message_delta": (d) => delta("message", d.messageId, d.deltaContent),
  "assistant.reasoning_delta": (d) => delta("thinking", d.reasoningId, d.deltaContent),
  "assistant.tool_call_delta": (d) => delta("tool call", d.toolCallId, d.inputDelta, d.toolName),
  "tool.execution_partial_result": (d) => delta("tool output", d.toolCallId, d.partialOutput),
  "output.message.delta": (d) => delta("message", d.message_id, d.delta, "", d.accumulated),
  "reason.thinking.delta": (d) => delta("thinking", d.turn_id, d.delta, "", d.accumulated),
  "tool.output.delta": (d) => delta("tool output", d.tool_call_id, d.delta, d.tool_name),
  "voice.input_transcript.delta": (d) =>
    delta("caller", `${d.voice_connection_id}|${d.item_id}`, d.delta, "", d.accumulated),
  "voice.output_transcript.delta": (d) =>
    delta("voice", `${d.voice_connection_id}|${d.response_id}`, d.delta, "", d.accumulated),
};

/** @type {Record<string, (data: any, context: any) => string[]>} */
const CLOSERS = {
  "assistant.message": (d) => [
    key("message", d.messageId),
    ...listOf(d.toolRequests).map((each) => key("tool call", each?.toolCallId)),
  ],
  "assistant.reasoning": (d) => [key("thinking", d.reasoningId)],
  "tool.execution_start": (d) => [key("tool call", d.toolCallId)],
  "tool.execution_complete": (d) => [key("tool output", d.toolCallId), key("tool call", d.toolCallId)],
  "output.message.completed": (d) => [key("message", d.message?.id)],
  "output.message.replaced": (d) => [key("message", d.message_id)],
  "reason.thinking.completed": (d, c) => [key("thinking", d.turn_id ?? c.turn_id)],
  "reason.completed": (d, c) => [key("thinking", d.turn_id ?? c.turn_id)],
  "tool.completed": (d) => [key("tool output", d.tool_call_id)],
  "voice.input_transcript.completed": (d) => [key("caller", `${d.voice_connection_id}|${d.item_id}`)],
  "voice.output_transcript.completed": (d) => [key("voice", `${d.voice_connection_id}|${d.response_id}`)],
};

const CLOSE_ALL = new Set([
  "session.idle", "abort", "session.shutdown", "session.snapshot_rewind", "session.idled",
  "turn.completed", "turn.failed", "turn.cancelled", "turn.sealed",
]);

/** @param {Kind} kind @param {unknown} id */
function key(kind, id) {
  return `${kind}|${id}`;
}

/**
 * @param {Kind} kind @param {any} id @param {any} text @param {any} [name] @param {any} [whole]
 * @returns {Delta}
 */
function delta(kind, id, text, name = "", whole = undefined) {
  const known = { key: key(kind, id), kind, id: `${id}`, name: `${name ?? ""}`, text: `${text ?? ""}` };
  return typeof whole === "string" ? { ...known, whole } : known;
}

/** @param {unknown} value @returns {any[]} */
function listOf(value) {
  return Array.isArray(value) ? value : [];
}

/** @param {SessionEvent} event @returns {any} */
function dataOf(event) {
  return event.data && typeof event.data === "object" ? event.data : {};
}

/** The part of a message that an event is, or null. @param {SessionEvent} event @returns {Delta | null} */
export function deltaOf(event) {
  return DELTAS[event.type]?.(dataOf(event)) ?? null;
}

/** Keys of the messages that an event ends; null for all of them. @param {SessionEvent} event @returns {string[] | null} */
export function closedBy(event) {
  if (CLOSE_ALL.has(event.type)) return null;
  if (event.type === "session.resume") return dataOf(event).sessionWasActive ? [] : null;
  return CLOSERS[event.type]?.(dataOf(event), event.context ?? {}) ?? [];
}

/** Gathers what every open message says so far. Feed it each event of a stream, in order. */
export class Texts {
  /** @type {Map<string, OpenText>} The open ones, the first begun first. */
  open = new Map();

  /**
   * @param {SessionEvent} event
   * @returns {OpenText | null} the message that it was a part of, with its text so far
   */
  add(event) {
    const part = deltaOf(event);
    if (part) {
      const so = this.open.get(part.key) ?? {
        key: part.key, kind: part.kind, id: part.id, name: "", text: "", agentId: event.agentId ?? "",
      };
      so.text = part.whole ?? so.text + part.text;
      so.name ||= part.name;
      this.open.set(part.key, so);
      return so;
    }
    const closed = closedBy(event);
    if (closed === null) this.open.clear();
    else for (const each of closed) this.open.delete(each);
    return null;
  }

  clear() {
    this.open.clear();
  }
}
