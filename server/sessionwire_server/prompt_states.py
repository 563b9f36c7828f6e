"""The open prompts of a session as a state that viewers are told (protocol.md §6.5, §8.2). Pure.

A state is held once for all viewers, and by whoever is slow to read it; so what it says is bounded:
past that, prompts come without their openers, and past that again they are left out, which the
member `more` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, takewhile

import msgspec

from sessionwire_server.prompt_kept import Kept, OpenPrompts
from sessionwire_server.prompt_view import prompt_members
from sessionwire_server.raw_json import fit_for_a_line
from sessionwire_server.redaction import shown

__all__ = ["prompts_data"]


def prompts_data(
    sid: str, found: OpenPrompts, *, unattended: bool, redacted: bool, max_bytes: int
) -> bytes:
    """Spell the open prompts as an object, the oldest first; bounded."""
    prompts = _listed(sid, found, unattended=unattended, redacted=redacted, max_bytes=max_bytes)
    more = b',"more":true' if len(prompts) < len(found.kept) else b""
    return fit_for_a_line(b'{"data":[%b]%b}' % (b",".join(prompts), more))


def _listed(
    sid: str, found: OpenPrompts, *, unattended: bool, redacted: bool, max_bytes: int
) -> list[bytes]:
    """Spell open prompts, the oldest first.

    Args:
        sid: the session.
        found: its open prompts.
        unattended: whether nobody is connected who may answer.
        redacted: whether they are for somebody from whom is held back.
        max_bytes: most bytes of it, near enough.

    Returns: fewer than there are where they do not fit.
    """
    seen = [_redacted(kept) for kept in found.kept] if redacted else found.kept
    whole = [_encoded(sid, kept, found, unattended) for kept in seen]
    if sum(map(len, whole)) <= max_bytes:
        return whole
    bare = [_encoded(sid, replace(kept, opener=None), found, unattended) for kept in seen]
    return _fitting(whole, bare, max_bytes)


def _fitting(whole: Sequence[bytes], bare: Sequence[bytes], max_bytes: int) -> list[bytes]:
    """Give as many prompts as fit without their openers, and with it those that then still do."""
    sizes = list(takewhile(lambda size: size <= max_bytes, accumulate(map(len, bare))))
    left = max_bytes - (sizes[-1] if sizes else 0)
    fitting: list[bytes] = []
    for long, short in zip(whole[: len(sizes)], bare, strict=False):
        takes_it = len(long) - len(short) <= left
        left -= len(long) - len(short) if takes_it else 0
        fitting.append(long if takes_it else short)
    return fitting


def _encoded(sid: str, kept: Kept, found: OpenPrompts, unattended: bool) -> bytes:
    return msgspec.json.encode(
        prompt_members(sid, kept, now_ms=found.now_ms, unattended=unattended)
    )


def _redacted(kept: Kept) -> Kept:
    return kept if kept.opener is None else replace(kept, opener=shown(kept.opener))
