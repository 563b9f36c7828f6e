/** What a connection is doing, in words; offline counts down to the next try. */

import { clock, make } from "./elements.js";

const WORDS = { "catching-up": "catching up", ended: "deleted" };

export class Badge {
  #element;
  #brief;
  #timer = 0;

  constructor(element, { brief = false } = {}) {
    this.#element = element;
    this.#brief = brief;
  }

  show(state) {
    clearInterval(this.#timer);
    this.#element.dataset.state = state.name;
    if (state.name !== "offline") {
      const word = state.name === "refused" ? `refused: ${state.detail}` : WORDS[state.name] ?? state.name;
      if (this.#element.textContent !== word) this.#element.textContent = word;
      return;
    }
    this.#element.textContent = `offline since ${clock(state.since)}`;
    if (this.#brief) return;
    // Not for screen readers: they would read it out every second.
    const countdown = make("span");
    countdown.setAttribute("aria-hidden", "true");
    this.#element.append(countdown);
    const write = () => {
      const left = Math.max(0, Math.ceil((state.retryAt - Date.now()) / 1000));
      countdown.textContent = left > 0 ? `, next try in ${left} s` : ", trying again";
    };
    write();
    this.#timer = setInterval(write, 500);
  }

  stop() {
    clearInterval(this.#timer);
  }
}
