/**
 * The console: sign in, the list of sessions, one session live. A plain page without a framework.
 *
 * It signs in once, by the cookie of `POST v1/sign-in`; a key in the address (`#key=…`) is traded for
 * it and cleared. The address names what is shown: `#/` the list, `#/s/<id>` a session.
 */

import { Hub } from "./console/client/index.js";
import { byId } from "./elements.js";
import { Inspector } from "./inspector.js";
import { Notifier } from "./notify.js";
import { SessionList } from "./session_list.js";
import { SessionView } from "./session_view.js";

const hub = new Hub();
const inspector = new Inspector();
const notifier = new Notifier();

let list = null;
let shown = null;
let shownId = "";

function askForKey(problem = "") {
  leave();
  list?.close();
  list = null;
  byId("panes").hidden = true;
  for (const id of ["sign-out", "notify", "waiting"]) byId(id).hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-problem").textContent = problem;
  byId("key").focus();
}

function begin() {
  byId("sign-in").hidden = true;
  byId("panes").hidden = false;
  byId("sign-out").hidden = false;
  byId("notify").hidden = !("Notification" in window);
  list?.close();
  list = new SessionList(hub, { refused: askForKey, changed });
  route();
}

/** A session of the list changed. */
function changed(session, before) {
  const { waiting } = list;
  byId("waiting").hidden = waiting === 0;
  byId("waiting-count").textContent = `: ${waiting}`;
  if (!shownId) document.title = waiting > 0 ? `(${waiting}) sessionwire` : "sessionwire";
  if (session.id === shownId && !session.deleted) shown?.describe(session);
  if (before && (session.pending_prompts ?? 0) > (before.pending_prompts ?? 0)) {
    notifier.prompt(session.id, session.title || session.id, "An agent waits for you.");
  }
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
  let sid = "";
  try {
    sid = named ? decodeURIComponent(named[1]) : "";
  } catch {
    // A broken address is no address.
  }
  if (sid === shownId && sid !== "") return;
  leave();
  byId("panes").classList.toggle("one", sid !== "");
  byId("open-session").hidden = sid === "";
  byId("nothing-open").hidden = sid !== "";
  if (sid) {
    shownId = sid;
    shown = new SessionView(hub, sid, { inspector, onPrompts: () => {} });
    const known = list?.get(sid);
    if (known) shown.describe(known);
  }
  list?.mark(sid);
}

/** The next session that waits for somebody. */
function showWaiting() {
  const next = list?.waitingOne(shownId);
  if (next) location.hash = `#/s/${encodeURIComponent(next)}`;
  else shown?.focusPrompts();
}

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = byId("key");
  try {
    await hub.signIn(field.value.trim());
    field.value = "";
    begin();
  } catch (error) {
    byId("sign-in-problem").textContent = error.message;
    field.select();
  }
});

byId("sign-out").addEventListener("click", async () => {
  try {
    await hub.signOut();
  } catch {
    // Signed out is what the page shows; the cookie may outlive a hub that is away.
  }
  askForKey();
});

byId("waiting").addEventListener("click", showWaiting);
byId("keys-open").addEventListener("click", () => byId("keys").showModal());
byId("keys-close").addEventListener("click", () => byId("keys").close());

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches?.("input, textarea, select") || byId("panes").hidden || byId("keys").open) return;
  if (event.key === "?") byId("keys").showModal();
  else if (event.key === "/") byId("find").focus();
  else if (event.key === "w") showWaiting();
  else if (!shown?.key(event.key)) return;
  event.preventDefault();
});

window.addEventListener("hashchange", () => (location.hash.startsWith("#key=") ? start() : route()));

async function start() {
  byId("hub").textContent = location.host;
  const given = /^#key=(.+)$/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", `${location.pathname}#/`);
    try {
      await hub.signIn(decodeURIComponent(given[1]));
    } catch (error) {
      askForKey(error.message);
      return;
    }
  }
  try {
    await hub.json("v1/sessions", { query: { limit: 1 } });
    begin();
  } catch (error) {
    if (error.status === 401) askForKey();
    else askForKey(error.status ? error.message : "The hub does not answer.");
  }
}

start();
