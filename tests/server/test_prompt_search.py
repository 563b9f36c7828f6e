"""Open prompts of many sessions: each once, in bounded pages, whoever may see how many."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from sessionwire_schemas.prompt import Claim, Place, Prompt
from sessionwire_schemas.prompts import Opening
from sessionwire_server import prompt_search
from sessionwire_server.errors import HubError
from sessionwire_server.prompt_kept import Kept, OpenPrompts
from sessionwire_server.prompt_search import FoundPage, OpenPromptQuery, find_open

pytestmark = pytest.mark.anyio

ALL = frozenset({"pending", "claimed", "answered"})


def kept(rid: str, offset: int) -> Kept:
    prompt = Prompt(Opening(rid, "tool", claimable=True), "pending", None, Place(offset, 0), 1)
    return Kept(prompt, None)


class Sessions:
    """Sessions with their prompts; one that is None is a hint too many."""

    def __init__(self, **prompts: Sequence[Kept] | None) -> None:
        self.prompts = prompts
        self.read: list[str] = []

    async def sessions_with_open(self, after: str, limit: int) -> list[str]:
        return sorted(sid for sid in self.prompts if sid > after)[:limit]

    async def open(self, sid: str) -> OpenPrompts:
        self.read.append(sid)
        found = self.prompts.get(sid)
        if found is None:
            raise HubError(404, "session_not_found", "gone")
        return OpenPrompts(1, 1_000, "everruns", tuple(found))


async def pages(
    source: Sessions,
    limit: int,
    *,
    statuses: frozenset[str] = ALL,
    visible: Callable[[str], bool] = lambda sid: True,
    between: Callable[[list[str]], None] = lambda names: None,
) -> tuple[list[str], list[FoundPage]]:
    """Read to the end: `sid/rid` of all, and the pages."""
    token, read, names = "", list[FoundPage](), list[str]()
    while True:
        page = await find_open(source, OpenPromptQuery(statuses, limit, token, visible))
        read.append(page)
        here = [
            f"{found.sid}/{one.prompt.request_id}" for found in page.found for one in found.kept
        ]
        assert len(here) <= limit
        names += here
        if page.next_page_token is None:
            return names, read
        token = page.next_page_token
        between(names)
        assert len(read) < 1_000


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 50])
async def test_every_prompt_stands_on_one_page(limit: int) -> None:
    batch = [kept("z", 4), kept("a/b", 4), kept("é", 7), kept("first", 1)]
    source = Sessions(a=[kept("x", 1)], b=batch, c=None, d=[], e=[kept("y", 2), kept("x", 9)])
    names, _ = await pages(source, limit)
    assert names == ["a/x", "b/first", "b/a/b", "b/z", "b/é", "e/y", "e/x"]


async def test_a_prompt_that_closes_between_pages_hides_no_other() -> None:
    batch = [kept(f"c{n}", 4) for n in range(6)]
    source = Sessions(a=batch, b=[kept("x", 1)])

    def close(shown: list[str]) -> None:
        source.prompts["a"] = [one for one in batch if f"a/{one.prompt.request_id}" not in shown]

    names, _ = await pages(source, 2, between=close)
    assert names == [*(f"a/c{n}" for n in range(6)), "b/x"]


async def test_only_what_is_asked_for_is_shown_and_only_what_may_be_seen_is_read() -> None:
    claimed = kept("held", 2)
    claimed = replace(claimed, prompt=replace(claimed.prompt, claim=Claim("c", "bot", 2_000)))
    source = Sessions(a=[kept("x", 1), claimed], b=[kept("y", 1)])
    names, _ = await pages(source, 9, statuses=frozenset({"claimed"}))
    assert names == ["a/held"]
    source.read.clear()
    names, _ = await pages(source, 9, visible=lambda sid: sid == "b")
    assert (names, source.read) == (["b/y"], ["b"])


async def test_a_page_looks_at_so_many_sessions_and_another_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prompt_search, "MAX_READ", 3)
    monkeypatch.setattr(prompt_search, "MAX_LISTED", 10)
    monkeypatch.setattr(prompt_search, "SCAN", 4)
    source = Sessions(**{f"s{n:02}": [kept("x", 1)] if n % 10 == 9 else None for n in range(40)})
    names, read = await pages(source, 50)
    assert names == [f"s{n}9/x" if n else "s09/x" for n in range(4)]
    assert len(read) == 14, "three sessions a page"
    names, read = await pages(source, 50, visible=lambda sid: sid == "s39")
    assert names == ["s39/x"]
    assert len(read) == 4, "ten sessions a page"


def token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "odd",
    ["x", "é", "====", token("a"), token("a x y"), token("a.b 1 x"), token("a 1 " + "x" * 257)],
    ids=["letter", "accent", "padding", "one-word", "no-number", "no-session", "long"],
)
async def test_a_token_of_another_kind_is_refused(odd: str) -> None:
    with pytest.raises(HubError) as caught:
        await find_open(Sessions(), OpenPromptQuery(ALL, 1, odd, lambda sid: True))
    assert (caught.value.status, caught.value.code) == (400, "invalid_page_token")


async def test_a_token_shows_nothing_that_may_not_be_seen() -> None:
    source = Sessions(a=[kept("x", 1), kept("y", 2)])
    query = OpenPromptQuery(ALL, 5, token("a 1 x"), lambda sid: False)
    assert (await find_open(source, query)).found == ()
    assert source.read == []
