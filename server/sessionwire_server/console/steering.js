/** What is sent to the session's host, and what became of it. */

import { byId, make } from "./elements.js";

const SHOWN = 4;
const WORDS = {
  sending: "sending", accepted: "accepted, no host has read it yet", delivered: "with the host",
  consumed: "taken", rejected: "rejected", expired: "expired", failed: "not sent",
};

export class Steering {
  #session;
  #over = new AbortController();
  #receipts = byId("receipts");
  #form = byId("steer");
  #isHeld = false;
  #tries = new Map();

  /** @param {import("../../../client/sessionwire/browser/hub.js").Session} session */
  constructor(session) {
    this.#session = session;
    const { signal } = this.#over;
    this.#receipts.replaceChildren();
    byId("steer-problem").textContent = "";
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#submit();
    }, { signal });
    byId("steer-text").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      void this.#submit();
    }, { signal });
    byId("abort").addEventListener("click", () => void this.#send("Abort", "abort", {}), { signal });
    byId("mode").addEventListener("change", () => {
      const mode = byId("mode").value;
      byId("mode").value = "";
      if (mode) void this.#send(`Mode: ${mode}`, "mode.set", { mode });
    }, { signal });
  }

  close() {
    this.#over.abort();
    this.#receipts.replaceChildren();
  }

  /** @param {any} session the resource: whether it may be steered, and whether a host is there */
  show(session) {
    this.#isHeld = session.steerable === false;
    for (const control of this.#form.elements) control.disabled = this.#isHeld;
    const hint = this.#isHeld ? "This session takes no messages." : session.host?.connected ? "" : "No host is connected: what you send waits for one.";
    if (byId("steer-hint").textContent !== hint) byId("steer-hint").textContent = hint;
  }

  async #submit() {
    const field = byId("steer-text");
    const text = field.value.trim();
    if (!text || this.#isHeld) return;
    const mode = byId("steer-mode").value;
    field.value = "";
    const sent = await this.#send(text, "message.send", { prompt: text, mode });
    // Nothing that was typed is lost, unless something else is there by now.
    if (!sent && field.value === "") field.value = text;
  }

  async #send(label, type, data) {
    byId("steer-problem").textContent = "";
    const line = make("li");
    const state = make("span", "state", WORDS.sending);
    line.append(make("span", "what", label.length > 80 ? `${label.slice(0, 80)}…` : label), state);
    this.#receipts.prepend(line);
    while (this.#receipts.childElementCount > SHOWN) this.#receipts.lastElementChild.remove();
    const show = (status, detail = "") => {
      state.dataset.state = status;
      state.textContent = [WORDS[status] ?? status, detail].filter(Boolean).join(": ");
    };
    // The same text after a failure that may have been a success is the same command.
    const what = JSON.stringify([type, data]);
    const id = this.#tries.get(what) ?? crypto.randomUUID();
    this.#tries.set(what, id);
    let first;
    try {
      first = await this.#session.command(type, data, id);
      this.#tries.delete(what);
    } catch (error) {
      show("failed", error.message);
      byId("steer-problem").textContent = error.message;
      return false;
    }
    void this.#watch(first, show);
    return true;
  }

  async #watch(first, show) {
    try {
      for await (const receipt of this.#session.receipts(first, this.#over.signal)) show(receipt.status, receipt.detail ?? "");
    } catch {
      // The stream says that the hub is away; the receipt stays as it was last heard.
    }
  }
}
