/**
 * What each kind of prompt shows and how it is answered (protocol.md §8.1, §8.3).
 *
 * A form: `{title, element, actions, show?}`. An action: `{text, hint, tone, answer}` where `answer`
 * makes the answer in the vocabulary of the official clients; it throws where a field is not right.
 * Nothing here decides anything: the hub checks every answer.
 */

import { commandBlock, diffBlock, inputBlock, textBlock } from "./diff.js";
import { labelled, make, pretty } from "./elements.js";
import { SchemaForm } from "./schema_form.js";

/** @param {any} prompt @returns {any} */
export function formOf(prompt) {
  const asked = askedOf(prompt);
  return (FORMS[prompt.kind] ?? unknown)(asked, prompt);
}

/** What a prompt asks: a copilot event's data, or the one everruns call that it is. */
export function askedOf(prompt) {
  const data = prompt.event?.data ?? {};
  if (!Array.isArray(data.tool_calls)) return data;
  return data.tool_calls.find((call) => call?.id === prompt.request_id) ?? {};
}

/** What a prompt is about, in a line: for a notification. */
export function lineOf(prompt) {
  const asked = askedOf(prompt);
  const request = asked.promptRequest ?? asked.permissionRequest ?? asked;
  const first = asked.arguments?.questions?.[0];
  const line = request.fullCommandText ?? request.fileName ?? request.url ?? request.toolName ?? request.question
    ?? request.message ?? request.summary ?? first?.question ?? first?.text ?? request.name ?? request.command ?? prompt.kind;
  return `${line}`.slice(0, 200);
}

const FORMS = {
  permission,
  user_input: userInput,
  elicitation: (asked, prompt) => (asked.arguments ? callElicitation(asked, prompt) : elicitation(asked)),
  exit_plan_mode: plan,
  auto_mode_switch: autoMode,
  session_limits_exhausted: limits,
  mcp_oauth: oauth,
  mcp_headers: headers,
  sampling,
  external_tool: (asked) => tool(asked.toolName, asked.arguments, asked.workingDirectory),
  tool: (asked) => tool(asked.name, asked.arguments),
  command,
  question,
  approval,
};

/** Pairs of a name and a value, those that say something. */
function facts(pairs) {
  const list = make("dl", "facts");
  for (const [name, value] of pairs) {
    if (value === undefined || value === null || value === "" || value === false) continue;
    list.append(make("dt", "", name), make("dd", "", value === true ? "yes" : pretty(value)));
  }
  return list.childElementCount > 0 ? list : null;
}

function body(...parts) {
  const element = make("div", "asked");
  element.append(...parts.filter(Boolean));
  return element;
}

function warning(text) {
  return text ? make("p", "warning", text) : null;
}

/** A field with its name. */
function field(label, element, hint = "") {
  const box = make("div", "field");
  box.append(labelled(label, element), element);
  if (hint) box.append(make("p", "hint", hint));
  return box;
}

function area(rows = 2, placeholder = "") {
  const element = make("textarea");
  element.rows = rows;
  element.placeholder = placeholder;
  return element;
}

function input(type = "text") {
  const element = make("input");
  element.type = type;
  if (type === "password") element.autocomplete = "off";
  return element;
}

/** A link is shown whole and opened only as what it says to be. */
function link(url) {
  const shown = make("p", "link-out");
  if (/^https?:\/\//i.test(`${url}`)) {
    const anchor = make("a", "", `${url}`);
    anchor.href = url;
    anchor.target = "_blank";
    anchor.rel = "noopener noreferrer";
    shown.append(anchor);
  } else shown.append(make("code", "", `${url}`));
  return shown;
}

/* Permissions */

const TITLES = {
  commands: "Run a command?", shell: "Run a command?", write: "Change a file?", read: "Read a file?",
  mcp: "Call a tool of a server?", url: "Open an address?", memory: "Remember this?", "custom-tool": "Call a tool?",
  path: "Use these paths?", hook: "A hook asks", "extension-management": "Change extensions?",
  factory: "Run a factory?", "extension-permission-access": "Give an extension access?",
};

