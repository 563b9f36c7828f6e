/**
 * Events put together as a person reads them: a tool's start and end are one item, a question and
 * its answer too, a sub-agent's events belong to it. Pure; both catalogs (protocol.md §8.1).
 *
 * An item: `{key, version, kind, event, also, agentId, type, time, tone, …}` with `kind` one of `message`,
 * `reasoning`, `tool`, `agent`, `ask`, `marker`, `event`, `open`. `version` grows when it changes.
 */

import { dataOf, messageOf, summaryOf, textOf, timeOf, toneOf } from "./events.js";

/** What says nothing to who reads along: there when every event is asked for. */
const QUIET = new Set([
  "assistant.turn_start", "assistant.turn_end", "assistant.usage", "assistant.streaming_delta", "hook.start",
  "hook.end", "hook.progress", "session.usage_checkpoint", "session.context_changed", "session.auto_mode_resolved",
  "reason.started", "reason.completed", "act.started", "act.completed", "llm.generation", "capability.usage",
  "output.message.started", "reason.thinking.started", "session.activated", "session.idled", "turn.started",
  "system.message", "skill.invoked", "tool_search.activated", "session.binary_asset",
]);

/** Ephemeral events that are shown all the same, while they are there. */
const PASSING = /^(session\.(info|warning|error|custom_notification)|model\.call_failure|tool\.execution_progress)$/;

const OPENERS = {
  "permission.requested": "permission",
  "user_input.requested": "question",
  "elicitation.requested": "form",
  "sampling.requested": "sampling",
  "exit_plan_mode.requested": "plan",
  "auto_mode_switch.requested": "switch of models",
  "session_limits_exhausted.requested": "limits",
  "mcp.oauth_required": "sign-in",
  "mcp.headers_refresh_required": "headers",
  "external_tool.requested": "tool of a client",
  "command.execute": "command",
  "command.queued": "command",
};

const CLOSERS = new Set([
  "permission.completed", "user_input.completed", "elicitation.completed", "sampling.completed",
  "exit_plan_mode.completed", "auto_mode_switch.completed", "session_limits_exhausted.completed",
  "mcp.oauth_completed", "mcp.headers_refresh_completed", "external_tool.completed", "command.completed",
]);

const MARKERS = {
  "session.start": (d) => ["Session started", [d.copilotVersion, d.selectedModel].filter(Boolean).join(" · ")],
  "session.started": (d) => ["Session started", d.model_id ?? ""],
  "session.resume": () => ["Session resumed", ""],
  "session.shutdown": (d) => ["Session ended", d.errorReason ?? d.shutdownType ?? ""],
  "session.handoff": (d) => ["Handed off", d.summary ?? ""],
  "session.compaction_start": () => ["Compacting the context …", ""],
  "session.compaction_complete": (d) =>
    d.success === false ? ["Compaction failed", said(d.error)] : ["Context compacted", counted(d.messagesRemoved, "message")],
  "session.truncation": (d) => ["Context cut", counted(d.messagesRemovedDuringTruncation, "message")],
  "session.context_cleared": (d) => ["Context cleared", counted(d.messagesCleared, "message")],
  "session.snapshot_rewind": (d) => ["Rewound", counted(d.eventsRemoved, "event")],
  "session.mode_changed": (d) => [`Mode: ${d.newMode}`, ""],
  "session.model_change": (d) => [`Model: ${d.newModel}`, ""],
  "session.model.changed": (d) => [`Model: ${d.model_name}`, ""],
  "session.task_complete": (d) => ["Task complete", d.summary ?? ""],
  abort: (d) => ["Aborted", `${d.reason ?? ""}`.replaceAll("_", " ")],
  "context.compacting": () => ["Compacting the context …", ""],
  "context.compacted": (d) => ["Context compacted", `${d.messages_before} → ${d.messages_after} messages`],
  "context.compaction.failed": (d) => ["Compaction failed", d.error ?? ""],
  "turn.completed": (d) => ["Turn completed", d.duration_ms >= 0 ? `${(d.duration_ms / 1000).toFixed(1)} s` : ""],
  "turn.failed": (d) => ["Turn failed", d.error ?? ""],
  "turn.cancelled": (d) => ["Turn cancelled", d.reason ?? ""],
  "turn.sealed": (d) => ["Turn sealed", d.detail ?? d.reason ?? ""],
  "budget.paused": (d) => ["Paused by the budget", d.message ?? ""],
  "budget.exhausted": (d) => ["Budget used up", d.message ?? ""],
  "budget.resumed": () => ["Budget resumed", ""],
  "sandbox.instance_lost": () => ["Sandbox lost", ""],
  "sandbox.recovered": () => ["Sandbox recovered", ""],
};

