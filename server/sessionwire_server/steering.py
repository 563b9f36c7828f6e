"""Commands as they are sent, whatever brings them (protocol.md §9.1). Pure, no I/O.

Owns the reading of what a sender wrote, and what it is told at once. What a command may say is
`commands`; what becomes of it is in the store.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

import msgspec

from sessionwire_server.api_keys import Principal
from sessionwire_server.bodies import model_of
from sessionwire_server.commands import NewCommand, Receipt, SendCommand, check_command
from sessionwire_server.errors import HubError
from sessionwire_server.raw_json import fit_for_a_line

__all__ = ["taken", "written_command"]

TAKEN: Final = "sse"
"""`…/commands/sse` is the host's stream, so no command can be called that."""


class _Written(msgspec.Struct):
    """The one member of a command that is delivered as it was written."""

    data: msgspec.Raw = msgspec.Raw(b"{}")


_WRITTEN: Final = msgspec.json.Decoder(_Written)


def written_command(body: bytes, sender: Principal) -> NewCommand:
    """Read a command, and mint its id where it has none.

    Raises:
        HubError: as `model_of`; 422 `invalid_command` with the `pointer` of the fault.
    """
    asked = model_of(body, SendCommand)
    if asked.id == TAKEN:
        raise HubError(422, "invalid_command", f"the id {TAKEN!r} is taken", pointer="/id")
    check_command(asked.type, asked.data)
    return NewCommand(
        id=asked.id or f"command_{secrets.token_hex(16)}",
        type=asked.type,
        data=fit_for_a_line(bytes(_WRITTEN.decode(body).data)),
        by={"id": sender.id, "name": sender.name or None, "human": sender.human},
        expires_in_s=asked.expires_in_s,
    )


def taken(receipt: Receipt) -> dict[str, Any]:
    """Say that a command is taken; it cannot be lost any more."""
    return {"id": receipt.id, "status": receipt.status, "cursor": str(receipt.cursor)}
