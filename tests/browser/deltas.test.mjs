// Text so far: what deltas say, what ends them, for every event of both catalogs.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Texts, closedBy, deltaOf } from "../../client/sessionwire/browser/deltas.js";

const DATA = new URL("../data/", import.meta.url);

function corpus(name) {
  const lines = readFileSync(new URL(`${name}.jsonl`, DATA), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line)).map((each) => each.event ?? each);
}

for (const name of ["copilot", "everruns"]) {
  test(`every event of the ${name} corpus is a part, an end or neither`, () => {
    for (const event of corpus(name)) {
      const closed = closedBy(event);
      assert.ok(closed === null || closed.every((key) => typeof key === "string"), event.type);
      const delta = deltaOf(event);
      assert.ok(delta === null || typeof delta.text === "string", event.type);
    }
  });
}

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
    const texts = new Texts();
    assert.equal(texts.add(delta).text.length, 1);
    assert.equal(texts.add(closer), null);
    assert.equal(texts.open.size, 0, closer.type);
  }
});

test("text so far is what was added, or what a delta says of all before it", () => {
  const texts = new Texts();
  for (const word of ["a", "b"]) {
    texts.add({ type: "assistant.message_delta", data: { messageId: "m", deltaContent: word } });
  }
  const whole = { message_id: "n", delta: "z", accumulated: "xyz" };
  texts.add({ type: "output.message.delta", data: whole });
  assert.deepEqual([...texts.open.values()].map((each) => each.text), ["ab", "xyz"]);
});

test("a cold resume ends what was being written, a warm one does not", () => {
  for (const [sessionWasActive, left] of [[true, 1], [false, 0], [undefined, 0]]) {
    const texts = new Texts();
    texts.add({ type: "assistant.message_delta", data: { messageId: "m", deltaContent: "a" } });
    texts.add({ type: "session.resume", data: { sessionWasActive } });
    assert.equal(texts.open.size, left);
  }
});
