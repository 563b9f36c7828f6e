// What the console says of events: no event of either catalog may break it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as events from "../../server/sessionwire_server/console/events.js";

const DATA = new URL("../data/", import.meta.url);

function corpus(name) {
  const lines = readFileSync(new URL(`${name}.jsonl`, DATA), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line)).map((each) => each.event ?? each);
}

for (const name of ["copilot", "everruns"]) {
  test(`every event of the ${name} corpus has a line, a tone and a time`, () => {
    const all = corpus(name);
    assert.ok(new Set(all.map((event) => event.type)).size > 60);
    for (const event of all) {
      assert.equal(typeof events.summaryOf(event), "string", event.type);
      assert.ok(["bad", "user", "agent", "ask", "tool", "plain"].includes(events.toneOf(event)));
      assert.ok(events.timeOf(event) instanceof Date, event.type);
    }
  });
}

test("events that fit no catalog do not break it", () => {
  for (const data of [null, undefined, [], "text", 7, { tool_calls: [] }, { content: [null, 1] }]) {
    const event = { type: "assistant.message", data };
    assert.equal(typeof events.summaryOf(event), "string");
    assert.equal(events.messageOf(event), null);
    assert.equal(typeof events.toneOf(event), "string");
  }
});

test("durable is what the envelope says, or else what the cursor shows", () => {
  const everruns = { type: "turn.started", ts: "2026-01-01T00:00:00.000Z", session_id: "s" };
  assert.equal(events.isDurable({ ...everruns, sequence: 1 }, false), true);
  assert.equal(events.isDurable(everruns, true), false);
  assert.equal(events.isDurable({ type: "user.message", parentId: null }, true), true);
  assert.equal(events.isDurable({ type: "user.message", parentId: null }, false), false);
  assert.equal(events.isDurable({ type: "session.idle", ephemeral: true }, true), false);
  assert.equal(events.isDurable({ type: "session.snapshot_rewind", ephemeral: true }, true), true);
});
