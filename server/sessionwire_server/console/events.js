/**
 * What a session event says to a person: which are messages, and one line for everything else. Both
 * catalogs; knows nothing of the page.
 */

const SAYERS = {
  "user.message": "User",
  "input.message": "User",
  "assistant.message": "Agent",
  "output.message.completed": "Agent",
  "conversation.message": "Agent",
  "voice.input_transcript.completed": "Caller",
  "voice.output_transcript.completed": "Agent, spoken",
  "system.message": "System",
};

export const dataOf = (event) => (event.data && typeof event.data === "object" ? event.data : {});

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
  const text = data.text ?? data.accumulated ?? textOf(data.message?.content ?? data.content);
  return typeof text === "string" && /\S/.test(text) ? { who, text } : null;
}

export function textOf(content) {
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
    return calls.map((each) => each?.display_name ?? each?.name).filter(Boolean).join(", ") || null;
  }
  const outcome = data.error?.message ?? data.error ?? data.message ?? textOf(data.result);
  const input = call?.arguments ?? data.arguments;
  const detail = typeof outcome === "string" && outcome ? outcome : input ? argumentsOf(input) : "";
  return detail ? `${name} · ${detail}` : `${name}`;
}

function outcomeSummary(data) {
  if (typeof data.success !== "boolean" || !data.toolCallId) return null;
  const text = data.error?.message ?? textOf(data.result?.content);
  return [data.success ? "succeeded" : "failed", text].filter(Boolean).join(" · ");
}

const MAIN = ["command", "path", "file_path", "filename", "pattern", "query", "url", "description", "prompt", "name"];

/** The part of a tool's arguments that tells most, on one line. */
export function argumentsOf(input) {
  if (input === null || typeof input !== "object") return oneLine(input ?? "");
  for (const name of MAIN) if (typeof input[name] === "string" && input[name]) return oneLine(input[name]);
  const values = Object.values(input);
  return values.length === 1 && typeof values[0] === "string" ? oneLine(values[0]) : oneLine(compact(input));
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
  "text_preview", "final_answer_preview", "input_content", "newModel", "newMode", "model_name", "display_name",
  "agentDisplayName", "hookType", "command", "path", "status", "outcome", "model", "turnId", "turn_id",
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
  const text = JSON.stringify(value) ?? "";
  return text === "{}" ? "" : text;
}

function oneLine(text) {
  return String(text).slice(0, 400).replace(/\s+/g, " ").trim();
}
