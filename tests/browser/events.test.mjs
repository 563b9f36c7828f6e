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
  test(`every event of the ${name} corpus has a line, a tone and a place`, () => {
    const all = corpus(name);
    assert.ok(new Set(all.map((event) => event.type)).size > 60);
    for (const event of all) {
      assert.equal(typeof events.summaryOf(event), "string", event.type);
      assert.ok(["bad", "user", "agent", "ask", "tool", "plain"].includes(events.toneOf(event)));
      assert.ok(events.timeOf(event) instanceof Date, event.type);
      const closed = events.closedBy(event);
      assert.ok(closed === null || closed.every((key) => typeof key === "string"), event.type);
      const delta = events.deltaOf(event);
      assert.ok(delta === null || typeof delta.text === "string", event.type);
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

test("a delta belongs to the message whose durable event replaces it", () => {
  const pairs = [
    [
      { type: "assistant.message_delta", data: { messageId: "m", deltaContent: "a" } },
      { type: "assistant.message", data: { messageId: "m", content: "a" } },
    ],
    [
      { type: "assistant.tool_call_delta", data: { toolCallId: "t", inputDelta: "{" } },
      { type: "assistant.message", data: { toolRequests: [{ toolCallId: "t" }] } },
    ],
    [
      { type: "output.message.delta", data: { message_id: "m", delta: "a", accumulated: "a" } },
      { type: "output.message.completed", data: { message: { id: "m", content: [] } } },
    ],
    [
      { type: "reason.thinking.delta", data: { turn_id: "t", delta: "a", accumulated: "a" } },
      { type: "reason.completed", context: { turn_id: "t" }, data: {} },
    ],
  ];
  for (const [delta, closer] of pairs) {
    assert.ok(events.closedBy(closer).includes(events.deltaOf(delta).key), delta.type);
  }
  assert.equal(events.closedBy({ type: "session.idle", data: {} }), null);
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
