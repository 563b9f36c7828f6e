// The `eventsource-client` package. Prints one JSON line for every unnamed message it hears.
//   node eventsource-client.mjs URL KEY
import { createEventSource } from "eventsource-client";

const [url, key] = process.argv.slice(2);
const say = (item) => process.stdout.write(`${JSON.stringify(item)}\n`);

createEventSource({
  url,
  headers: { Authorization: `Bearer ${key}` },
  onConnect: () => say({ kind: "open" }),
  onDisconnect: () => say({ kind: "lost" }),
  onMessage: ({ event, id, data }) => {
    if (event === undefined) say({ kind: "event", id, data: JSON.parse(data) });
  },
});
