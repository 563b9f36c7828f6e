/** Desktop notifications of prompts that arrive while nobody looks. Asked for, never assumed. */

import { byId } from "./elements.js";

const KEY = "sessionwire notify";

export class Notifier {
  #button = byId("notify");

  constructor() {
    if (!("Notification" in window)) {
      this.#button.hidden = true;
      return;
    }
    this.#button.addEventListener("click", () => void this.#toggle());
    this.#show();
  }

  get isOn() {
    return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(KEY) === "on";
  }

  async #toggle() {
    if (this.isOn) localStorage.removeItem(KEY);
    else if ((await Notification.requestPermission()) === "granted") localStorage.setItem(KEY, "on");
    this.#show();
  }

  #show() {
    const isDenied = Notification.permission === "denied";
    this.#button.setAttribute("aria-pressed", `${this.isOn}`);
    this.#button.textContent = isDenied ? "Notifications blocked" : this.isOn ? "Notifications on" : "Notify me";
    this.#button.disabled = isDenied;
  }

  /** @param {string} sid @param {string} title @param {string} body */
  prompt(sid, title, body) {
    if (!this.isOn || (!document.hidden && document.hasFocus())) return;
    // Several tabs of the console show one: the tag makes later ones replace it.
    const shown = new Notification(title, { body, tag: `sessionwire ${sid}` });
    shown.onclick = () => {
      window.focus();
      location.hash = `#/s/${encodeURIComponent(sid)}`;
      shown.close();
    };
  }
}
