/** The text of an event stream, cut anywhere, as messages. WHATWG HTML §9.2.6. */

/** @typedef {{name: string, id: string, data: string}} Message */

export class Decoder {
  #rest = "";
  #name = "";
  /** @type {string[]} */
  #data = [];
  #id = "";
  /** The stream's own reconnection time, 0 until it says one. */
  retryMs = 0;

  /** @param {string} text @returns {Message[]} */
  feed(text) {
    // A CR at the end may be half of a line end: it waits for what comes next.
    const whole = this.#rest + text;
    const held = whole.endsWith("\r");
    const lines = (held ? whole.slice(0, -1) : whole).split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? "") + (held ? "\r" : "");
    /** @type {Message[]} */
    const messages = [];
    for (const line of lines) {
      if (line !== "") this.#field(line);
      else if (this.#data.length > 0) {
        messages.push({ name: this.#name || "message", id: this.#id, data: this.#data.join("\n") });
        this.#name = "";
        this.#data = [];
      } else this.#name = "";
    }
    return messages;
  }

  /** @param {string} line */
  #field(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#name = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
  }
}