function said(value) {
  return typeof value === "string" ? value : value?.message ?? "";
}

function counted(count, noun) {
  return typeof count === "number" ? `${count} ${noun}${count === 1 ? "" : "s"}` : "";
}

/** What is costly to say is said when a row is made: most items of a window never are. */
class Item {
  version = 0;
  also = [];

  constructor(event, kind, key, members) {
    this.event = event;
    this.kind = kind;
    this.key = key;
    this.agentId = event?.agentId ?? "";
    Object.assign(this, members);
  }

  get type() {
    return this.event?.type ?? "";
  }

  get time() {
    return this.event ? timeOf(this.event) : null;
  }

  get tone() {
    return this.hue ?? toneOf(this.event);
  }

  get what() {
    return this.said ?? summaryOf(this.event);
  }

  /** How long it took, in milliseconds. */
  get ms() {
    if (this.took !== undefined) return this.took;
    return this.begun && this.ended ? timeOf(this.ended) - timeOf(this.begun) : undefined;
  }
}

export class Fold {
  /** In order. */
  items = [];
  #tools = new Map();
  #asks = new Map();
  #agents = new Map();
  #every;

  /** @param {{every?: boolean}} [options] every: what says little, too */
  constructor({ every = false } = {}) {
    this.#every = every;
  }

  /** The running or finished tool with this call id, if its start was seen. */
  tool(callId) {
    return this.#tools.get(callId);
  }

  nameOf(agentId) {
    return this.#agents.get(agentId)?.name ?? agentId;
  }

  /**
   * @param {any} event
   * @param {{durable?: boolean}} [place]
   */
  add(event, { durable = true } = {}) {
    const data = dataOf(event);
    const { type } = event;
    if (!durable && !(type in OPENERS) && !CLOSERS.has(type) && !PASSING.test(type)) return;
    if (type === "tool.execution_start" || type === "tool.started") return this.#toolStarted(event, data);
    if (type === "tool.execution_complete" || type === "tool.completed") return this.#toolEnded(event, data);
    if (type === "tool.progress" || type === "tool.execution_progress") return this.#toolProgress(event, data);
    if (type === "tool.call_requested") return this.#callsAsked(event, data);
    if (type in OPENERS) return this.#asked(event, data.requestId, OPENERS[type], askLine(event, data));
    if (CLOSERS.has(type)) return this.#answered(event, data.requestId, outcomeOf(type, data));
    if (type.startsWith("subagent.")) return this.#agent(event, data);
    if (type === "task.created" || type === "task.updated") return this.#task(event, data.task ?? {});
    const thought = thoughtOf(event, data);
    if (thought) return this.#push(event, "reasoning", { text: thought, hue: "agent" });
    const message = type === "system.message" && !this.#every ? null : messageOf(event);
    if (message) return this.#push(event, "message", message);
    if (MARKERS[type]) return this.#marker(event, MARKERS[type](data));
    if (type === "output.message.replaced") {
      return this.#push(event, "message", { who: "Agent, replaced by a guardrail", text: `${data.replacement ?? ""}` });
    }
    if (!this.#every && isQuiet(event, data)) return;
    this.#push(event, "event", {});
  }

  /** A line of the console's own. */
  note(key, text, detail = "", tone = "wait") {
    this.items.push(new Item(null, "marker", key, { text, detail, hue: tone }));
  }

  #push(event, kind, members, key = `${kind}:${event.id}`) {
    const item = new Item(event, kind, key, members);
    this.items.push(item);
    return item;
  }

