// A hub on socket.io with its adapter for Redis streams, and connection state recovery, which is
// what it has for clients that come back.
//
//   /socket.io/?session=NAME   a viewer of NAME
//   POST /sessions/NAME        the body, JSON, is emitted to the viewers of NAME
//   GET  /livez
//
// Usage: node server.js PORT REDIS_SOCKET
"use strict";

const http = require("node:http");
const { createClient } = require("redis");
const { createAdapter } = require("@socket.io/redis-streams-adapter");
const { Server } = require("socket.io");

const QUIET_MS = 5 * 60 * 1000;
const KEPT = 20_000;
const READ_AT_ONCE = 1_000;

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks));
}

async function main([port, socketPath]) {
  const redis = createClient({ socket: { path: socketPath } });
  await redis.connect();
  const server = http.createServer(async (request, response) => {
    if (request.url.startsWith("/sessions/") && request.method === "POST") {
      const event = await bodyOf(request);
      io.to(request.url.slice("/sessions/".length)).emit("event", event);
    } else if (request.url !== "/livez") {
      return; // socket.io's own
    }
    response.end();
  });
  const io = new Server(server, {
    adapter: createAdapter(redis, { maxLen: KEPT, readCount: READ_AT_ONCE }),
    connectionStateRecovery: { maxDisconnectionDuration: QUIET_MS, skipMiddlewares: true },
    perMessageDeflate: false,
    pingInterval: QUIET_MS,
    pingTimeout: QUIET_MS,
    serveClient: false,
  });
  io.on("connection", (socket) => socket.join(socket.handshake.query.session));
  server.keepAliveTimeout = QUIET_MS;
  server.listen(Number(port), "127.0.0.1", 4096);
}

main(process.argv.slice(2));
