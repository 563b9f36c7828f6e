"""Events as typed objects: what all of them have in common (protocol.md §3).

A typed event is for whoever reads or writes events in Python. It keeps members that it does not
know, keeps null apart from absent, keeps times as they were written, and `dump` gives back the JSON
that it was read from. The hub itself passes bytes on and needs none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from sessionwire_schemas.fields import Boolean, Integer

__all__ = [
    "CopilotEnvelope",
    "EphemeralRule",
    "EventContext",
    "EverrunsEnvelope",
    "OpenModel",
    "SessionEvent",
    "Stability",
    "UnknownCopilotEvent",
    "UnknownEvent",
    "UnknownEverrunsEvent",
    "UnknownKind",
    "UnknownType",
    "Visibility",
]

EphemeralRule: TypeAlias = Literal["always", "optional", "never"]
Visibility: TypeAlias = Literal["public", "internal"]
Stability: TypeAlias = Literal["stable", "experimental"]


class OpenModel(BaseModel):
    """A JSON object with known members, under Python names; other members are kept.

    A member that may be missing reads as None. Objects are built with the members' JSON names:
    `AssistantMessageDeltaData(messageId="m1", deltaContent="Hel")`.
    """

    # Each class is built when it is first used: nobody meets all 400 of them.
    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True, protected_namespaces=())

    def dump(self) -> dict[str, Any]:
        """Return the object as JSON values, with the members that were given and no others."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    def dump_json(self) -> bytes:
        """Return the same as UTF-8."""
        return to_json(self.dump())


class UnknownKind(OpenModel):
    """An object whose `kind` is not in the catalog."""

    kind: Any = None


class UnknownType(OpenModel):
    """An object whose `type` is not in the catalog."""

    type: Any = None


class SessionEvent(OpenModel):
    """An event of either catalog.

    Attributes:
        event_type: the type that the class stands for; "" for unknown types.
        ephemeral_rule: what the catalog says about keeping it; see `TypeInfo`.
        visibility: `internal` types are meant for the runtime alone.
        stability: whether its shape may still change.
    """

    __slots__ = ("_source",)

    event_type: ClassVar[str] = ""
    ephemeral_rule: ClassVar[EphemeralRule] = "optional"
    visibility: ClassVar[Visibility] = "public"
    stability: ClassVar[Stability] = "stable"

    if TYPE_CHECKING:
        # The envelopes declare them, each in its catalog's order.
        id: str
        type: str
        data: Any

    @classmethod
    def read(cls, source: object) -> Self:
        """Make an event of this class from decoded JSON, and remember the order of its members.

        Raises:
            pydantic.ValidationError: `source` does not fit the class.
        """
        event = cls.model_validate(source)
        object.__setattr__(event, "_source", source)
        return event

    def dump(self) -> dict[str, Any]:
        """Return the event as JSON values: those it was read from, with members in their order."""
        dumped = super().dump()
        try:
            # Not getattr: that would also find a member of the event's that has this name.
            source: object = object.__getattribute__(self, "_source")
        except AttributeError:
            return dumped
        return cast("dict[str, Any]", _in_order(dumped, source))


class UnknownEvent(SessionEvent):
    """An event whose type is not in the catalog; `UnknownCopilotEvent` and its sister are these."""


class CopilotEnvelope(SessionEvent):
    """What every copilot event has around its data."""

    id: str
    timestamp: str
    parent_id: str | None = Field(alias="parentId")
    ephemeral: Boolean | None = None
    agent_id: str | None = Field(default=None, alias="agentId")
    type: str
    data: Any


class UnknownCopilotEvent(CopilotEnvelope, UnknownEvent):
    """A copilot event of a type that is not in the catalog."""


class EventContext(OpenModel):
    """Where an everruns event belongs: its turn, step and span."""

    turn_id: str | None = None
    input_message_id: str | None = None
    exec_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None


class EverrunsEnvelope(SessionEvent):
    """What every everruns event has around its data; `sequence` is the hub's."""

    id: str
    type: str
    ts: str
    session_id: str
    context: EventContext
    data: Any
    metadata: Any = None
    tags: list[str] | None = None
    sequence: Integer | None = None


class UnknownEverrunsEvent(EverrunsEnvelope, UnknownEvent):
    """An everruns event of a type that is not in the catalog."""


def _in_order(value: object, source: object) -> object:
    """Return `value` with the members of its objects in the order they have in `source`."""
    if isinstance(value, dict) and isinstance(source, dict):
        here, there = cast("dict[str, object]", value), cast("dict[str, object]", source)
        ordered = {name: _in_order(here[name], there[name]) for name in there if name in here}
        return ordered | {name: item for name, item in here.items() if name not in there}
    if isinstance(value, list) and isinstance(source, list):
        items, others = cast("list[object]", value), cast("list[object]", source)
        return [
            _in_order(item, others[place]) if place < len(others) else item
            for place, item in enumerate(items)
        ]
    return value  # pyright: ignore[reportUnknownVariableType] - narrowed by isinstance, still object
