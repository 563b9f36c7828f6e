/**
 * The open prompts of a session as cards. The hub decides who was first; a card that somebody else
 * answered says so for a while, then goes.
 *
 * Keys work only while the focus is in a card: what is typed elsewhere never approves anything.
 */

import { button, byId, lasting, make } from "./elements.js";
import { formOf } from "./prompt_forms.js";

const GONE_MS = 8_000;

export class PromptsPanel {
  #session;
  #element = byId("prompts");
  #cards = new Map();
  #timer;
  #onChange;

  /** @param {import("../../../client/sessionwire/browser/hub.js").Session} session @param {() => void} onChange */
  constructor(session, onChange) {
    this.#session = session;
    this.#onChange = onChange;
    this.#element.replaceChildren();
    this.#timer = setInterval(() => this.#tick(), 1_000);
    this.#sizes();
  }

  close() {
    clearInterval(this.#timer);
    for (const card of this.#cards.values()) clearTimeout(card.leaving);
    this.#element.replaceChildren();
    this.#sizes();
  }

  get open() {
    return [...this.#cards.values()].filter((card) => !card.isOver).length;
  }

  /** Takes the open prompts as they are now. */
  show(prompts) {
    const here = new Set();
    for (const prompt of prompts) {
      here.add(prompt.request_id);
      const card = this.#cards.get(prompt.request_id);
      if (card && !card.isOver) card.update(prompt);
      else if (!card) this.#add(prompt);
    }
    for (const [rid, card] of this.#cards) if (!here.has(rid) && !card.isOver) void this.#gone(rid, card);
    this.#sizes();
  }

  #add(prompt) {
    const card = new Card(prompt, (answer) => this.#session.answer(prompt.request_id, answer));
    this.#cards.set(prompt.request_id, card);
    this.#element.append(card.element);
  }

  async #gone(rid, card) {
    card.isOver = true;
    let prompt = null;
    try {
      prompt = await this.#session.prompt(rid);
    } catch {
      // Forgotten by now, or out of reach: it is closed all the same.
    }
    // The news may be here before the hub's word on this page's own answer.
    await card.settled;
    card.end(prompt);
    this.#sizes();
    card.leaving = setTimeout(() => this.#remove(rid, card), GONE_MS);
    card.element.querySelector(".dismiss")?.addEventListener("click", () => this.#remove(rid, card));
  }

  #remove(rid, card) {
    clearTimeout(card.leaving);
    if (card.element.contains(document.activeElement)) byId("log").focus({ preventScroll: true });
    card.element.remove();
    this.#cards.delete(rid);
    this.#sizes();
  }

  #sizes() {
    this.#element.hidden = this.#cards.size === 0;
    this.#onChange();
  }

  #tick() {
    for (const card of this.#cards.values()) card.tick();
  }

  /** Puts the focus into the first card that waits. */
  focus() {
    const first = [...this.#cards.values()].find((card) => !card.isOver);
    first?.element.focus();
    first?.element.scrollIntoView({ block: "nearest" });
    return first !== undefined;
  }
}

class Card {
  element = make("section", "prompt");
  isOver = false;
  leaving = 0;
  #prompt;
  #send;
  #form;
  #problem = make("p", "problem");
  #facts = make("span", "facts-line");
  #buttons = [];
  #isSent = false;
  #isMine = false;
  /** The answer of this page that is on its way. */
  settled = Promise.resolve();

  constructor(prompt, send) {
    this.#prompt = prompt;
    this.#send = send;
    this.#form = formOf(prompt);
    const { element } = this;
    element.tabIndex = -1;
    element.dataset.kind = prompt.kind;
    element.dataset.id = prompt.request_id;
    element.ariaLabel = this.#form.title;
    const head = make("div", "prompt-head");
    head.append(make("h3", "", this.#form.title), this.#facts);
    const actions = make("div", "actions");
    for (const action of this.#form.actions) {
      const made = button(action.text, () => this.#answer(action), { className: action.tone ?? "", hint: action.hint ?? "" });
      actions.append(made);
      this.#buttons.push(made);
    }
    this.#problem.role = "alert";
    element.append(head, this.#form.element, this.#problem, actions);
    element.addEventListener("keydown", (event) => this.#key(event));
    this.update(prompt);
  }

  update(prompt) {
    this.#prompt = prompt;
    const isTaken = prompt.status === "answered" || this.#isSent;
    for (const made of this.#buttons) made.disabled = isTaken;
    this.element.classList.toggle("taken", isTaken);
    this.tick();
  }

  tick() {
    if (this.isOver) return;
    const { expires_at: expires, claim, status, agent_id: agent, unattended, answered_by: by } = this.#prompt;
    const left = expires ? new Date(expires) - Date.now() : null;
    const words = [
      agent ? `agent ${agent}` : "",
      status === "claimed" && claim ? `claimed by ${claim.by || "a program"}` : "",
      status === "answered" ? `answered by ${nameOf(by)}, the host has yet to confirm` : "",
      unattended ? "nobody else is here" : "",
      left === null ? "" : left > 0 ? `expires in ${lasting(Math.ceil(left / 1000) * 1000)}` : "expired",
    ].filter(Boolean).join(" · ");
    if (this.#facts.textContent !== words) this.#facts.textContent = words;
    this.element.classList.toggle("urgent", left !== null && left < 30_000);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.isOver) return;
    const isField = event.target.matches("input:not([type=radio]):not([type=checkbox]), textarea, select");
    if (event.key === "Escape" && isField) {
      this.element.focus();
      event.stopPropagation();
      return;
    }
    const main = this.#form.actions.findIndex((action) => action.main);
    if (event.key === "Enter" && main >= 0 && event.target.matches("input")) {
      event.preventDefault();
      if (!this.#buttons[main].disabled) this.#answer(this.#form.actions[main]);
      return;
    }
    if (isField || event.repeat) return;
    const index = this.#form.actions.findIndex((action) => action.hint === event.key);
    if (index < 0 || this.#buttons[index].disabled) return;
    event.preventDefault();
    event.stopPropagation();
    this.#answer(this.#form.actions[index]);
  }

  #answer(action) {
    this.#problem.textContent = "";
    let answer;
    try {
      answer = action.answer();
    } catch (error) {
      this.#problem.textContent = error.message;
      return;
    }
    this.#isSent = true;
    this.update(this.#prompt);
    this.settled = this.#deliver(answer);
  }

  async #deliver(answer) {
    try {
      await this.#send(answer);
      this.#isMine = true;
    } catch (error) {
      this.#isSent = false;
      if (!this.isOver) this.update(this.#prompt);
      this.#fail(error);
    }
  }

  #fail(error) {
    const faults = Array.isArray(error.body?.faults) ? error.body.faults : [];
    const others = this.#form.show ? this.#form.show(faults) : faults;
    if (error.code === "prompt_already_answered") {
      this.#problem.textContent = `${nameOf(error.body?.answered_by)} was first.`;
    } else if (others.length > 0) {
      this.#problem.textContent = others.map(({ pointer, message }) => `${pointer} ${message}`.trim()).join("; ");
    } else if (faults.length === 0) this.#problem.textContent = error.message;
  }

  /** Says how it ended, where that is known. */
  end(prompt) {
    const words = prompt ? endOf(prompt, this.#isMine) : "It is closed.";
    const line = make("p", "ended", words);
    line.role = "status";
    const hadFocus = this.element.contains(document.activeElement);
    this.element.classList.remove("urgent");
    this.element.classList.add("over");
    this.element.replaceChildren(make("h3", "", this.#form.title), line, button("Dismiss", () => {}, { className: "quiet dismiss" }));
    if (hadFocus) this.element.focus({ preventScroll: true });
  }
}

function nameOf(by) {
  if (by?.host) return "the host";
  return by?.name || (by?.human ? "somebody" : "a program");
}

/** How it ended, in a word or two; what a tool returned is in the timeline. */
function wordsOf(prompt) {
  const { answer } = prompt;
  if (answer === null || answer === undefined || answer.redacted) return "";
  if (typeof answer === "string") return answer.replaceAll("_", " ");
  if (typeof answer.approved === "boolean") return answer.approved ? "approved" : "sent back";
  const word = answer.kind ?? answer.answer ?? answer.action ?? answer.decision ?? answer.status ?? "";
  return typeof word === "string" ? (answer.answer === undefined ? word.replaceAll(/[-_]/g, " ") : word) : "";
}

function endOf(prompt, isMine) {
  const outcome = wordsOf(prompt);
  if (prompt.answered_by) {
    const who = isMine ? "You answered" : `Answered by ${nameOf(prompt.answered_by)}`;
    return [who, outcome, prompt.comment ? `“${prompt.comment}”` : ""].filter(Boolean).join(": ");
  }
  return { expired: "It expired.", cancelled: "It was cancelled.", orphaned: "Its session ended.", withdrawn: "The agent took it back.", rewound: "It was rewound." }[prompt.status] ?? "It is closed.";
}
