/** The event types that a filter of the console names together, per catalog. */

const FAMILIES = {
  messages: [
    "user.message", "assistant.message", "system.message", "system.notification", "input.message",
    "output.message.completed", "output.message.replaced", "conversation.message",
    "voice.input_transcript.completed", "voice.output_transcript.completed",
  ],
  reasoning: ["assistant.reasoning", "reason.thinking.completed", "reason.item", "reason.completed"],
  tools: [
    "tool.user_requested", "tool.execution_start", "tool.execution_complete", "tool.started", "tool.completed",
    "tool.progress", "tool.hosted_call", "tool.nested_call", "tool.call_repaired", "transcript.repaired",
    "act.started", "act.completed", "file.written",
  ],
  prompts: [
    "permission.requested", "permission.completed", "external_tool.requested", "tool.call_requested",
  ],
  agents: [
    "subagent.started", "subagent.completed", "subagent.failed", "subagent.selected", "subagent.deselected",
    "task.created", "task.updated", "task.message.sent", "task.message.received",
  ],
  trouble: [
    "session.error", "session.warning", "abort", "subagent.failed", "turn.failed", "turn.cancelled",
    "turn.sealed", "budget.warning", "budget.paused", "budget.exhausted", "sandbox.instance_lost",
    "environment.instance_lost", "context.compaction.failed", "voice.session.failed",
  ],
};

export const NAMES = {
  messages: "Messages",
  reasoning: "Reasoning",
  tools: "Tools",
  prompts: "Questions",
  agents: "Sub-agents",
  trouble: "Trouble",
};

const EVERRUNS = /^(input|output|conversation|voice|turn|reason|act|task|budget|sandbox|environment|context|file)\./;
const EVERRUNS_TOO = new Set([
  "tool.started", "tool.completed", "tool.progress", "tool.call_requested", "tool.hosted_call", "tool.nested_call",
  "tool.call_repaired", "transcript.repaired",
]);

/** Those of a family that a catalog knows: the hub refuses others. */
export function typesOf(family, catalog) {
  const isEverruns = (type) => EVERRUNS.test(type) || EVERRUNS_TOO.has(type);
  return FAMILIES[family].filter((type) => isEverruns(type) === (catalog === "everruns"));
}

/** Whether an event is of a family; questions are, too, where they are told once and not kept. */
export function isOf(type, family) {
  return FAMILIES[family].includes(type) || (family === "prompts" && /[._](requested|required|execute|queued)$/.test(type));
}