  #marker(event, [text, detail]) {
    const bad = /failed|abort|exhausted|lost|cancelled/.test(event.type) || event.data?.success === false;
    this.#push(event, "marker", { text, detail: `${detail}`, hue: bad ? "bad" : "wait" });
  }

  #toolStarted(event, data) {
    const id = data.toolCallId ?? data.tool_call?.id;
    const known = this.#tools.get(id);
    if (known?.placeholder) {
      Object.assign(known, startOf(event, data), { placeholder: false });
      known.also.push(event);
      known.version += 1;
      return;
    }
    const item = this.#push(event, "tool", { ...startOf(event, data), state: "running", output: "", result: "", error: "" });
    this.#tools.set(id, item);
  }

  #toolOf(event, id, data) {
    const known = this.#tools.get(id);
    if (known) return known;
    // Its start is on an earlier page, or was never told.
    const item = this.#push(event, "tool", { ...startOf(event, data), placeholder: true, state: "running", output: "", result: "", error: "" });
    this.#tools.set(id, item);
    return item;
  }

  #toolEnded(event, data) {
    const id = data.toolCallId ?? data.tool_call_id;
    const ask = this.#asks.get(id);
    if (ask && event.type === "tool.completed") this.#close(ask, event, data.status ?? (data.success ? "success" : "error"));
    const item = this.#toolOf(event, id, data);
    if (item.event !== event) item.also.push(event);
    item.state = data.success === false ? "failed" : "done";
    if (data.status === "cancelled" || data.status === "timeout") item.state = data.status;
    item.result = resultOf(data);
    item.error = said(data.error);
    item.hue = item.state === "failed" ? "bad" : "tool";
    item.took = data.duration_ms;
    item.ended = event;
    item.output = "";
    item.version += 1;
  }

  #toolProgress(event, data) {
    const item = this.#toolOf(event, data.toolCallId ?? data.tool_call_id, data);
    item.progress = `${data.progressMessage ?? data.message ?? ""}`;
    if (event.type === "tool.progress") item.also.push(event);
    item.version += 1;
  }

  #callsAsked(event, data) {
    for (const call of Array.isArray(data.tool_calls) ? data.tool_calls : []) {
      const kind = call?.name === "ask_user" ? "question" : call?.name === "approve_tool_call" ? "approval" : "tool of a client";
      const asked = call?.arguments?.questions?.[0];
      const line = asked?.question ?? asked?.text ?? call?.arguments?.tool_name ?? `${call?.name} ${summaryOf({ data: call?.arguments })}`;
      this.#asked(event, call?.id, kind, `${line}`);
    }
  }

  #asked(event, id, what, line) {
    if (this.#asks.has(id)) return;
    const item = this.#push(event, "ask", { requestId: id, said: what, line, hue: "ask", state: "open" }, `ask:${id}`);
    if (event.data?.resolvedByHook) item.outcome = "decided by a hook";
    if (what === "plan") item.plan = `${event.data?.planContent ?? ""}`;
    this.#asks.set(id, item);
  }

  #answered(event, id, outcome) {
    const ask = this.#asks.get(id);
    if (ask) this.#close(ask, event, outcome);
    else this.#push(event, "event", { hue: "ask", ...(outcome ? { said: outcome } : {}) });
  }

  #close(ask, event, outcome) {
    ask.state = "closed";
    ask.outcome = outcome || "closed";
    ask.also.push(event);
    ask.version += 1;
  }

  #agent(event, data) {
    if (event.type === "subagent.selected" || event.type === "subagent.deselected") {
      const chosen = data.agentDisplayName ?? data.agentName;
      this.#push(event, "marker", { text: chosen ? `Agent: ${chosen}` : "Main agent", detail: "", hue: "wait" });
      return;
    }
    const id = event.agentId ?? data.toolCallId;
    const known = this.#agents.get(id);
    const state = { "subagent.started": "running", "subagent.failed": "failed" }[event.type] ?? (data.cancelled ? "cancelled" : "done");
    if (known) {
      known.also.push(event);
    } else {
      const name = `${data.agentDisplayName ?? data.agentName ?? id}`;
      this.#agents.set(id, this.#push(event, "agent", { name, agent: id, agentId: "", line: `${data.agentDescription ?? ""}`, hue: "tool", begun: event }, `agent:${id}`));
    }
    const item = this.#agents.get(id);
    item.state = state;
    item.error = said(data.error);
    item.took = data.durationMs;
    if (state !== "running") item.ended = event;
    if (data.totalToolCalls >= 0) item.line = counted(data.totalToolCalls, "tool call");
    item.version += 1;
  }

  #task(event, task) {
    const key = `task:${task.id}`;
    let item = this.#agents.get(key);
    if (!item) {
      item = this.#push(event, "agent", { name: `${task.display_name ?? task.kind ?? "Task"}`, agent: "", line: "", hue: "tool" }, key);
      this.#agents.set(key, item);
    } else item.also.push(event);
    item.state = { succeeded: "done", canceled: "cancelled" }[task.state] ?? `${task.state ?? ""}`.replaceAll("_", " ");
    item.line = [task.state_detail, task.progress?.label, task.summary].filter(Boolean).join(" · ");
    item.steps = Array.isArray(task.progress?.steps) ? task.progress.steps : null;
    item.error = said(task.error);
    item.version += 1;
  }
}

