"""Query parameters, read strictly: what is not understood is an error that names it.

A parameter that is there and empty counts as absent. Lists are written by repeating the key; a
parameter that is no list and stands there twice is refused, for nobody could know which is meant.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import QueryParams

from sessionwire_schemas.cursor import MAX_NUMBER
from sessionwire_server.errors import HubError
from sessionwire_server.minting import milliseconds

__all__ = ["Query", "invalid"]

_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}


def invalid(name: str, what: str) -> HubError:
    """Build the error of a parameter."""
    return HubError(400, "invalid_parameter", f"{name}: {what}", parameter=name)


class Query:
    """The parameters of one request. Every reader raises 400 `invalid_parameter`."""

    def __init__(self, params: QueryParams) -> None:
        self._params = params

    def text(self, name: str, max_bytes: int = 1_024) -> str:
        """Read a text, "" if absent."""
        values = self._params.getlist(name)
        if len(values) > 1:
            raise invalid(name, "stands there more than once")
        text = values[0] if values else ""
        if len(text.encode(errors="replace")) > max_bytes:
            raise invalid(name, f"more than {max_bytes} bytes")
        return text

    def many(self, name: str, most: int, max_bytes: int = 256) -> list[str]:
        """Read the values of a repeated key, at most `most`."""
        values = [value for value in self._params.getlist(name) if value]
        if len(values) > most:
            raise invalid(name, f"too many values ({len(values)}, max {most})")
        for value in values:
            if len(value.encode(errors="replace")) > max_bytes:
                raise invalid(name, f"a value of more than {max_bytes} bytes")
        return values

    def integer(self, name: str, low: int, high: int = MAX_NUMBER) -> int | None:
        """Read a whole number from `low` to `high`, None if absent."""
        text = self.text(name)
        if not text:
            return None
        if text.isascii() and text.isdigit() and len(text) <= 16 and low <= int(text) <= high:
            return int(text)
        range_of = f"from {low} to {high}" if high < MAX_NUMBER else f"of at least {low}"
        raise invalid(name, f"must be a whole number {range_of}, not {text[:40]!r}")

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Read `true`, `false`, `1` or `0`."""
        text = self.text(name)
        if not text:
            return default
        if text not in _FLAGS:
            raise invalid(name, f"must be true or false, not {text[:40]!r}")
        return _FLAGS[text]

    def choice(self, name: str, words: tuple[str, ...]) -> str:
        """Read one of some words, "" if absent."""
        text = self.text(name)
        if text and text not in words:
            raise invalid(name, f"must be one of {', '.join(words)}, not {text[:40]!r}")
        return text

    def time(self, name: str) -> int | None:
        """Read an RFC 3339 time as Unix milliseconds, cut off; None if absent."""
        # An unescaped `+` of an offset arrives as a space.
        text = self.text(name)
        if not text:
            return None
        spelled = text[:10] + text[10:].replace(" ", "+")
        found = milliseconds(spelled)
        if found is None:
            raise invalid(name, f"must be an RFC 3339 time, not {text[:40]!r}")
        return found
