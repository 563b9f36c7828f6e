"""What the hub promises, sentence by sentence, and the mark that says which test proves what.

Each requirement names the section of docs/protocol.md that it is from; "Failure" and "Clients" are
promises of their own. `test_requirements.py` fails while one has no test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

__all__ = ["REQUIREMENTS", "Requirement", "proves"]

Test = TypeVar("Test", bound=Callable[..., object])


class Requirement(NamedTuple):
    section: str
    sentence: str


def proves(*ids: str) -> Callable[[Test], Test]:
    """Mark a test as the proof of requirements. An unknown id fails at import."""
    unknown = [name for name in ids if name not in REQUIREMENTS]
    assert not unknown, f"no such requirements: {unknown}"

    def mark(test: Test) -> Test:
        return test

    return mark


def _table(section: str, sentences: dict[str, str]) -> dict[str, Requirement]:
    return {name: Requirement(section, text) for name, text in sentences.items()}


REQUIREMENTS: dict[str, Requirement] = {
    **_table(
        "2 Words",
        {
            "cursor-shape": "A cursor is <epoch>.<sequence>.<offset>.<check>, in its alphabet.",
            "numbers-dense": "Sequences and offsets go 1, 2, 3 … without holes, whoever publishes.",
            "session-id-shape": "A session id outside its grammar is refused, whatever the route.",
        },
    ),
    **_table(
        "3 Events and catalogs",
        {
            "as-written": "An event arrives with the members, order and number spellings it had.",
            "corpus-survives": "Both corpora survive publish, stream, list and export.",
            "line-breaks": "Raw line breaks and other separators never reach the stream's lines.",
            "minted": "Id, time, parent, context and session id left out are minted.",
            "parent-chain": "A minted parentId is the id of the durable event before it.",
            "sequence-is-ours": "sequence is the hub's, in durable everruns events and no other.",
            "one-catalog": "An event of the other catalog is refused with catalog_mismatch.",
            "ephemeral-rule": "The catalog's table or the flag decides what is not stored.",
            "rewind": "A rewind hides what it names from every way to read the past.",
            "rewind-unknown": "A rewind to an unknown id hides nothing and is delivered.",
            "validation": "lenient stores what does not fit, strict refuses it with a pointer.",
            "type-names": "Reserved and malformed types are refused in every validation mode.",
            "event-ids": "Event ids are 1 to 128 printable ASCII characters without space.",
            "idempotent": "One id is one event: the first body stands, the second is a duplicate.",
            "idempotent-race": "A hundred simultaneous publishes of one id store one event.",
        },
    ),
    **_table(
        "4 HTTP",
        {
            "two-prefixes": "Everything under /v1 is also under /api/v1.",
            "problem-body": "Errors are problem+json with both vocabularies and a stable code.",
            "session-create": "Create answers 201, the same again 200, a different one 409.",
            "session-resource": "GET shows the session with cursor, sequence and status.",
            "session-delete": "Delete ends streams, refuses publishes and lets the id begin anew.",
            "publish-forms": "One event, an array and NDJSON are all taken.",
            "publish-place": "A refused body names the event's index, the line or the offset.",
            "publish-atomic": "Nothing of a refused batch is stored.",
            "publish-bounds": "More events or bytes than allowed are refused, with the index.",
            "publish-creates": "An unknown session is created by a publish and 404 for a read.",
            "ndjson-resend": "A broken NDJSON upload can be sent again as a whole.",
            "ndjson-split-utf8": "A character cut in two by chunks arrives whole.",
            "list-follow": "List, then follow from its cursor: nothing is lost or doubled.",
            "list-pages": "Paging back and forward covers each event once.",
            "list-filters": "The list's filters keep what they say.",
            "list-errors": "Every bad list parameter is a 400 with a code.",
            "summary": "The summary counts by type.",
            "export": "The export is the whole log as NDJSON.",
            "export-round-trip": "What was exported can be published again elsewhere.",
            "session-list": "The session list pages newest first.",
            "session-list-stream": "The session list as a stream gives a snapshot, then changes.",
        },
    ),
    **_table(
        "6 Streams over SSE",
        {
            "sse-headers": "Event-stream type, no caching, no buffering, no compression.",
            "sse-at-once": "Headers and the first frame come at once, before any event.",
            "sse-lf-only": "LF is the only line end; no CR, no BOM, no raw separator.",
            "sse-forgery": "No publisher can forge a field of the stream.",
            "connected-first": "connected is first, with retry and the id where delivery starts.",
            "event-frame": "event: is the type, id: the cursor, data: the event in one line.",
            "every-cursor": "Every event has a cursor, and each one resumes just after it.",
            "heartbeat": "A silent stream gets a heartbeat comment.",
            "presence-true": "Viewers are counted over all hubs, and those of a dead one lapse.",
            "state-frames": "Open prompts and presence are told at once and at each change.",
            "opener-kept": "An open prompt's passing opener is replayed once, in its place.",
            "pending-counted": "Open prompts are counted wherever a session is shown.",
            "names-off": "names=0 leaves the event line out.",
            "retry-jitter": "retry differs from connection to connection, 1000 to 3000 ms.",
            "everruns-plain": "everruns without control: event ids, on durable events only.",
            "everruns-plain-strict": "Without control=1 no frame but lifecycle and whole events.",
            "order": "connected, then replay, then live, each event once.",
            "caught-up": "control=1 gets caught_up once, when replay has reached live.",
            "snapshot": "control=1 gets last values that replay will not bring, once.",
            "cursor-choice": "The first of the cursor's spellings that is not empty counts.",
            "cursor-conflict": "since_id with after_sequence is 400 cursor_conflict.",
            "cursor-malformed": "A malformed cursor is 400; no input gives a 5xx.",
            "after-sequence": "after_sequence starts after that event, 0 with the first.",
            "from": "from=start, now and -N choose where a stream without a cursor starts.",
            "since-event-id": "since_id takes ids of durable and of passing events.",
            "since-time": "An unknown id of version 7 resumes by its time.",
            "gap-trimmed": "A cursor older than what is kept: gap trimmed.",
            "gap-epoch": "A cursor of another epoch: gap epoch_changed.",
            "gap-future": "A cursor beyond the head: gap future_cursor.",
            "gap-rewound": "A cursor in a rewound range: gap rewound, from the rewind event on.",
            "gap-unknown": "An unknown event id: gap unknown_id.",
            "gap-check": "A cursor whose check does not fit is judged as of another epoch.",
            "gap-none-at-head": "A cursor at the head is no gap, however old.",
            "gap-told": "A gap is a frame with control=1, else in connected and a comment.",
            "tail-replay": "Inside the tail passing events are replayed too, in their place.",
            "catch-up": "A late joiner gets one catch-up event for each open message.",
            "catch-up-dropped": "A message whose durable event is there is not caught up.",
            "last-event-id-plain": "everruns by Last-Event-ID: durable events and catch-up only.",
            "filters": "types keeps, exclude removes; unknown or too many are 400.",
            "filters-agents": "agents keeps the primary agent or the named ones.",
            "filters-cursor": "Filters never hold the cursor back.",
            "no-content": "204 tells a browser to stop: the session is deleted.",
            "viewer-limit": "A full session answers 429 with Retry-After.",
            "cycle": "A connection is cycled with disconnecting, and nothing is lost by it.",
            "drain": "SIGTERM: 500 viewers are told, spread, and the hub ends with 0.",
            "drain-idle-exit": "SIGTERM with one stream open ends the hub soon.",
            "slow-reader": "A slow reader of a long backlog finishes in constant memory.",
            "head-of-line": "A reader that does not read delays nobody else.",
            "stuck-reader": "A reader that never reads is closed after send_timeout_s.",
            "disconnect-seen": "A viewer that leaves is forgotten soon, whatever way it leaves.",
            "any-chunking": "The stream reads the same in single bytes.",
            "cut-anywhere": "A stream cut at any byte resumes with nothing lost or doubled.",
            "two-hubs": "A cursor of one hub resumes at another.",
            "replay-boundary": "Viewers that open while events pour in miss and repeat nothing.",
            "head-request": "HEAD gives the headers without a stream.",
            "wrong-method": "Other methods are 405.",
        },
    ),
    **_table(
        "10 Access",
        {
            "key-forms": "A key is taken as Bearer and bare; none or a wrong one is 401.",
            "scopes": "A missing scope is 403.",
            "patterns": "A session outside the key's patterns is 404.",
            "tickets": "A ticket opens a stream in a browser and can do no more than its maker.",
            "token-end": "A stream ends at the moment its token does, and says so.",
            "query-secrets": "Tokens in a query never reach the log.",
            "cors": "Listed origins are allowed, on errors too; others are not.",
            "sign-in": "The cookie of the sign-in needs an own or listed Origin to write.",
            "ready": "Ready is proven through Redis and the live path.",
            "metrics-open": "Metrics need admin.",
        },
    ),
    **_table(
        "7 WebSocket",
        {
            "ws-subscribe": "A subscription answers, replays in order and goes on live.",
            "ws-same": "SSE and WebSocket give the same events with the same cursors.",
            "ws-switch": "Switching between them with a cursor loses and doubles nothing.",
            "ws-many": "One connection follows many sessions and lets go of any of them.",
            "ws-publish": "Publishing is what it is over HTTP: all or nothing, as written.",
            "ws-list": "The session list is the one of the stream.",
            "ws-rpc": "JSON-RPC 2.0 is spoken whole: batches, notifications, ids, errors.",
            "ws-errors": "What is refused names its code and ends nothing.",
            "ws-deleted": "The end of the only session closes with 4504, of one among many not.",
            "ws-reset": "A new epoch is told, and delivery begins at the oldest kept.",
            "ws-access": "Keys, tickets, the cookie and authenticate open it; others get 4500.",
            "ws-origin": "A page that is not listed is refused with 403.",
            "ws-limits": "Sessions, calls, messages and connections have limits of their own.",
            "ws-ends": "Cycling, draining and an expired token are told before the close.",
            "ws-slow": "A slow reader costs constant memory, delays nobody and ends with 4001.",
            "ws-dead": "A peer that answers no ping is ended.",
            "ws-fuzz": "No message makes the hub fail: never a 1011, never a silent end.",
            "ws-command": "A sender is told each stage of its commands, each once and in order.",
            "ws-host-redelivery": "A host gets what waits in order, again until acknowledged.",
            "ws-host-lease": "A session has one host, whatever transport it comes by.",
            "ws-host-many": "One connection hosts many sessions, each in order.",
            "ws-host-ends": "The end of a host is told, and its lease is given back.",
            "ws-host-slow": "A host that does not read costs constant memory and stays the host.",
            "ws-prompt": "Prompts are told, answered, claimed and read as over HTTP.",
            "ws-prompt-first": "Of answers over both transports one wins, and all are told.",
            "ws-prompt-refused": "Refusals of prompts have the code they have on HTTP.",
            "ws-steering-refused": "Refusals of steering have the code and place of HTTP.",
            "ws-steering-scopes": "Scopes are checked at each call, and when the token changes.",
        },
    ),
    **_table(
        "8 Prompts",
        {
            "prompt-open": "An opener makes a prompt with its event, at every hub, in order.",
            "prompt-corpus": "Every example history leaves open what it should, event by event.",
            "prompt-history": "History opens nothing again; what is open opens once.",
            "prompt-batch": "Each call of an everruns batch is a prompt of its own.",
            "prompt-ends": "Abort, shutdown, resume, rewind, turns and deletion end prompts.",
            "prompt-list": "A session's prompts are listed by status, in pages.",
            "prompt-everywhere": "The open prompts of all sessions are listed that a token reads.",
            "prompt-wait": "Who waits for a prompt hears its next change, whoever made it.",
            "prompt-unattended": "A prompt that nobody connected can answer says so.",
            "prompt-status": "A session tells how many prompts it waits for, and which.",
            "prompt-rid": "Any request id can be asked for, claimed and answered.",
            "prompt-kinds": "Every kind is answered in its own words, checked against its prompt.",
            "prompt-refused": "Each wrong answer has its own status and code, and changes nothing.",
            "prompt-late": "A late answer is the fault of that call alone.",
            "prompt-first": "One of 200 answers wins, whatever is killed, and all are told.",
            "prompt-many": "Many prompts at once: each reply names its own, none stays open.",
            "prompt-idempotent": "An answer sent again under its key is told the same.",
            "prompt-audit": "The record says who answered, when, from where and how fast.",
            "prompt-host": "An answer reaches the host until acknowledged, under one id.",
            "prompt-restarts": "Hub, Redis and host restart in any order and lose nothing.",
            "prompt-completion": "The hub closes what is answered, or leaves it to the host.",
            "prompt-host-answers": "The host's own completed event is an answer.",
            "prompt-overruled": "Where the host decides otherwise, it is the truth.",
            "prompt-claims": "A claim keeps others out while it lasts, for programs' kinds.",
            "prompt-expiry": "A deadline ends a prompt with an event, swept or not.",
            "prompt-human": "A managed prompt takes its answer from a person alone.",
            "prompt-secrets": "Credentials stand in their command and nowhere else.",
            "prompt-scopes": "Reading needs read, answering answer; others see no session.",
        },
    ),
    **_table(
        "9 Commands",
        {
            "command-receipts": "A command goes accepted, delivered, consumed; each is told.",
            "command-told": "A command reaches its host as it was written, whichever hub took it.",
            "command-once": "A hundred simultaneous sends of one id are one command.",
            "command-redelivery": "What is not acknowledged comes again, in order, at each attach.",
            "command-cursor": "A host's cursor leaves out what it has.",
            "command-expiry": "A command expires unless a host has read it.",
            "command-steerable": "A session that says it is not steerable takes no command.",
            "command-full": "Only so many commands wait.",
            "command-refused": "Every refusal has its status, code and place.",
            "command-deleted": "Deleting a session ends its commands and its host.",
            "command-scopes": "Sending needs steer, hosting publish.",
            "host-lease": "One host at a time; takeover and return fence the one before.",
            "host-hub-killed": "A killed hub's host goes on elsewhere; its lease ends by itself.",
            "host-redis-restart": "A host and its commands outlive a restart of Redis.",
            "host-drain": "A draining hub gives its leases back and keeps nobody waiting.",
            "steer-intent": "Messages that wait and messages that steer keep order and intent.",
            "steer-abort": "An abort loses no command: each is used or rejected, and told so.",
        },
    ),
    **_table(
        "Failure",
        {
            "redis-restart": "Redis restarted: streams stay, publishes get 503, nothing is lost.",
            "redis-flush": "All state gone: a new epoch, clients are told to begin anew.",
            "redis-lost-writes": "Redis lost writes: a new epoch, and what is kept is delivered.",
            "redis-scripts": "Scripts flushed: nobody notices.",
            "redis-pause": "Redis stalls: streams stay, nothing is lost or doubled.",
            "redis-black-hole": "A dead Redis connection is noticed and replaced.",
            "redis-pubsub-kill": "Pub/sub connections killed: viewers miss nothing.",
            "redis-output-buffer": "Redis drops a lagging subscriber: viewers miss nothing.",
            "redis-away-stream": "A stream asked for without Redis opens and waits.",
            "redis-away-start": "A hub started without Redis lives, is not ready, and heals.",
            "redis-full": "A full Redis is 507 for publishes; reads go on.",
            "redis-connections": "Redis connections do not grow with viewers.",
            "hub-killed": "A hub killed: its viewers go on at another.",
            "publisher-retry": "A publish whose answer was lost can be sent again.",
            "no-leak": "After thousands of connections everything is back where it was.",
            "storm": "2,000 viewers at random places behind a full-speed publisher lose nothing.",
        },
    ),
    **_table(
        "Clients",
        {
            "everruns-sdk": "everruns-sdk streams, resumes and lists unmodified.",
            "everruns-sdk-agent": "everruns-sdk's AgentClient calls an agent through the hub.",
            "everruns-sdk-budgets": "everruns-sdk keeps budgets, resumes and pins sessions.",
            "everruns-sdk-verbs": "everruns-sdk's Everruns client steers and answers a session.",
            "httpx-sse": "httpx-sse reads the stream.",
            "node-eventsource": "WHATWG EventSource reads, reconnects and stops.",
            "curl": "curl shows the headers and the framing.",
        },
    ),
}