function permission(asked, prompt) {
  const behind = asked.permissionRequest ?? {};
  const request = asked.promptRequest ?? behind;
  const feedback = input();
  const element = body(
    request.intention ? make("p", "intention", request.intention) : null,
    requestBlock(request, behind),
    warning(request.warning ?? behind.warning),
    warning(behind.requestSandboxBypass || request.requestSandboxBypass
      ? `Outside the sandbox: ${behind.requestSandboxBypassReason ?? request.requestSandboxBypassReason ?? "no reason given"}` : ""),
    adviceOf(request, asked),
    prompt.human ? make("p", "hint", "Only a person may approve this.") : null,
    asked.resolvedByHook ? null : field("A word to the agent, if you reject", feedback),
  );
  const title = TITLES[request.kind] ?? `Permission: ${request.kind ?? "?"}`;
  if (asked.resolvedByHook) return { title, element, actions: [] };
  const actions = [{ text: "Approve", hint: "y", tone: "good", answer: () => ({ kind: "approve-once" }) }];
  const lasting = approvalOf(request, behind);
  if (lasting && (request.canOfferSessionApproval ?? behind.canOfferSessionApproval) !== false) {
    actions.push({ text: "For this session", hint: "s", answer: () => ({ kind: "approve-for-session", ...lasting }) });
  }
  if (request.kind === "url" && lasting) {
    actions.push({ text: `Always for ${lasting.domain}`, answer: () => ({ kind: "approve-permanently", ...lasting }) });
  }
  actions.push({
    text: "Reject", hint: "n", tone: "bad",
    answer: () => ({ kind: "reject", ...(feedback.value.trim() ? { feedback: feedback.value.trim() } : {}) }),
  });
  return { title, element, actions };
}

function requestBlock(request, behind) {
  switch (request.kind) {
    case "commands":
    case "shell":
      return commandBlock(request.fullCommandText ?? "");
    case "write":
      return body(make("code", "path", request.fileName ?? ""), request.diff ? diffBlock(request.diff) : textBlock(request.newFileContents ?? ""));
    case "read":
      return make("code", "path", request.path ?? "");
    case "path":
      return textBlock((request.paths ?? []).join("\n"));
    case "url":
      return body(make("code", "path", request.url ?? ""), facts([["Redirected from", request.redirectedFrom]]));
    case "mcp":
      return body(
        facts([["Server", request.serverName], ["Tool", request.toolTitle ?? request.toolName], ["Only reads", behind.readOnly]]),
        inputBlock(request.args),
      );
    case "memory":
      return body(make("p", "text", request.fact ?? ""), facts([["Action", request.action], ["Subject", request.subject], ["Reason", request.reason]]));
    default: {
      const { kind: _, intention: __, toolCallId: ___, autoApproval: ____, args, toolArgs, ...rest } = request;
      return body(facts(Object.entries(rest)), inputBlock(args ?? toolArgs));
    }
  }
}

function adviceOf(request, asked) {
  const advice = request.autoApproval;
  return facts([
    ["Advice", advice ? [advice.recommendation, advice.reason].filter(Boolean).join(": ") : ""],
    ["Risk", asked.riskAssessment],
  ]);
}

/** What an approval beyond once covers: exactly what was asked. */
function approvalOf(request, behind) {
  const kind = request.kind === "shell" ? "commands" : request.kind;
  switch (kind) {
    case "commands": {
      const commandIdentifiers = request.commandIdentifiers ?? (behind.commands ?? []).map((each) => each.identifier);
      return commandIdentifiers.length > 0 ? { approval: { kind, commandIdentifiers } } : null;
    }
    case "read":
    case "write":
    case "memory":
      return { approval: { kind } };
    case "path":
      return ["read", "write"].includes(behind.kind) ? { approval: { kind: behind.kind } } : null;
    case "mcp":
      return { approval: { kind, serverName: request.serverName, toolName: request.toolName } };
    case "custom-tool":
      return { approval: { kind, toolName: request.toolName } };
    case "extension-management":
      return { approval: { kind, operation: request.operation } };
    case "factory":
      return request.canPersistApproval === false ? null : { approval: { kind, approvalKey: request.approvalKey } };
    case "extension-permission-access":
      return { approval: { kind, extensionName: request.extensionName } };
    case "url":
      try {
        return { domain: new URL(request.url).hostname };
      } catch {
        return null;
      }
    default:
      return null;
  }
}

/* Questions */

