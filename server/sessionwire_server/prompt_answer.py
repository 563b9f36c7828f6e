"""An answer on its way to the host: a command that is kept until acknowledged (protocol.md §8.3).

Pure. The command's id follows from session and prompt, for there is one answer and no more. What is
secret stands in the command alone, which ends after ten minutes if no host has read it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from sessionwire_schemas.prompt import Answerer
from sessionwire_schemas.prompts import Opening
from sessionwire_server.commands import NewCommand
from sessionwire_server.minting import rfc3339
from sessionwire_server.prompt_kept import Said
from sessionwire_server.prompt_terms import CommandWrite
from sessionwire_server.raw_json import fit_for_a_line

__all__ = ["ANSWER_TYPE", "UNREAD_MS", "answer_command", "answer_id"]

ANSWER_TYPE: Final = "prompt.answer"

UNREAD_MS: Final = 600_000
"""How long an answer with credentials waits for a host to read it."""


def answer_id(sid: str, request_id: str) -> str:
    """Give the id of the command that carries the answer to a prompt."""
    text = f"{sid}\0{request_id}".encode(errors="surrogatepass")
    return f"answer_{hashlib.blake2b(text, digest_size=16).hexdigest()}"


def answer_command(
    sid: str, opening: Opening, said: Said, by: Answerer, now_ms: int
) -> CommandWrite:
    """Build the command."""
    data: dict[str, Any] = {
        "request_id": opening.request_id,
        "kind": opening.kind,
        "answer": said.answer,
        **({"comment": said.comment} if said.comment else {}),
        "answered_by": {"name": by.name or None, "human": by.human},
        "answered_at": rfc3339(now_ms),
    }
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    command = NewCommand(
        id=answer_id(sid, opening.request_id),
        type=ANSWER_TYPE,
        data=fit_for_a_line(text.encode()),
        by={"id": by.name or None, "name": by.name or None, "human": by.human},
        is_answer=True,
        request_id=opening.request_id,
    )
    return CommandWrite(
        command.id,
        command.hash(),
        command.body(),
        command.about(),
        UNREAD_MS if opening.secret else 0,
    )
