/**
 * The console: sign in, the list of sessions, one session live. A plain page without a framework.
 *
 * It signs in once, by the cookie of `POST v1/sign-in`; a key in the address (`#key=…`) is traded for
 * it and cleared. The address names what is shown: `#/` the list, `#/s/<id>` a session.
 */

import { Conversation, Link, make } from "./conversation.js";
import { follow, problemOf } from "./stream.js";

const byId = (id) => document.getElementById(id);

/** @type {Map<string, object>} */
const sessions = new Map();
let listening = new AbortController();
let shown = null;
let shownId = "";

async function signIn(key) {
  const response = await fetch("v1/sign-in", {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
  });
  if (!response.ok) throw new Error(await problemOf(response));
}

function askForKey(problem = "") {
  listening.abort();
  leave();
  byId("panes").hidden = true;
  byId("sign-out").hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-problem").textContent = problem;
  byId("key").focus();
}

function begin() {
  byId("sign-in").hidden = true;
  byId("panes").hidden = false;
  byId("sign-out").hidden = false;
  listening = new AbortController();
  const link = new Link(byId("list-state"), { brief: true });
  follow(
    "v1/sessions/sse",
    {
      liveOn: "snapshot",
      onFrame: takeListFrame,
      onState: (state) => {
        if (state.name === "refused") askForKey(state.detail);
        else link.show(state);
      },
    },
    listening.signal,
  );
  route();
}

function takeListFrame(frame) {
  const data = JSON.parse(frame.data);
  if (frame.name === "snapshot") {
    sessions.clear();
    for (const session of data.data) sessions.set(session.id, session);
  } else if (frame.name === "session.updated") sessions.set(data.id, data);
  else if (frame.name === "session.deleted") sessions.delete(data.id);
  else return;
  drawList();
}

function drawList() {
  const wanted = byId("find").value.trim().toLowerCase();
  const all = [...sessions.values()].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  const kept = all.filter((s) => `${s.title ?? ""} ${s.id}`.toLowerCase().includes(wanted));
  const list = byId("session-list");
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : "";
  list.replaceChildren(...kept.map(listItem));
  if (focused) list.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
  byId("session-count").textContent = String(all.length);
  byId("no-sessions").hidden = kept.length > 0;
  byId("no-sessions").textContent = wanted
    ? "No session matches."
    : "No sessions yet. One appears with its first event.";
  drawHead();
}

function listItem(session) {
  const item = make("li");
  const link = make("a");
  link.href = `#/s/${encodeURIComponent(session.id)}`;
  link.dataset.id = session.id;
  if (session.id === shownId) link.setAttribute("aria-current", "page");
  const status = make("span", "status", wordFor(session.status));
  status.dataset.status = session.status ?? "";
  const facts = make("span", "sub", [session.catalog, ago(session.updated_at)].filter(Boolean).join(" · "));
  link.append(make("span", "title", session.title || session.id), status, facts);
  item.append(link);
  return item;
}

function wordFor(status) {
  return status === "waitingfortoolresults" ? "waiting" : status ?? "";
}

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

function ago(time) {
  const seconds = (new Date(time) - Date.now()) / 1000;
  if (Number.isNaN(seconds)) return "";
  if (seconds > -60) return "just now";
  if (seconds > -3_600) return relative.format(Math.round(seconds / 60), "minute");
  if (seconds > -86_400) return relative.format(Math.round(seconds / 3_600), "hour");
  return relative.format(Math.round(seconds / 86_400), "day");
}

function drawHead() {
  if (!shownId) return;
  const session = sessions.get(shownId);
  byId("session-title").textContent = session?.title || shownId;
  byId("session-id").textContent = shownId;
  byId("session-facts").textContent = session
    ? ` · ${session.catalog} · ${wordFor(session.status)}`
    : "";
  document.title = `${session?.title || shownId} · sessionwire`;
}

function leave() {
  shown?.close();
  shown = null;
  shownId = "";
  document.title = "sessionwire";
}

/** Shows what the address names. */
function route() {
  if (byId("panes").hidden) return;
  const named = /^#\/s\/(.+)$/.exec(location.hash);
  const sid = named ? decodeURIComponent(named[1]) : "";
  if (sid === shownId && sid !== "") return;
  leave();
  byId("panes").classList.toggle("one", sid !== "");
  byId("open-session").hidden = sid === "";
  byId("nothing-open").hidden = sid !== "";
  if (sid) {
    shownId = sid;
    shown = new Conversation(sid);
  }
  drawList();
}

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = byId("key");
  try {
    await signIn(field.value.trim());
    field.value = "";
    begin();
  } catch (error) {
    byId("sign-in-problem").textContent = error.message;
    field.select();
  }
});

byId("sign-out").addEventListener("click", async () => {
  await fetch("v1/sign-in", { method: "DELETE" });
  askForKey();
});

byId("find").addEventListener("input", drawList);
window.addEventListener("hashchange", () => (location.hash.startsWith("#key=") ? start() : route()));
setInterval(() => {
  if (!document.hidden && !byId("panes").hidden) drawList();
}, 30_000);

async function start() {
  byId("hub").textContent = location.host;
  const given = /^#key=(.+)$/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", `${location.pathname}#/`);
    try {
      await signIn(decodeURIComponent(given[1]));
    } catch (error) {
      askForKey(error.message);
      return;
    }
  }
  try {
    const response = await fetch("v1/sessions?limit=1");
    if (response.ok) begin();
    else if (response.status === 401) askForKey();
    else askForKey(await problemOf(response));
  } catch {
    askForKey("The hub does not answer.");
  }
}

start();
