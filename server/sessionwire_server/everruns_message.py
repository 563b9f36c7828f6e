"""Messages of an everruns session: as they are sent, stored and listed (protocol.md §4.8). Pure.

A message that a client sends becomes one `input.message` and one command `message.send`, both with
ids that follow from the message's own: however often it is sent again, it is one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from uuid import UUID

import msgspec

from sessionwire_schemas.paths import member
from sessionwire_server.api_keys import Principal
from sessionwire_server.commands import NewCommand
from sessionwire_server.everruns_bodies import SendMessage
from sessionwire_server.minting import rfc3339

__all__ = ["MESSAGE_TYPES", "NewMessage", "event_id_of", "message_of", "named_id"]

MESSAGE_TYPES: Final = frozenset(
    {"input.message", "output.message.completed", "conversation.message", "tool.completed"}
)
"""The events that say what somebody said."""

_PARTS: Final = frozenset({"text", "image", "image_file", "tool_call", "tool_result"})
"""What the official client can read; it fails on a list that holds anything else."""

_ROLES: Final = frozenset({"system", "user", "agent", "tool_result"})
_OBJECTS: Final = ("controls", "external_actor", "metadata")


def named_id(prefix: str, *words: str) -> str:
    """Make an id that follows from words: the same ones make the same id."""
    digest = hashlib.blake2b("\0".join(words).encode(errors="surrogatepass"), digest_size=16)
    return f"{prefix}_{digest.hexdigest()}"


def event_id_of(text: str) -> str:
    """Make an event's id that follows from a text: a UUID of version 8, for it hashes."""
    bits = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest())
    bits = bits & ~(0xF << 76) | 0x8 << 76
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    return f"event_{UUID(int=bits).hex}"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message on its way.

    Attributes:
        id: names it, and its command.
        said: what was sent.
        content: its parts, as they were given.
    """

    id: str
    said: SendMessage
    content: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, said: SendMessage, body: bytes, words: Sequence[str]) -> NewMessage:
        """Name what was sent.

        Args:
            said: the body.
            body: its bytes, for the parts.
            words: what the id follows from; empty for a new one.
        """
        content = cast("list[Mapping[str, Any]]", msgspec.json.decode(body)["message"]["content"])
        name = named_id("message", *words) if words else f"message_{secrets.token_hex(16)}"
        return cls(name, said, content)

    @property
    def event_id(self) -> str:
        """The id of its event."""
        return event_id_of(self.id)

    def _members(self) -> dict[str, Any]:
        said = self.said
        more = {
            "controls": said.controls,
            "metadata": said.metadata,
            "external_actor": said.external_actor,
        }
        return {
            "id": self.id,
            "role": "user",
            "content": self.content,
            **{name: value for name, value in more.items() if value is not None},
        }

    def event(self, now_ms: int) -> bytes:
        """Spell its `input.message`."""
        said, now = self.said, rfc3339(now_ms)
        event: dict[str, Any] = {
            "id": self.event_id,
            "type": "input.message",
            "ts": now,
            "context": {"input_message_id": self.id},
            "data": {"message": {**self._members(), "created_at": now}},
        }
        if said.tags:
            event["tags"] = said.tags
        if said.addressed_participant_id is not None:
            event["metadata"] = {"addressed_participant_id": said.addressed_participant_id}
        return msgspec.json.encode(event)

    def command(self, sender: Principal) -> NewCommand:
        """Make the command that takes it to the host.

        A user's message steers the turn that runs or begins one. It has no time, so that the same
        message is the same command.
        """
        texts = [str(part["text"]) for part in self.content if part["type"] == "text"]
        rest = [part for part in self.content if part["type"] != "text"]
        data: dict[str, Any] = {
            "prompt": "\n".join(texts),
            "mode": "immediate",
            **({"attachments": rest} if rest else {}),
            "message": self._members(),
            "event_id": self.event_id,
        }
        for name in ("tags", "addressed_participant_id"):
            value = getattr(self.said, name)
            if value is not None:
                data[name] = value
        return NewCommand(
            id=self.id,
            type="message.send",
            data=msgspec.json.encode(data),
            by={"id": sender.id, "name": sender.name or None, "human": sender.human},
        )


def message_of(body: bytes) -> dict[str, Any] | None:
    """Read the message of a stored event; None if it says nothing that can be shown."""
    event: Any = msgspec.json.decode(body)
    data: Any = event.get("data")
    if not isinstance(data, dict):
        return None
    data = cast("dict[str, Any]", data)
    found: dict[str, Any] | None
    match event["type"]:
        case "tool.completed":
            found = _tool_result(event["id"], data)
        case "conversation.message":
            part = {"type": "text", "text": data.get("text")}
            found = {"id": data.get("message_id"), "role": "agent", "content": [part]}
        case _:
            message = data.get("message")
            found = cast("dict[str, Any]", message) if isinstance(message, dict) else None
    return None if found is None else _shown(found, event)


def _tool_result(event_id: str, data: Mapping[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_result", "tool_call_id": data.get("tool_call_id")}
    if data.get("result") is not None:
        part["result"] = data["result"]
    if isinstance(data.get("error"), str):
        part["error"] = data["error"]
    return {
        "id": f"message_{event_id.removeprefix('event_')}",
        "role": "tool_result",
        "content": [part],
    }


def _shown(message: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Keep what the official client can read, whatever a lenient hub has let in."""
    content = message.get("content")
    parts = cast("list[object]", content) if isinstance(content, list) else []
    kept = [part for part in parts if member(part, "type") in _PARTS]
    if not kept or not isinstance(message.get("id"), str):
        return None
    role, created = message.get("role"), message.get("created_at")
    shown: dict[str, Any] = {
        "id": message["id"],
        "role": role if role in _ROLES else "agent",
        "content": kept,
        "created_at": created if isinstance(created, str) else event["ts"],
    }
    shown |= {name: message[name] for name in _OBJECTS if isinstance(message.get(name), dict)}
    if isinstance(message.get("phase"), str):
        shown["phase"] = message["phase"]
    return shown
