"""Waiting for a prompt to change (protocol.md §8.2).

A bell is hung up before the prompt is read again, so no change falls between. A claim that lapses
and a deadline that comes change how a prompt is shown without anybody saying so: who waits wakes by
itself then.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial

import anyio

from sessionwire_schemas.prompt import Prompt
from sessionwire_schemas.prompt_transitions import ended
from sessionwire_server.hub import Hub
from sessionwire_server.live_message import News, PromptNews
from sessionwire_server.prompt_kept import Looked
from sessionwire_server.publish_call import SessionDeleted

__all__ = ["next_change"]


async def next_change(hub: Hub, sid: str, seen: Looked, wait_s: float, *, secrets: bool) -> Looked:
    """Wait until a prompt is shown differently than it was seen, at most so long.

    The end of its session is a change, the hub's own end is none to wait for.

    Raises:
        HubError: as `PromptStore.look`.
    """
    until = anyio.current_time() + wait_s
    before = _shown(seen)
    rid = seen.kept.prompt.request_id
    channel = hub.feed.channel(sid)
    with channel.bell(partial(_concerns, rid)) as bell:
        await hub.feed.confirm(channel)
        while True:
            try:
                looked = await hub.prompts.look(sid, rid, secrets=secrets)
            except SessionDeleted:
                return _withdrawn(seen)
            left = until - anyio.current_time()
            if _shown(looked) != before or left <= 0 or hub.draining:
                return looked
            await bell.heard(min(left, _changes_in_s(looked)))


def _shown(looked: Looked) -> tuple[Hashable, ...]:
    prompt = looked.kept.prompt
    return (prompt.status(looked.now_ms), prompt.claim, prompt.is_due(looked.now_ms))


def _changes_in_s(looked: Looked) -> float:
    """Tell when time alone changes how it is shown."""
    prompt, now_ms = looked.kept.prompt, looked.now_ms
    holder = prompt.holder(now_ms)
    moments = (prompt.expires_ms, None if holder is None else holder.until_ms)
    ahead = [moment - now_ms for moment in moments if moment is not None and moment > now_ms]
    # A moment later: Redis' clock is the one that counts.
    return min(ahead, default=3_600_000) / 1000 + 0.001


def _withdrawn(seen: Looked) -> Looked:
    prompt: Prompt = ended(seen.kept.prompt, "deleted", seen.now_ms)
    return replace(seen, kept=replace(seen.kept, prompt=prompt, opener=None), secrets=None)


def _concerns(rid: str, news: News) -> bool:
    return isinstance(news, PromptNews) and news.concerns(rid)
