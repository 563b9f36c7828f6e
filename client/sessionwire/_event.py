"""One event of a session, as it was written and as a typed object, read when it is asked for.

An event never fails to be handed over because of what is in it: a payload that does not fit its
type's model is `LooseData`, and so is one of a type that the catalogs do not have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from sessionwire.errors import ProtocolError
from sessionwire_schemas.catalog import CATALOGS, CatalogName, detect

if TYPE_CHECKING:
    from sessionwire_schemas.envelope import SessionEvent

__all__ = ["Event", "LooseData"]

_HUMP = re.compile(r"_([a-z0-9])")


class LooseData(Mapping[str, Any]):
    """A payload without a model: a mapping of what came, whose members read as attributes, too.

    `data.delta_content` reads `delta_content` or `deltaContent`, and None where there is neither,
    as an optional member of a model does. Members with the name of a method are read by `[...]`.
    """

    __slots__ = ("_members",)

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = members

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        camel = _HUMP.sub(lambda match: match[1].upper(), name)
        value = self._members.get(name, self._members.get(camel))
        return LooseData(cast("dict[str, Any]", value)) if isinstance(value, dict) else value

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"LooseData({self._members!r})"


@dataclass(slots=True)
class _Read:
    """What has been read of an event so far."""

    raw: dict[str, Any] | None = None
    model: SessionEvent | None = None
    fault: ValueError | None = None


@dataclass(frozen=True, slots=True, init=False)
class Event:
    """One event of the session.

    Attributes:
        type: the event's type.
        cursor: the place just after it; resume with it.
        body: the event as its producer wrote it, one line of JSON.
    """

    type: str
    cursor: str
    body: str
    _read: _Read = field(compare=False, repr=False)

    def __init__(
        self, type: str, cursor: str, body: str, raw: dict[str, Any] | None = None
    ) -> None:
        """Make one; `raw` is `body` parsed, where that was done already."""
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "cursor", cursor)
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "_read", _Read(raw))

    def json(self) -> dict[str, Any]:
        """Parse the body; the same object each time.

        Raises:
            ProtocolError: it is not a JSON object.
        """
        if self._read.raw is None:
            try:
                value: Any = json.loads(self.body)
            except ValueError as exc:
                raise ProtocolError(f"{self.type!r} event is not JSON: {self.body[:80]!r}") from exc
            if not isinstance(value, dict):
                raise ProtocolError(f"{self.type!r} event is no object: {self.body[:80]!r}")
            self._read.raw = cast("dict[str, Any]", value)
        return self._read.raw

    @property
    def raw(self) -> dict[str, Any]:
        """The event as parsed JSON, empty for a body that is no object. Not to be changed."""
        try:
            return self.json()
        except ProtocolError:
            return {}

    @property
    def bytes(self) -> bytes:
        """The body in UTF-8, as it was published."""
        return self.body.encode("utf-8", "surrogatepass")

    @property
    def id(self) -> str:
        """The event's id; empty where it has none."""
        value = self.raw.get("id")
        return value if isinstance(value, str) else ""

    @property
    def catalog(self) -> CatalogName | None:
        """The catalog that it belongs to; None if nothing in it says."""
        return detect(self.raw)

    @property
    def model(self) -> SessionEvent | None:
        """The event as an object of its type's class, for `match` and `isinstance`.

        An `UnknownEvent` where the catalog does not have the type; None where the event does not
        fit its class, and `fault` says why.
        """
        read = self._read
        if read.model is None and read.fault is None:
            catalog = self.catalog
            try:
                if catalog is None:
                    raise ValueError("nothing says which catalog it is of")
                read.model = CATALOGS[catalog].parse(self.json())
            except (ValueError, ProtocolError) as exc:
                read.fault = exc if isinstance(exc, ValueError) else ValueError(str(exc))
        return read.model

    @property
    def fault(self) -> ValueError | None:
        """Why `model` is None: usually a `pydantic.ValidationError`."""
        return None if self.model is not None else self._read.fault

    @property
    def data(self) -> Any:
        """The payload: the model's `data`, with members under Python names.

        Where there is no model it is `LooseData`, or the value itself where that is no object.
        """
        model = self.model
        value = self.raw.get("data") if model is None else model.data
        return LooseData(cast("dict[str, Any]", value)) if isinstance(value, dict) else value
