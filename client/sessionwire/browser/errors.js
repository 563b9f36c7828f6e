/** What can go wrong between a page and its hub. */

/** The hub answered, and the answer is no (protocol.md §12). */
export class HubError extends Error {
  /**
   * @param {number} status HTTP status
   * @param {string} code the stable word that programs may branch on
   * @param {string} message for people
   * @param {any} [body] the whole answer: `pointer`, `faults`, `answered_by` …
   */
  constructor(status, code, message, body = null) {
    super(message);
    this.name = "HubError";
    this.status = status;
    this.code = code;
    this.body = body;
  }

  /** @param {Response} response @returns {Promise<HubError>} */
  static async of(response) {
    let body = null;
    try {
      body = await response.json();
    } catch {
      // A proxy's page, or nothing: the status says what there is to say.
    }
    const message = body?.detail || body?.title || `HTTP ${response.status}`;
    return new HubError(response.status, body?.code || "", message, body);
  }
}

/** A stream that will never work as it was asked for. */
export class Refused extends Error {
  /**
   * @param {"refused" | "ended"} final the state that the follower ends in
   * @param {string} message
   * @param {string} code
   */
  constructor(final, message, code) {
    super(message);
    this.name = "Refused";
    this.final = final;
    this.code = code;
  }

  /**
   * Whether a status can never become a success by asking again; 401 may be a ticket that is over,
   * which `renewable` says.
   *
   * @param {number} status
   * @param {string} code
   * @param {boolean} renewable
   */
  static fits(status, code, renewable) {
    if (status === 401) return !renewable;
    return [400, 403, 404, 410, 422].includes(status) && code !== "busy";
  }
}

/** A connection that was planned to close: reconnect after `retryMs`, at no cost. */
export class Disconnected extends Error {
  /** @param {string} reason @param {number} retryMs */
  constructor(reason, retryMs) {
    super(reason);
    this.name = "Disconnected";
    this.reason = reason;
    this.retryMs = retryMs;
  }
}
