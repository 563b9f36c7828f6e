// WHATWG EventSource of the `eventsource` package. Prints one JSON line for everything it hears.
//   node eventsource.mjs URL KEY [TYPE…]     without types: unnamed messages
import { EventSource } from "eventsource";

const [url, key, ...types] = process.argv.slice(2);
const say = (item) => process.stdout.write(`${JSON.stringify(item)}\n`);
const withKey = (input, init) =>
  fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${key}` } });

const source = new EventSource(url, { fetch: withKey });
const hear = ({ type, lastEventId, data }) =>
  say({ kind: "event", type, id: lastEventId, data: JSON.parse(data) });
for (const type of types.length > 0 ? types : ["message"]) source.addEventListener(type, hear);
source.onopen = () => say({ kind: "open" });
source.onerror = () =>
  say({ kind: source.readyState === EventSource.CLOSED ? "closed" : "lost", state: source.readyState });

// A closed source leaves nothing to wait for; whoever started this ends it.
setInterval(() => {}, 1_000);