function userInput(asked) {
  const choices = Array.isArray(asked.choices) ? asked.choices.map(String) : [];
  const isFree = asked.allowFreeform !== false;
  const words = area(2, choices.length > 0 ? "Or say it in your own words" : "");
  words.ariaLabel = "Your answer";
  const element = body(make("p", "question", asked.question ?? ""), isFree || choices.length === 0 ? words : null);
  const actions = choices.map((choice, index) => ({
    text: choice, hint: index < 9 ? `${index + 1}` : "", tone: "choice", answer: () => ({ answer: choice, wasFreeform: false }),
  }));
  if (isFree || choices.length === 0) {
    actions.push({ text: "Answer", tone: "good", main: true, answer: () => ({ answer: needed(words), wasFreeform: true }) });
  }
  return { title: "A question", element, actions };
}

function needed(element, what = "This") {
  const value = element.value.trim();
  if (!value) {
    element.focus();
    throw new Error(`${what} needs an answer.`);
  }
  return value;
}

function elicitation(asked) {
  if (asked.mode === "url") {
    const element = body(make("p", "question", asked.message ?? ""), link(asked.url ?? ""), sourceOf(asked));
    return { title: "Open a page?", element, actions: threeWays(() => undefined, "Done") };
  }
  const form = new SchemaForm(asked.requestedSchema);
  const element = body(make("p", "question", asked.message ?? ""), sourceOf(asked), form.element);
  return { title: "Fill in", element, actions: threeWays(() => form.read(), "Send"), show: (faults) => form.show(faults) };
}

function sourceOf(asked) {
  return asked.elicitationSource ? make("p", "hint", `Asked by ${asked.elicitationSource}`) : null;
}

function threeWays(read, accept) {
  return [
    {
      text: accept, tone: "good", main: true,
      answer: () => {
        const content = read();
        return { action: "accept", ...(content === undefined ? {} : { content }) };
      },
    },
    { text: "Decline", hint: "n", tone: "bad", answer: () => ({ action: "decline" }) },
    { text: "Cancel", answer: () => ({ action: "cancel" }) },
  ];
}

function callElicitation(asked, prompt) {
  const held = asked.arguments.elicitation ?? {};
  const schema = held.requested_schema ?? held.requestedSchema;
  if (!schema) return question(asked, prompt);
  return elicitation({ message: held.message ?? asked.arguments.message, requestedSchema: schema, elicitationSource: held.server ?? held.server_name });
}

const ACTIONS = {
  exit_only: "Leave plan mode", interactive: "Go on, asking me", autopilot: "Go on by itself", autopilot_fleet: "Go on by itself, with a fleet",
};

function plan(asked) {
  const choices = make("div", "choices");
  choices.role = "radiogroup";
  choices.ariaLabel = "How to go on";
  const name = `plan-${Math.random()}`;
  const radios = (asked.actions ?? []).map((action) => {
    const radio = input("radio");
    radio.name = name;
    radio.value = action;
    radio.checked = action === asked.recommendedAction;
    const line = make("div", "choice");
    line.append(radio, labelled(`${ACTIONS[action] ?? action}${radio.checked ? " (recommended)" : ""}`, radio));
    choices.append(line);
    return radio;
  });
  const edits = input("checkbox");
  const both = make("div", "choice");
  both.append(edits, labelled("Approve edits without asking", edits));
  const feedback = area(2);
  const element = body(
    make("p", "question", asked.summary ?? ""),
    asked.planContent ? make("pre", "plan", asked.planContent) : null,
    choices,
    both,
    field("What to change, if you send it back", feedback),
  );
  return {
    title: "Approve the plan?",
    element,
    actions: [
      {
        text: "Approve the plan", hint: "y", tone: "good",
        answer: () => {
          const chosen = radios.find((radio) => radio.checked)?.value;
          return { approved: true, ...(chosen ? { selectedAction: chosen } : {}), ...(edits.checked ? { autoApproveEdits: true } : {}) };
        },
      },
      {
        text: "Send it back", hint: "n", tone: "bad",
        answer: () => ({ approved: false, ...(feedback.value.trim() ? { feedback: feedback.value.trim() } : {}) }),
      },
    ],
  };
}

function autoMode(asked) {
  const wait = asked.retryAfterSeconds > 0 ? `The limit ends in ${Math.ceil(asked.retryAfterSeconds / 60)} minutes.` : "";
  const element = body(
    make("p", "question", "The model has reached a limit. Switch to another one automatically?"),
    facts([["Reason", `${asked.errorCode ?? ""}`.replaceAll("_", " ")]]),
    wait ? make("p", "hint", wait) : null,
  );
  return {
    title: "Switch models?",
    element,
    actions: [
      { text: "Yes", hint: "y", tone: "good", answer: () => "yes" },
      { text: "Always", answer: () => "yes_always" },
      { text: "No", hint: "n", tone: "bad", answer: () => "no" },
    ],
  };
}

