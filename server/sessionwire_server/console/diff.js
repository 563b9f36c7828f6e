/** Diffs, commands and arguments as they are read: always as text. */

import { make, pretty } from "./elements.js";

const MOST = 20_000;

/** Whether a text is a diff. */
export function isDiff(text) {
  return /^(diff --git |--- |\+\+\+ |@@ )/m.test(text) && /^[+-]/m.test(text);
}

/** A diff, lines of a kind together: one element for each run, not for each line. */
export function diffBlock(text) {
  const block = make("pre", "diff");
  let kind = null;
  let run = [];
  const flush = () => {
    if (run.length > 0) block.append(make("span", kind, `${run.join("\n")}\n`));
    run = [];
  };
  for (const line of cut(text.replace(/\n$/, "")).split("\n")) {
    const next = kindOf(line);
    if (next !== kind) flush();
    kind = next;
    run.push(line);
  }
  flush();
  return block;
}

function kindOf(line) {
  if (/^(diff --git|index |---|\+\+\+)/.test(line)) return "file";
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return "same";
}

/** What is asked to be run. */
export function commandBlock(text) {
  return make("pre", "command", cut(`$ ${text}`));
}

/** Output, arguments and other long text. */
export function textBlock(text, className = "") {
  return isDiff(text) ? diffBlock(text) : make("pre", className, cut(text));
}

/** What a tool was given: a command, a change, or its members. */
export function inputBlock(input) {
  if (input === undefined || input === null || input === "") return null;
  if (typeof input !== "object") return textBlock(String(input));
  if (typeof input.command === "string") return commandBlock(input.command);
  if (typeof input.diff === "string") return diffBlock(input.diff);
  if (typeof input.patch === "string") return diffBlock(input.patch);
  const before = input.old_str ?? input.old_string;
  const after = input.new_str ?? input.new_string;
  if (typeof before === "string" && typeof after === "string") {
    const path = input.path ?? input.file_path ?? "";
    return diffBlock([`--- ${path}`, `+++ ${path}`, ...signed("-", before), ...signed("+", after)].join("\n"));
  }
  return Object.keys(input).length === 0 ? null : textBlock(pretty(input));
}

function signed(sign, text) {
  return text.split("\n").map((line) => sign + line);
}

function cut(text) {
  return text.length > MOST ? `${text.slice(0, MOST)}\n… ${text.length - MOST} characters more, in the raw JSON` : text;
}
