"""A session as people read it: one line for what matters, deltas joined as they come.

Owns the wording and the joining; writes through a function it is given and knows no terminal. Every
text is of somebody else's making, so control characters never get through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from sessionwire._items import Disconnected, Event, Gap, Item, Reset
from sessionwire_schemas.catalog import CATALOGS, Catalog

__all__ = ["Transcript", "Write", "clean"]

Write = Callable[[str, str], None]
"""Takes a text, maybe with a line break at its end, and a rich style."""

MAX_DETAIL: Final = 200
"""Characters of an event's data shown where nothing better is known about its type."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_HIDDEN: Final = frozenset(
    {
        *("assistant.message_start", "assistant.streaming_delta", "assistant.tool_call_delta"),
        *("assistant.usage", "model.call_start", "pending_messages.modified"),
        *("session.usage_info", "assistant.turn_start", "assistant.turn_end", "assistant.idle"),
        *("hook.start", "hook.end", "session.tools_updated"),
        *("output.message.started", "reason.started", "reason.thinking.started"),
        *("capability.usage", "llm.generation", "act.started", "act.completed"),
    }
)
"""Noise between the lines; `--json` has it."""

_SPEAKERS: Final[Mapping[str, tuple[str, str]]] = {
    "user.message": ("user", "bold cyan"),
    "input.message": ("user", "bold cyan"),
    "assistant.message": ("agent", "default"),
    "assistant.message_delta": ("agent", "default"),
    "output.message.delta": ("agent", "default"),
    "output.message.completed": ("agent", "default"),
    "assistant.reasoning": ("thinks", "dim italic"),
    "assistant.reasoning_delta": ("thinks", "dim italic"),
    "reason.thinking.delta": ("thinks", "dim italic"),
    "reason.thinking.completed": ("thinks", "dim italic"),
    "tool.execution_partial_result": ("output", "dim"),
    "tool.output.delta": ("output", "dim"),
}


class Transcript:
    """Turns items into text. Feed it everything a followed session hands out."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._open = ""
        """Key of the message whose deltas stand on the line that is not finished."""
        self._at_line_start = True
        self._told: dict[str, int] = {}
        """Characters shown of messages that are still open, by key."""

    def show(self, item: Item) -> None:
        """Show an item, if people want to see it."""
        match item:
            case Event():
                self._event(item)
            case Disconnected():
                why = f" ({item.detail})" if item.detail else ""
                self._notice(f"{item.reason}{why}, again in {item.wait_s:.1f} s", "yellow")
            case Gap():
                self._notice(f"events are missing here: {item.reason}", "bold yellow")
            case Reset():
                self._told.clear()
                self._notice("the session begins anew", "bold yellow")
            case _:
                pass

    def end(self) -> None:
        """Finish an unfinished line."""
        if not self._at_line_start:
            self._put("\n", "default")
        self._open = ""

    def _put(self, text: str, style: str) -> None:
        self._write(text, style)
        self._at_line_start = text.endswith("\n")

    def _notice(self, text: str, style: str) -> None:
        self.end()
        self._put(f"-- {clean(text)}\n", style)

    def _event(self, event: Event) -> None:
        members = event.json()
        inner = members.get("data")
        data = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
        agent = members.get("agentId")
        prefix = f"[{clean(agent)}] " if isinstance(agent, str) else ""
        catalog = _catalog_of(event.type)
        rule = catalog.delta_rule(event.type) if catalog else None
        if catalog and rule and rule.text_member and event.type in _SPEAKERS:
            self._delta(event.type, catalog, data, prefix)
            return
        streamed = self._close(catalog, event.type, data, members.get("context"))
        if event.type in _HIDDEN:
            return
        label, style = _SPEAKERS.get(event.type, ("", "default"))
        text = _text_of(data)
        if label:
            if text and not streamed:
                self.end()
                self._put(f"{prefix}{label:>6}  {clean(text)}\n", style)
            return
        self.end()
        self._put(*_described(event.type, data, prefix))

    def _delta(self, type_: str, catalog: Catalog, data: dict[str, Any], prefix: str) -> None:
        rule, key = catalog.delta_rule(type_), catalog.message_key(type_, data)
        text = data.get(rule.text_member or "") if rule else None
        if not isinstance(text, str) or not text:
            return
        label, style = _SPEAKERS[type_]
        if self._open != key or not key:
            self.end()
            again = "… " if key in self._told else ""
            self._put(f"{prefix}{label:>6}  {again}", style)
            self._open = key or type_
        self._told[key] = self._told.get(key, 0) + len(text)
        self._put(clean(text), style)

    def _close(
        self, catalog: Catalog | None, type_: str, data: dict[str, Any], context: object
    ) -> bool:
        """Forget the messages an event replaces. Returns: whether they have been shown whole."""
        keys = catalog.closes(type_, data, context) if catalog else ()
        shown = sum(self._told.pop(key, 0) for key in keys)
        if "*" in keys:
            self._told.clear()
        if self._open in keys or "*" in keys:
            self.end()
        return 0 < shown >= len(_text_of(data))


def _catalog_of(type_: str) -> Catalog | None:
    return next((catalog for catalog in CATALOGS.values() if type_ in catalog.types), None)


def clean(text: str) -> str:
    """Replace control characters: a terminal would obey them."""
    return _CONTROL.sub("\ufffd", text)


def _text_of(data: Mapping[str, Any]) -> str:
    """Find what a message says: `content`, or the text parts of `message.content`."""
    message = data.get("message")
    holder = cast("dict[str, Any]", message) if isinstance(message, dict) else data
    for name in ("content", "text", "thinking"):
        value = holder.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            parts = cast("list[object]", value)
            texts = [cast("dict[str, Any]", p).get("text") for p in parts if isinstance(p, dict)]
            return "".join(text for text in texts if isinstance(text, str))
    return ""


def _told_by(outcome: Mapping[str, Any]) -> str:
    """Find what a tool's result says, or the message of its error."""
    message = outcome.get("message")
    return message if isinstance(message, str) else _text_of(outcome)