function limits(asked) {
  const amount = input("number");
  amount.min = "0";
  amount.step = "any";
  const credits = () => {
    const value = Number(needed(amount, "The amount"));
    if (!(value > 0)) throw new Error("The amount must be above 0.");
    return value;
  };
  const element = body(
    make("p", "question", `${asked.usedAiCredits ?? "?"} of ${asked.maxAiCredits ?? "?"} credits are used.`),
    field("Credits", amount),
  );
  return {
    title: "The session's limit is reached",
    element,
    actions: [
      { text: "Add", tone: "good", main: true, answer: () => ({ action: "add", additionalAiCredits: credits() }) },
      { text: "Set as the limit", answer: () => ({ action: "set", maxAiCredits: credits() }) },
      { text: "No limit", answer: () => ({ action: "unset" }) },
      { text: "Stop here", hint: "n", tone: "bad", answer: () => ({ action: "cancel" }) },
    ],
  };
}

/* What only a trusted host should be asked */

function oauth(asked) {
  const token = input("password");
  const element = body(
    make("p", "question", `${asked.serverName ?? "A server"} needs a sign-in.`),
    facts([["Server", asked.serverUrl], ["Reason", asked.reason], ["Scope", asked.wwwAuthenticateParams?.scope]]),
    field("Access token", token, "Sent to the session's host alone, and kept nowhere."),
  );
  return {
    title: "Sign in to a server",
    element,
    actions: [
      { text: "Send the token", tone: "good", main: true, answer: () => ({ kind: "token", accessToken: needed(token, "The token") }) },
      { text: "Cancel", hint: "n", tone: "bad", answer: () => ({ kind: "cancelled" }) },
    ],
  };
}

function headers(asked) {
  const lines = area(3, "Name: value");
  const element = body(
    make("p", "question", `${asked.serverName ?? "A server"} needs new headers.`),
    facts([["Server", asked.serverUrl], ["Reason", asked.reason]]),
    field("Headers, one a line", lines, "Sent to the session's host alone, and kept nowhere."),
  );
  const read = () => {
    const pairs = needed(lines, "The list of headers").split("\n").filter((line) => line.trim()).map((line) => {
      const colon = line.indexOf(":");
      if (colon < 1) throw new Error(`“${line}” is not a name, a colon and a value.`);
      return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    });
    return { kind: "headers", headers: Object.fromEntries(pairs) };
  };
  return {
    title: "Headers for a server",
    element,
    actions: [
      { text: "Send the headers", tone: "good", main: true, answer: read },
      { text: "None", hint: "n", tone: "bad", answer: () => ({ kind: "none" }) },
    ],
  };
}

function sampling(asked) {
  const words = area(3);
  const model = input();
  const element = body(
    make("p", "question", `${asked.serverName ?? "A server"} asks for a completion.`),
    facts(Object.entries(asked).filter(([name]) => !["requestId", "serverName"].includes(name))),
    field("The answer's text", words),
    field("Model that wrote it", model),
  );
  return {
    title: "A server asks the model",
    element,
    actions: [
      {
        text: "Send", tone: "good", main: true,
        answer: () => ({ role: "assistant", content: { type: "text", text: needed(words, "The text") }, model: model.value.trim() || "human" }),
      },
      { text: "Reject", hint: "n", tone: "bad", answer: () => null },
    ],
  };
}

/* What programs answer, usually */

function tool(name, args, folder) {
  const result = area(3);
  const element = body(
    make("p", "question", `Run the tool ${name ?? "?"} and give its result.`),
    inputBlock(args),
    facts([["In", folder]]),
    field("Result, or what went wrong", result, "A program that has the tool answers this by itself."),
  );
  return {
    title: `Tool: ${name ?? "?"}`,
    element,
    actions: [
      { text: "Send the result", tone: "good", main: true, answer: () => ({ result: result.value }) },
      { text: "It failed", tone: "bad", answer: () => ({ error: needed(result, "The failure") }) },
    ],
  };
}

