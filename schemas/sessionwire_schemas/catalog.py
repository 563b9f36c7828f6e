"""The two catalogs: which event types there are and what the hub does with each (protocol.md §3).

Owns the rules that need no typed model: what is ephemeral, what is a last value, which deltas make
one message and what replaces it, what changes status and title. They work on tables and on JSON
that nobody has checked: whatever shape `data` has, they answer and never raise. The pydantic models
are loaded on first use, so that a hub's hot path never pays for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

from sessionwire_schemas import _tables
from sessionwire_schemas.deltas import CLOSERS, DELTAS, EVERY_MESSAGE, CloseRule, DeltaRule
from sessionwire_schemas.everruns_pairs import EVERRUNS_PAIRS
from sessionwire_schemas.names import EVENT_ID_PATTERN
from sessionwire_schemas.pairs import Pair
from sessionwire_schemas.paths import key_part, member

if TYPE_CHECKING:
    from sessionwire_schemas.envelope import SessionEvent

__all__ = [
    "CATALOGS",
    "COPILOT",
    "EVERRUNS",
    "NO_EFFECTS",
    "Catalog",
    "CatalogName",
    "DeltaRule",
    "Effects",
    "EphemeralRule",
    "Pair",
    "TypeInfo",
    "detect",
]

CatalogName = Literal["copilot", "everruns"]
EphemeralRule = Literal["always", "optional", "never"]
Status: TypeAlias = Literal["", "active", "idle"]

_REWIND: Final = "session.snapshot_rewind"


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """What a catalog says about one event type.

    Attributes:
        name: the event type.
        ephemeral: `always`, `optional` (the event's own flag says) or `never`. What the hub makes
            of it is `Catalog.is_ephemeral`.
        visibility: `internal` types are meant for the runtime alone.
        stability: whether its shape may still change.
        description: one sentence; "" where the catalog has none.
        model_name: name of its class among the catalog's models.
        catalog: name of the catalog.
    """

    name: str
    ephemeral: EphemeralRule
    visibility: Literal["public", "internal"]
    stability: Literal["stable", "experimental"]
    description: str
    model_name: str
    catalog: CatalogName

    @property
    def model(self) -> type[SessionEvent]:
        """The pydantic class of its events; the first use loads the catalog's models."""
        from sessionwire_schemas import typed

        return typed.model_of(self.catalog, self.name)


class Effects(NamedTuple):
    """What an event does to its session, beside being one event more of it.

    Each member is what the `Catalog` method in its description returns.
    """

    last_key: str = ""
    """`last_key`: key under which the event is a last value."""
    message_key: str = ""
    """`message_key`: for a delta, key of the message it belongs to."""
    closes: tuple[str, ...] = ()
    """`closes`: message keys that it replaces; `("*",)` closes every open message."""
    rewind_to: str = ""
    """`rewind_to`: `upToEventId` of a rewind."""
    status: Status = ""
    """`status_after`: new status of the session, empty for no change."""
    title: str | None = None
    """`title_of`: new title of the session."""
    steerable: bool | None = None
    """`steerable_after`: whether it takes commands from now on, None for no change."""


NO_EFFECTS: Final = Effects()


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """A named set of event types and their rules. There are two: `COPILOT` and `EVERRUNS`.

    Attributes:
        name: the catalog's name, as sessions carry it.
        types: every type of the catalog, in its order.
        turn_start_type: type of the event that a turn begins with.
        pairs: what opens and closes what.
    """

    name: CatalogName
    types: Mapping[str, TypeInfo]
    turn_start_type: str
    pairs: tuple[Pair, ...]
    _lasts: Mapping[str, str]
    _statuses: Mapping[str, Status]
    _title_type: str
    _deltas: Mapping[str, DeltaRule]
    _closers: Mapping[str, tuple[CloseRule, ...]]
    _secrets: Mapping[str, tuple[str, ...]]
    _steering: frozenset[str]
    _acting: frozenset[str] = field(init=False)
    """Types that may have effects, and are no deltas."""

    def __post_init__(self) -> None:
        tables = (self._lasts, self._statuses, self._closers, self._steering)
        acting = frozenset[str]().union(*tables, (self._title_type, _REWIND))
        object.__setattr__(self, "_acting", acting)

    def effects(
        self, type: str, data: object, *, agent_id: object = None, context: object = None
    ) -> Effects:
        """Return all that an event does, as the methods below tell it one by one.

        Most types do nothing and most events are deltas, which belong to a message and do no more:
        they cost one look-up.
        """
        delta = self._deltas.get(type)
        if delta is not None:
            return Effects(message_key=delta.key(data))
        if type not in self._acting:
            return NO_EFFECTS
        return Effects(
            last_key=self.last_key(type, data, agent_id),
            closes=self.closes(type, data, context),
            rewind_to=self.rewind_to(type, data),
            status=self.status_after(type),
            title=self.title_of(type, data),
            steerable=self.steerable_after(type, data),
        )

    def is_ephemeral(self, type: str, flag: bool | None) -> bool:
        """Decide whether the hub keeps an event out of the log.

        The catalog's table or `ephemeral: true` in the event, known type or not; but a rewind is
        durable whatever either says, for the history after it makes no sense without it.
        """
        if type == _REWIND and self.name == "copilot":
            return False
        info = self.types.get(type)
        return flag is True or (info is not None and info.ephemeral == "always")

    def last_key(self, type: str, data: object, agent_id: object = None) -> str:
        """Return the key under which an event replaces the one before it.

        Returns: "" where every event counts; `type`, or `type|<value>` where values of one type
        stand side by side (a server's status, an agent's intent).
        """
        path = self._lasts.get(type)
        if path is None:
            return ""
        if not path:
            return type
        if path == "agentId":
            part = key_part(agent_id)
            return f"{type}|{part}" if part else type
        part = key_part(member(data, path.removeprefix("data.")))
        return f"{type}|{part}" if part else ""

    def delta_rule(self, type: str) -> DeltaRule | None:
        """Return how a type carries a part of a message; None if it is no delta."""
        return self._deltas.get(type)

    def message_key(self, type: str, data: object) -> str:
        """Return the key `<family>|<id>` of the message that a delta is a part of.

        Returns: "" for what is no delta, or does not say which message it belongs to.
        """
        rule = self._deltas.get(type)
        return "" if rule is None else rule.key(data)

    def closes(self, type: str, data: object, context: object = None) -> tuple[str, ...]:
        """Return the keys of the messages that an event replaces, without repetition.

        Args:
            type: the event's type.
            data: its data.
            context: its everruns context, which `reason.completed` alone is known by.

        Returns: at most `paths.MAX_ITEMS` + 1 keys; `("*",)` for every open message.
        """
        rules = self._closers.get(type)
        if rules is None:
            return ()
        keys = tuple(dict.fromkeys(key for rule in rules for key in rule.keys(data, context)))
        return (EVERY_MESSAGE,) if EVERY_MESSAGE in keys else keys

    def status_after(self, type: str) -> Status:
        """Return the session's status after an event of this type, "" for no change."""
        return self._statuses.get(type, "")

    def title_of(self, type: str, data: object) -> str | None:
        """Return the session's new title, None for no change."""
        title = member(data, "title") if type == self._title_type else None
        return title if isinstance(title, str) else None

    def steerable_after(self, type: str, data: object) -> bool | None:
        """Return whether an event says that its session takes commands, None if it says nothing."""
        said = member(data, "remoteSteerable") if type in self._steering else None
        return said if isinstance(said, bool) else None

    def rewind_to(self, type: str, data: object) -> str:
        """Return the id of the first event that a rewind hides, "" for any other event."""
        if type != _REWIND or self.name != "copilot":
            return ""
        event_id = member(data, "upToEventId")
        if isinstance(event_id, str) and EVENT_ID_PATTERN.fullmatch(event_id):
            return event_id
        return ""

    def secrets(self, type: str) -> tuple[str, ...]:
        """Return the paths below `data` that are cut out before an event is stored."""
        return self._secrets.get(type, ())

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema (draft-07) of one event, a new object at each call.

        It finds the definition by the event's type, so that a validator takes a microsecond or two
        and an error names its place. Types that the catalog does not have pass.
        """
        text = files("sessionwire_schemas").joinpath(f"_{self.name}.schema.json").read_bytes()
        return cast("dict[str, Any]", json.loads(text))

    def parse(self, raw: bytes | str | dict[str, Any]) -> SessionEvent:
        """Read an event into the class of its type; `dump` gives back what was read.

        Unknown types become an `UnknownEvent`; unknown members, words and nested kinds are kept.

        Args:
            raw: the event's JSON, or the object decoded from it (which the event then holds on to).

        Raises:
            pydantic.ValidationError: the event does not fit its type.
            ValueError: the text is not JSON. (A `ValidationError` is one, too.)
        """
        from sessionwire_schemas import typed

        return typed.parse(self.name, raw)


def _types(
    catalog: CatalogName, rows: tuple[tuple[str, str, str, str, str, str], ...]
) -> Mapping[str, TypeInfo]:
    infos = {
        name: TypeInfo(
            name,
            cast("EphemeralRule", ephemeral),
            cast('Literal["public", "internal"]', visibility),
            cast('Literal["stable", "experimental"]', stability),
            description,
            model_name,
            catalog,
        )
        for name, ephemeral, visibility, stability, model_name, description in rows
    }
    return MappingProxyType(infos)


COPILOT: Final = Catalog(
    name="copilot",
    types=_types("copilot", _tables.COPILOT_TYPES),
    turn_start_type="user.message",
    pairs=_tables.COPILOT_PAIRS,
    _lasts=_tables.COPILOT_LASTS,
    _statuses={
        "abort": "idle",
        "assistant.turn_start": "active",
        "session.idle": "idle",
        "session.shutdown": "idle",
        "user.message": "active",
    },
    _title_type="session.title_changed",
    _deltas=DELTAS["copilot"],
    _closers=CLOSERS["copilot"],
    _secrets={"mcp.oauth_required": ("staticClientConfig.clientSecret", "httpResponse")},
    _steering=frozenset({"session.start", "session.remote_steerable_changed"}),
)

EVERRUNS: Final = Catalog(
    name="everruns",
    types=_types("everruns", _tables.EVERRUNS_TYPES),
    turn_start_type="turn.started",
    pairs=EVERRUNS_PAIRS,
    _lasts={
        "budget.exhausted": "data.budget_id",
        "budget.paused": "data.budget_id",
        "budget.resumed": "data.budget_id",
        "budget.warning": "data.budget_id",
        "session.model.changed": "",
        "session.title.updated": "",
    },
    _statuses={
        "session.activated": "active",
        "session.idled": "idle",
        "turn.started": "active",
    },
    _title_type="session.title.updated",
    _deltas=DELTAS["everruns"],
    _closers=CLOSERS["everruns"],
    _secrets={},
    _steering=frozenset(),
)

CATALOGS: Final[Mapping[str, Catalog]] = MappingProxyType(
    {"copilot": COPILOT, "everruns": EVERRUNS}
)
"""The catalogs by name."""


def detect(envelope: Mapping[str, object]) -> CatalogName | None:
    """Tell which catalog an event belongs to, for a session that has none yet.

    `ts`, `session_id` or `context` mean everruns, `timestamp` or `parentId` copilot. Where neither
    is there (the hub mints them) or both are, the type says, for no type is in both catalogs.

    Returns: None if nothing says.
    """
    everruns = "ts" in envelope or "session_id" in envelope or "context" in envelope
    copilot = "timestamp" in envelope or "parentId" in envelope
    if everruns != copilot:
        return "everruns" if everruns else "copilot"
    name = envelope.get("type")
    if isinstance(name, str):
        for catalog in (COPILOT, EVERRUNS):
            if name in catalog.types:
                return catalog.name
    return None
