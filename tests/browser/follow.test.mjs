// A follower's rules, over connections that a test scripts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Disconnected, HubError, Refused } from "../../client/sessionwire/browser/errors.js";
import { FIRST_MS, LAST_MS, waitMs } from "../../client/sessionwire/browser/backoff.js";
import { Follower } from "../../client/sessionwire/browser/follow.js";
import { isHad, sequenceOf } from "../../client/sessionwire/browser/cursor.js";

const connected = (cursor) => ({ name: "connected", data: { gap: null }, cursor });
const event = (n) => ({ name: "event", data: { n }, cursor: `e.${n}.${n}.x` });
const caughtUp = (n) => ({ name: "caught_up", data: {}, cursor: `e.${n}.${n}.x` });

/** Connections as lists of frames, the last item of each what ends it; "open" stays open. */
function scripted(connections) {
  const asked = [];
  const feed = async function* (request, { signal }) {
    asked.push(request.place);
    for (const item of connections[asked.length - 1] ?? ["open"]) {
      if (item === "open") await new Promise((resolve) => signal.addEventListener("abort", resolve));
      else if (item instanceof Error) throw item;
      else yield item;
    }
  };
  return { asked, choose: () => ({ feed }), fallBack: () => false };
}

function followed(connections, place = {}) {
  const feeds = scripted(connections);
  const seen = [];
  const states = [];
  let told = () => {};
  const request = { kind: "session", sid: "s", place, filters: {} };
  const follower = new Follower(feeds, request, {
    onFrame: (frame) => frame.name === "event" && seen.push(frame.data.n),
    onState: (state) => {
      states.push(state.name);
      told();
    },
  });
  const reached = async (name) => {
    while (states.at(-1) !== name) await new Promise((resolve) => (told = resolve));
  };
  return { follower, seen, states, asked: feeds.asked, reached };
}

test("a lost connection goes on after the last event that was handed over", async () => {
  const lost = [connected("e.0.0.0"), event(1), event(2), new Error("lost")];
  const { follower, seen, states, asked, reached } = followed([lost, [connected("e.2.2.x"), event(3), caughtUp(3), "open"]]);
  await reached("live");
  follower.close();
  assert.deepEqual(seen, [1, 2, 3]);
  assert.deepEqual(asked, [{}, { since: "e.2.2.x" }]);
  assert.deepEqual(states, ["connecting", "catching-up", "offline", "catching-up", "live"]);
  assert.equal(follower.cursor, "e.3.3.x");
});

test("an event whose watcher fails is given again", async () => {
  const feeds = scripted([[connected("e.0.0.0"), event(1), "open"], [connected("e.0.0.0"), event(1), caughtUp(1), "open"]]);
  let failed = false;
  const request = { kind: "session", sid: "s", place: {}, filters: {} };
  await new Promise((resolve) => {
    const follower = new Follower(feeds, request, {
      onFrame: (frame) => {
        if (frame.name !== "event") return;
        if (failed) return;
        failed = true;
        throw new Error("of the page");
      },
      onState: ({ name }) => {
        if (name !== "live") return;
        queueMicrotask(() => follower.close());
        resolve();
      },
    });
  });
  assert.deepEqual(feeds.asked, [{}, { since: "e.0.0.0" }]);
});

test("what will never work ends it, with the hub's sentence", async () => {
  const refusal = new Refused("refused", "no such session", "session_not_found");
  const { follower, asked, reached } = followed([[refusal]]);
  await reached("refused");
  assert.equal(follower.state.detail, "no such session");
  assert.equal(asked.length, 1);
});

test("a planned close waits as long as it says", async () => {
  const { follower, states, reached } = followed([[connected("e.0.0.0"), new Disconnected("shutdown", 1)], [connected("e.0.0.0"), caughtUp(0), "open"]]);
  await reached("live");
  follower.close();
  assert.ok(states.includes("offline"));
});

test("a pause lets go and a resume goes on from there", async () => {
  const first = [connected("e.0.0.0"), event(1), caughtUp(1), "open"];
  const { follower, seen, asked, reached } = followed([first, [connected("e.1.1.x"), event(2), caughtUp(2), "open"]]);
  await reached("live");
  follower.pause();
  await reached("paused");
  follower.resume();
  await reached("live");
  follower.close();
  assert.deepEqual(seen, [1, 2]);
  assert.deepEqual(asked[1], { since: "e.1.1.x" });
});

test("a restart begins where it is told to", async () => {
  const first = [connected("e.9.9.x"), caughtUp(9), "open"];
  const { follower, asked, states, reached } = followed([first, [connected("e.1.1.x"), event(2), caughtUp(2), "open"]], { since: "e.9.9.x" });
  await reached("live");
  const again = states.length;
  follower.restart({ from: "-8" });
  while (!states.slice(again).includes("live")) await new Promise((resolve) => setImmediate(resolve));
  follower.close();
  assert.deepEqual(asked[1], { from: "-8" });
  assert.equal(follower.cursor, "e.2.2.x");
});

test("waits grow to a bound and are never none", () => {
  for (let failures = 0; failures < 40; failures += 1) {
    for (const random of [0, 0.5, 0.999]) {
      const ms = waitMs(failures, () => random);
      assert.ok(ms >= FIRST_MS / 5 && ms <= LAST_MS, `${failures} ${ms}`);
    }
  }
  assert.ok(waitMs(30, () => 0.999) > LAST_MS * 0.9);
});

test("a new ticket may help where a key would not", () => {
  assert.equal(Refused.fits(401, "unauthorized", false), true);
  assert.equal(Refused.fits(401, "unauthorized", true), false);
  assert.equal(Refused.fits(429, "too_many_viewers", false), false);
  assert.equal(Refused.fits(503, "redis_unavailable", false), false);
});

test("what was had is told by epoch and offset", () => {
  assert.equal(isHad("e.1.5.x", "e.1.5.x"), true);
  assert.equal(isHad("e.1.6.x", "e.1.5.x"), false);
  assert.equal(isHad("f.1.1.x", "e.9.9.x"), false);
  assert.equal(isHad("", "e.1.1.x"), false);
  assert.equal(sequenceOf("e.7.9.x"), 7);
});

test("an answer without a body still says its status", async () => {
  const error = await HubError.of(new Response("<html>", { status: 502 }));
  assert.equal(error.message, "HTTP 502");
});
