"""How a command ends: the exit code of an error and its one line."""

from __future__ import annotations

from typing import Final

from sessionwire._event_reader import MalformedEvents
from sessionwire.errors import (
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    HubError,
    RequestRejected,
    Unauthorized,
    Unavailable,
)

__all__ = ["CONFLICT", "FAILED", "REFUSED", "UNREACHABLE", "USAGE", "CommandFailed", "describe",
           "exit_code"]  # fmt: skip

FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
"""401, 403, 404."""
CONFLICT: Final = 4
"""409, 410."""
UNREACHABLE: Final = 5
"""No answer, or one that says that the hub cannot work now."""


class CommandFailed(Exception):
    """A command cannot do what it was asked to; the text is for people."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


def exit_code(error: Exception) -> int | None:
    """Return the exit code of an error; None for one that is a fault of ours."""
    match error:
        case CommandFailed():
            return error.code
        case Unauthorized() | Forbidden() | RequestRejected(status=404):
            return REFUSED
        case Conflict() | Gone():
            return CONFLICT
        case ConnectionFailed() | Unavailable():
            return UNREACHABLE
        case HubError() | MalformedEvents() | OSError():
            return FAILED
        case _:
            # Usage errors of typer, whose class is its own or click's, as its version has it.
            code = getattr(error, "exit_code", None)
            return code if isinstance(code, int) and hasattr(error, "format_message") else None


def describe(error: Exception) -> str:
    """Say an error in one line."""
    format_message = getattr(error, "format_message", None)
    text = str(format_message() if format_message else error) or type(error).__name__
    line = error.extra.get("line") if isinstance(error, RequestRejected) else None
    said = [f"line {line}: {text}" if line else text, *getattr(error, "__notes__", [])]
    return " ".join("; ".join(said).split())