function isQuiet(event, data) {
  if (QUIET.has(event.type)) return true;
  // Its tools show themselves.
  return event.type === "assistant.message" || (event.type === "output.message.completed" && !messageOf({ ...event, data }));
}

function thoughtOf(event, data) {
  if (event.type === "assistant.reasoning") return textOf(data.content);
  if (event.type === "reason.thinking.completed") return `${data.thinking ?? ""}`;
  if (event.type === "reason.item") return Array.isArray(data.summary) ? data.summary.join("\n") : "";
  return "";
}

function startOf(event, data) {
  const call = data.tool_call;
  return {
    name: `${data.display_name ?? data.mcpToolName ?? data.toolName ?? call?.name ?? data.tool_name ?? "tool"}` || "tool",
    server: `${data.mcpServerName ?? ""}`,
    input: data.arguments ?? call?.arguments ?? data.executed_arguments,
    begun: event.type.includes("start") ? event : null,
    hue: "tool",
  };
}

function resultOf(data) {
  const { result } = data;
  if (typeof result === "string") return result;
  if (Array.isArray(result)) return textOf(result);
  return `${result?.detailedContent ?? textOf(result?.content) ?? ""}` || textOf(result?.contents);
}

function askLine(event, data) {
  const request = data.promptRequest ?? data.permissionRequest;
  if (request) {
    return `${request.fullCommandText ?? request.fileName ?? request.path ?? request.url ?? request.toolTitle ?? request.toolName ?? request.name ?? request.fact ?? request.kind}`;
  }
  return `${data.question ?? data.message ?? data.summary ?? data.toolName ?? data.command ?? data.serverName ?? data.errorCode ?? ""}`;
}

/** How a copilot question ended, in a word. */
function outcomeOf(type, data) {
  if (type === "permission.completed") return `${data.result?.kind ?? ""}`.replaceAll("-", " ");
  if (type === "user_input.completed") return data.answer === undefined ? "dismissed" : `${data.answer}`;
  if (type === "exit_plan_mode.completed") {
    return data.approved === undefined ? "dismissed" : data.approved ? `approved ${data.selectedAction ?? ""}`.trim() : "sent back";
  }
  const { response } = data;
  return `${data.action ?? data.outcome ?? response?.action ?? response ?? ""}`.replaceAll("_", " ");
}