def _described(type_: str, data: Mapping[str, Any], prefix: str) -> tuple[str, str]:
    match type_:
        case "tool.execution_start":
            detail = _compact(data.get("arguments"))
            return f"{prefix}  tool  {clean(str(data.get('toolName')))} {detail}\n", "magenta"
        case "tool.execution_complete":
            word, style = ("done", "green") if data.get("success") else ("failed", "red")
            what = data.get("result") if word == "done" else data.get("error") or data.get("result")
            text = _told_by(cast("dict[str, Any]", what)) if isinstance(what, dict) else ""
            return f"{prefix}{word:>6}  {clean(_first_line(text))}\n", style
        case "subagent.started":
            return f"{prefix} agent  {clean(str(data.get('agentDisplayName')))} starts\n", "blue"
        case "permission.requested":
            request = data.get("permissionRequest")
            what = cast("dict[str, Any]", request) if isinstance(request, dict) else {}
            text = str(what.get("fullCommandText") or what.get("kind") or "")
            return f"{prefix}  asks  {clean(_first_line(text))}\n", "yellow"
        case "user_input.requested" | "elicitation.requested" | "exit_plan_mode.requested":
            texts = (data.get(name) for name in ("question", "message", "summary"))
            text = next((text for text in texts if isinstance(text, str)), "")
            return f"{prefix}  asks  {clean(_first_line(text))}\n", "yellow"
        case "permission.completed":
            result = data.get("result")
            kind = cast("dict[str, Any]", result).get("kind") if isinstance(result, dict) else ""
            return f"{prefix}answer  {clean(str(kind))}\n", "yellow"
        case "user_input.completed" | "elicitation.completed" | "exit_plan_mode.completed":
            said = {name: value for name, value in data.items() if name != "requestId"}
            return f"{prefix}answer  {_compact(said)}\n", "yellow"
        case "assistant.intent":
            return f"{prefix} plans  {clean(str(data.get('intent')))}\n", "bold"
        case "session.title_changed" | "session.title.updated":
            return f"{prefix} title  {clean(str(data.get('title')))}\n", "bold"
        case "session.idle" | "session.idled":
            return f"{prefix}  idle\n", "dim"
        case _:
            return f"{prefix}        {clean(type_)} {_compact(data)}\n", "dim"


def _first_line(text: str) -> str:
    line, _, rest = text.strip().partition("\n")
    return line[:MAX_DETAIL] + (" …" if rest or len(line) > MAX_DETAIL else "")


def _compact(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False) if value else ""
    return clean(text[:MAX_DETAIL] + ("…" if len(text) > MAX_DETAIL else ""))
