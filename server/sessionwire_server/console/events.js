/**
 * What a session event says to a person: which are messages, which are parts of one still being
 * written, and one line for everything else. Both catalogs; knows nothing of the page.
 */

/** Delta types: the name of the message they belong to, and their text (protocol.md §3.5). */
const DELTAS = {
  "assistant.message_delta": (d) => part("message", d.messageId, d.deltaContent),
  "assistant.reasoning_delta": (d) => part("thinking", d.reasoningId, d.deltaContent),
  "assistant.tool_call_delta": (d) => part("tool call", d.toolCallId, d.inputDelta, d.toolName),
  "tool.execution_partial_result": (d) => part("tool output", d.toolCallId, d.partialOutput),
  "output.message.delta": (d) => part("message", d.message_id, d.delta, "", d.accumulated),
  "reason.thinking.delta": (d) => part("thinking", d.turn_id, d.delta, "", d.accumulated),
  "tool.output.delta": (d) => part("tool output", d.tool_call_id, d.delta, d.tool_name),
  "voice.input_transcript.delta": (d) => part("caller", `${d.voice_connection_id}|${d.item_id}`, d.delta, "", d.accumulated),
  "voice.output_transcript.delta": (d) => part("voice", `${d.voice_connection_id}|${d.response_id}`, d.delta, "", d.accumulated),
};

/** Durable types that replace what was being written: the keys they end. */
const CLOSERS = {
  "assistant.message": (d) => [
    key("message", d.messageId),
    ...(d.toolRequests ?? []).map((each) => key("tool call", each.toolCallId)),
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

const END_ALL = new Set([
  "session.idle", "abort", "session.shutdown", "session.snapshot_rewind", "session.idled",
  "turn.completed", "turn.failed", "turn.cancelled", "turn.sealed",
]);

const SAYERS = {
  "user.message": "User",
  "input.message": "User",
  "assistant.message": "Agent",
  "output.message.completed": "Agent",
  "conversation.message": "Agent",
  "system.message": "System",
};

function key(kind, id) {
  return `${kind}|${id}`;
}

function part(kind, id, text, name = "", whole = undefined) {
  return { key: key(kind, id), kind, name: name ?? "", text: text ?? "", whole };
}

const dataOf = (event) => (event.data && typeof event.data === "object" ? event.data : {});

/** The part of a message that an event is, or null: `{key, kind, name, text, whole?}`. */
export function deltaOf(event) {
  return DELTAS[event.type]?.(dataOf(event)) ?? null;
}

/** Keys of the messages that an event replaces; `null` for all of them. */
export function closedBy(event) {
  if (END_ALL.has(event.type)) return null;
  return CLOSERS[event.type]?.(dataOf(event), event.context ?? {}) ?? [];
}

/** Whether an event is in the log: `sequence` says so, or else the number in its cursor grew. */
export function isDurable(event, grew) {
  if ("ts" in event || "session_id" in event) return "sequence" in event;
  if (event.type === "session.snapshot_rewind") return true;
  return event.ephemeral !== true && grew;
}

export function timeOf(event) {
  const time = new Date(event.timestamp ?? event.ts ?? "");
  return Number.isNaN(time.getTime()) ? null : time;
}

/** Who says what, or null for an event that is no message with a text. */
export function messageOf(event) {
  const who = SAYERS[event.type];
  const data = dataOf(event);
  if (!who) return null;
  const text = data.text ?? textOf(data.message?.content ?? data.content);
  return text ? { who, text } : null;
}

function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((each) => each?.text).filter((text) => typeof text === "string").join("\n");
}

/** Family that an event is coloured by. */
export function toneOf(event) {
  const type = event.type;
  const data = dataOf(event);
  if (/(^|[._])(error|failed|warning|exhausted|abort)/.test(type)) return "bad";
  if (data.success === false || data.error) return "bad";
  if (/^(user|input)\./.test(type)) return "user";
  if (/^(assistant|output|conversation|reason|llm|model)\./.test(type)) return "agent";
  if (/(requested|required|completed)$/.test(type) && (data.requestId || data.tool_calls)) return "ask";
  if (/^(tool|act|external_tool|mcp|hook|file)/.test(type)) return "tool";
  return "plain";
}

/** One line for an event, without its type. */
export function summaryOf(event) {
  const data = dataOf(event);
  return oneLine(
    toolSummary(data) ?? outcomeSummary(data) ?? requestSummary(data) ?? firstText(data) ?? compact(data),
  );
}

function toolSummary(data) {
  const call = data.tool_call;
  const name = call?.name ?? data.toolName ?? data.tool_name;
  if (!name && !Array.isArray(data.toolRequests) && !Array.isArray(data.tool_calls)) return null;
  if (!name) {
    const calls = data.toolRequests ?? data.tool_calls;
    return calls.map((each) => each.display_name ?? each.name).filter(Boolean).join(", ") || null;
  }
  const outcome = data.error?.message ?? data.error ?? data.message ?? textOf(data.result);
  const input = call?.arguments ?? data.arguments;
  const detail = typeof outcome === "string" && outcome ? outcome : input ? argumentsOf(input) : "";
  return detail ? `${name} · ${detail}` : name;
}

function outcomeSummary(data) {
  if (typeof data.success !== "boolean" || !data.toolCallId) return null;
  const text = data.error?.message ?? textOf(data.result?.content);
  return [data.success ? "succeeded" : "failed", text].filter(Boolean).join(" · ");
}

function argumentsOf(input) {
  if (typeof input !== "object") return String(input);
  const values = Object.values(input);
  return values.length === 1 && typeof values[0] === "string" ? values[0] : compact(input);
}

function requestSummary(data) {
  const request = data.permissionRequest;
  if (!request) return null;
  return [request.kind, request.fullCommandText ?? request.fileName ?? request.path ?? request.url ?? request.toolName]
    .filter(Boolean)
    .join(" · ");
}

const TELLING = [
  "question", "title", "summary", "intent", "error", "message", "content", "text", "thinking", "reason",
  "text_preview", "final_answer_preview", "input_content", "newModel", "model_name", "display_name",
  "agentDisplayName", "hookType", "command", "path", "status", "outcome", "model",
];

function firstText(data) {
  if (typeof data.result === "object" && data.result?.kind) return data.result.kind;
  for (const name of TELLING) {
    const value = data[name];
    if (typeof value === "string" && value) return value;
    if (value && typeof value === "object") {
      const inner = value.message ?? textOf(value.content);
      if (typeof inner === "string" && inner) return inner;
    }
  }
  const task = data.task;
  return task ? [task.display_name, task.state, task.state_detail].filter(Boolean).join(" · ") : null;
}

function compact(value) {
  const text = JSON.stringify(value);
  return text === "{}" ? "" : text;
}

function oneLine(text) {
  return String(text).slice(0, 400).replace(/\s+/g, " ").trim();
}