function command(asked, prompt) {
  const trouble = input();
  const queued = prompt.event?.type === "command.queued";
  const element = body(commandBlock(asked.command ?? ""), queued ? null : field("What went wrong, if it failed", trouble));
  const actions = queued
    ? [
        { text: "It was handled", tone: "good", answer: () => ({ handled: true }) },
        { text: "Not handled", tone: "bad", answer: () => ({ handled: false }) },
      ]
    : [
        { text: "It was run", tone: "good", answer: () => ({}) },
        { text: "It failed", tone: "bad", answer: () => ({ error: needed(trouble, "The failure") }) },
      ];
  return { title: queued ? "A queued command" : "Run a command of this client", element, actions };
}

/* everruns */

function question(asked) {
  const questions = Array.isArray(asked.arguments?.questions) ? asked.arguments.questions : [];
  const element = body();
  const readers = questions.map((each, index) => {
    const { box, read } = oneQuestion(each ?? {}, index);
    element.append(box);
    return read;
  });
  return {
    title: questions.length > 1 ? `${questions.length} questions` : "A question",
    element,
    actions: [
      {
        text: "Answer", tone: "good", main: true,
        answer: () => ({ status: "answered", answers: readers.map((read) => read()).filter(Boolean) }),
      },
      { text: "Decline", hint: "n", tone: "bad", answer: () => ({ status: "declined", answers: [] }) },
    ],
  };
}

function oneQuestion(asked, index) {
  const title = `${asked.question ?? asked.text ?? asked.prompt ?? asked.id ?? index + 1}`;
  const options = (Array.isArray(asked.options) ? asked.options : [])
    .map((each) => (typeof each === "string" ? { label: each } : each))
    .filter((each) => typeof each?.label === "string");
  const several = ["multi_select", "multiple", "allow_multiple"].some((name) => asked[name] === true);
  const box = make("div", "field");
  box.role = "group";
  box.ariaLabel = title;
  if (asked.header) box.append(make("span", "label", `${asked.header}`));
  box.append(make("p", "question", title));
  const name = `question-${Math.random()}`;
  const marks = options.map((option) => {
    const mark = input(several ? "checkbox" : "radio");
    mark.name = name;
    const line = make("div", "choice");
    line.append(mark, labelled(option.label, mark));
    if (option.description) line.append(make("span", "hint", `${option.description}`));
    box.append(line);
    return mark;
  });
  const isOpen = options.length === 0 || (asked.allow_other !== false && asked.other !== false);
  const words = input();
  words.ariaLabel = options.length > 0 ? `Another answer: ${title}` : title;
  words.placeholder = options.length > 0 ? "Another answer" : "";
  if (isOpen) box.append(words);
  const read = () => {
    const selected = options.filter((_, at) => marks[at].checked).map((option) => option.label);
    const other = isOpen ? words.value.trim() : "";
    if (selected.length === 0 && !other) {
      if (asked.required === false) return null;
      (marks[0] ?? words).focus();
      throw new Error(`“${title}” needs an answer.`);
    }
    return { id: `${asked.id ?? ""}`, selected, ...(other ? { other_text: other } : {}) };
  };
  return { box, read };
}

function approval(asked) {
  const { tool_name: name, tool, arguments: inner, tool_arguments: args, ...rest } = asked.arguments ?? {};
  const element = body(
    make("p", "question", `May the agent call ${name ?? (typeof tool === "string" ? tool : tool?.name) ?? "this tool"}?`),
    inputBlock(inner ?? args ?? tool?.arguments),
    facts(Object.entries(rest).filter(([key]) => !/fingerprint|expires_at/.test(key))),
  );
  const say = (text, decision, more) => ({ text, answer: () => ({ decision }), ...more });
  return {
    title: "Allow a tool?",
    element,
    actions: [
      say("Allow", "allow", { hint: "y", tone: "good" }),
      say("Always", "allow_always", { hint: "s" }),
      say("Reject", "reject", { hint: "n", tone: "bad" }),
      say("Never", "reject_always", { tone: "bad" }),
    ],
  };
}

/** A kind that is newer than this page. */
function unknown(asked, prompt) {
  const words = area(4);
  return {
    title: `A prompt: ${prompt.kind}`,
    element: body(textBlock(pretty(asked)), field("Answer, as JSON", words)),
    actions: [{ text: "Send", tone: "good", main: true, answer: () => JSON.parse(words.value) }],
  };
}
