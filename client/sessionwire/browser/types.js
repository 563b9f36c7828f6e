/**
 * The shapes that the modules share, for `tsc` and for readers; nothing runs here.
 *
 * @typedef {"connecting" | "catching-up" | "live" | "offline" | "paused" | "refused" | "ended"} StateName
 *
 * @typedef {object} State What a connection is doing.
 * @property {StateName} name
 * @property {Date} [since] offline: when the hub was last heard
 * @property {Date} [retryAt] offline: when it is tried next
 * @property {string} [detail] refused: the hub's sentence
 * @property {string} [code] refused: the hub's stable word
 *
 * @typedef {object} SessionEvent A session event as its producer wrote it, of either catalog.
 * @property {string} id
 * @property {string} type
 * @property {any} data
 * @property {string} [timestamp] copilot
 * @property {string | null} [parentId] copilot
 * @property {boolean} [ephemeral] copilot
 * @property {string} [agentId] copilot
 * @property {string} [ts] everruns
 * @property {string} [session_id] everruns
 * @property {Record<string, any>} [context] everruns
 * @property {number} [sequence] everruns, durable events only
 *
 * @typedef {object} Frame One message of a stream, whatever brought it (protocol.md §6.5, §7.3).
 * @property {string} name `event` for a session event, else the frame's name: `connected`,
 *   `caught_up`, `prompts`, `presence`, `snapshot`, `gap`, `reset`, `cursor`, `disconnecting`
 * @property {any} data the event itself, or the frame's data
 * @property {string} cursor the place after it, "" where it has none
 *
 * @typedef {object} Filters
 * @property {string[]} [types] these types only
 * @property {string[]} [exclude] all but these
 * @property {string[]} [agents] `primary`, or agents' ids; copilot
 *
 * @typedef {object} Place Where to begin. Nothing in it: as the hub is set, by default at the start.
 * @property {string} [since] a cursor or an event's id
 * @property {string} [from] `start`, `now` or `-N`
 *
 * @typedef {object} SessionRequest
 * @property {"session"} kind
 * @property {string} sid
 * @property {Place} place
 * @property {Filters} filters
 *
 * @typedef {object} ListRequest
 * @property {"list"} kind
 * @property {{status?: string, catalog?: string, q?: string}} filters
 *
 * @typedef {SessionRequest | ListRequest} StreamRequest
 *
 * @typedef {object} Attempt What a feed is told and tells while it is open.
 * @property {AbortSignal} signal ends it
 * @property {() => void} heard the hub said something, if only a heartbeat
 * @property {(check: () => void) => void} onCheck takes what asks whether the hub is still there
 *
 * @typedef {(request: StreamRequest, attempt: Attempt) => AsyncGenerator<Frame, void, void>} Feed
 *   Brings the frames of one connection. Returns where the connection ended, throws `Refused` where
 *   asking again is in vain, and anything else where it is not.
 *
 * @typedef {object} Watch What a follower tells.
 * @property {(frame: Frame) => void} onFrame
 * @property {(state: State) => void} [onState]
 *
 * @typedef {object} Prompt A question that an agent waits on (protocol.md §8.2).
 * @property {string} request_id
 * @property {string} session_id
 * @property {string} kind
 * @property {string} status
 * @property {SessionEvent | null} event its opener
 * @property {string} opened_at
 * @property {string | null} expires_at
 * @property {{by: string, expires_at: string} | null} claim
 * @property {any} answer
 * @property {{name?: string | null, human?: boolean, host?: boolean, via?: string} | null} answered_by
 * @property {string | null} answered_at
 * @property {boolean | null} unattended
 * @property {boolean} [claimable]
 * @property {boolean} [human]
 * @property {boolean} [secret]
 * @property {string} [tool_call_id]
 * @property {string} [agent_id]
 * @property {string} [comment]
 * @property {string} [outcome]
 * @property {string} [detail]
 *
 * @typedef {object} Receipt What became of a command (protocol.md §9.2).
 * @property {string} id
 * @property {"accepted" | "delivered" | "consumed" | "rejected" | "expired"} status
 * @property {string} [type]
 * @property {string | null} [detail]
 * @property {string | null} [event_id]
 */

export {};
