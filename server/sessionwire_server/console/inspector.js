/** The raw JSON of an event, beside the timeline. */

import { button, byId, make, pretty } from "./elements.js";

const MOST = 200_000;

export class Inspector {
  #pane = byId("inspector");
  #from = null;

  constructor() {
    byId("inspector-close").addEventListener("click", () => this.hide());
    this.#pane.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.hide();
    });
  }

  /** @param {any[]} events @param {() => void} back puts the focus back to where it came from */
  show(events, back) {
    this.#from = back;
    const body = byId("inspector-body");
    body.replaceChildren();
    for (const event of events) {
      const text = pretty(event);
      const block = make("pre", "", text.slice(0, MOST));
      block.tabIndex = 0;
      block.ariaLabel = `JSON of ${event.type}`;
      block.role = "region";
      const head = make("div", "json-head");
      head.append(make("code", "type", event.type), button("Copy", (clicked) => void copy(text, clicked.currentTarget), { className: "quiet" }));
      body.append(head, block);
      if (text.length > MOST) body.append(make("p", "hint", `${text.length - MOST} characters more; Copy has all of it.`));
    }
    this.#pane.hidden = false;
    byId("inspector-close").focus({ preventScroll: true });
  }

  hide() {
    if (this.#pane.hidden) return;
    const had = this.#pane.contains(document.activeElement);
    this.#pane.hidden = true;
    byId("inspector-body").replaceChildren();
    if (had) this.#from?.();
    this.#from = null;
  }
}

async function copy(text, pressed) {
  try {
    await navigator.clipboard.writeText(text);
    pressed.textContent = "Copied";
  } catch {
    pressed.textContent = "Not allowed";
  }
}
