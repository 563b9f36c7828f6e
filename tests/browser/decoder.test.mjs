// The browser client's event-stream decoder: WHATWG HTML §9.2.6, for any cut of the bytes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Decoder } from "../../client/sessionwire/browser/decoder.js";

const STREAM = [
  ": heartbeat\n\n",
  "event: connected\nretry: 1500\nid: a.0.0.0\ndata: {\"status\":\"connected\"}\n\n",
  "id: a.1.1.x\ndata: {\"n\":1}\n\n",
  "data: cr alone\r\rdata: x\r\n\n",
  "data:no space\r\ndata:  two spaces\r\n\r\n",
  "event: nothing\n\n",
  "event: last\ndata\nid\ndata: x\n\n",
  "data: cut off",
].join("");

const FRAMES = [
  { name: "connected", id: "a.0.0.0", data: '{"status":"connected"}' },
  { name: "message", id: "a.1.1.x", data: '{"n":1}' },
  { name: "message", id: "a.1.1.x", data: "cr alone" },
  { name: "message", id: "a.1.1.x", data: "x" },
  { name: "message", id: "a.1.1.x", data: "no space\n two spaces" },
  { name: "last", id: "", data: "\nx" },
];

test("every cut of the stream gives the same frames", () => {
  for (let size = 1; size <= STREAM.length; size += 1) {
    const decoder = new Decoder();
    const frames = [];
    for (let at = 0; at < STREAM.length; at += size) {
      frames.push(...decoder.feed(STREAM.slice(at, at + size)));
    }
    assert.deepEqual(frames, FRAMES, `cut every ${size}`);
    assert.equal(decoder.retryMs, 1500);
  }
});

test("what is not a number is no reconnection time", () => {
  const decoder = new Decoder();
  decoder.feed("retry: soon\n\n");
  assert.equal(decoder.retryMs, 0);
});
