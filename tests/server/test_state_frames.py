"""The frames `prompts` and `presence`: protocol §6.5. A model stands in for Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar, cast

import anyio
import pytest

from sessionwire_schemas.prompt import Claim, Place, Prompt
from sessionwire_schemas.prompts import Opening as PromptOpening
from sessionwire_server.audience import Filter, Spelling, State, Taste
from sessionwire_server.channel import Channel
from sessionwire_server.entries import Head, Outlook, Position, StoredEvent
from sessionwire_server.fan_out import FanOut
from sessionwire_server.live_message import HostNews, PresenceNews, PromptNews
from sessionwire_server.opening import Opening
from sessionwire_server.pages import Pages
from sessionwire_server.presence import Presence
from sessionwire_server.prompt_kept import Kept, OpenPrompts
from sessionwire_server.prompt_states import prompts_data
from sessionwire_server.redaction import redacted_taste
from sessionwire_server.redis_link import StoreUnavailable
from sessionwire_server.rpc_spelling import RpcSpelling, line
from sessionwire_server.settings import Settings
from sessionwire_server.state_board import StateBoard
from sessionwire_server.store import EventStore
from sessionwire_server.viewer import Viewer
from tests.server.test_splice import EPOCH, SETTINGS, FakeTransport, ModelSession, shown
from tests.server.test_viewer import delivering, settle, watch

pytestmark = pytest.mark.anyio

Answer = TypeVar("Answer")

NOW_MS = 1_796_000_000_000
CONTROL = Taste(control=True)
ROOMY = SETTINGS.model_copy(update={"page_bytes": 2**18})


def kept(name: str, body: bytes = b"{}", *, type_: str = "user_input.requested") -> Kept:
    place = Place(1, 0)
    prompt = Prompt(PromptOpening(name, "user_input"), "pending", None, place, NOW_MS)
    return Kept(prompt, StoredEvent(1, 0, "0", False, f"event-of-{name}", type_, body))


class Model:
    """What Redis knows of the prompts and viewers of a session, and how often it was asked."""

    def __init__(self) -> None:
        self.prompts: list[Kept] = []
        self.version = 0
        self.there = Presence(1, 1, host_connected=False)
        self.reads: list[str] = []
        self.rewritten: list[str] = []
        self.is_away = False
        self.pause_s = 0.0
        self.held: asyncio.Event | None = None

    async def open(self, sid: str) -> OpenPrompts:
        self.reads.append("prompts")
        found = OpenPrompts(self.version, NOW_MS, "copilot", tuple(self.prompts))
        return await self._answered(found)

    async def of(self, sid: str) -> Presence:
        self.reads.append("presence")
        return await self._answered(self.there)

    async def _answered(self, found: Answer) -> Answer:
        if self.held is not None:
            await self.held.wait()
        if self.is_away:
            raise StoreUnavailable("away")
        await asyncio.sleep(self.pause_s)
        return found

    def rewrite(self, sid: str) -> None:
        self.rewritten.append(sid)

    def ask(self, name: str) -> PromptNews:
        self.prompts.append(kept(name))
        self.version += 1
        return PromptNews(EPOCH, self.version, len(self.prompts), ())


class Scene:
    """A channel with its board, and the sockets of those who watch."""

    def __init__(self, settings: Settings, rest: float) -> None:
        self.model = Model()
        self.session = Quiet()
        self.fan_out = FanOut(settings)
        self.channel = self.fan_out.channels["s"] = Channel("s", self.fan_out)
        self.board = StateBoard(self.model, self.model, self.fan_out, rest=rest)

    def watch(self, taste: Taste = CONTROL) -> tuple[Viewer, FakeTransport]:
        return watch(self.channel, self.session, taste)


class Quiet(ModelSession):
    """A session without last values."""

    async def lasts(self, sid: str) -> list[StoredEvent]:
        return []


@asynccontextmanager
async def scene(settings: Settings = ROOMY, rest: float = 0) -> AsyncGenerator[Scene]:
    made = Scene(settings, rest)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.board.run)
        yield made
        tasks.cancel_scope.cancel()


def frames(socket: FakeTransport) -> list[tuple[str, Any]]:
    """Read the frames that were written: names and data."""
    found: list[tuple[str, Any]] = []
    for block in b"".join(socket.got).decode().split("\n\n")[:-1]:
        fields = dict(row.split(": ", 1) for row in block.split("\n"))
        found.append((fields.get("event", "comment"), json.loads(fields.get("data", "null"))))
    return found


def names(socket: FakeTransport) -> list[str]:
    return [name for name, _ in frames(socket)]


def asked(socket: FakeTransport) -> list[list[str]]:
    """The request ids of each `prompts` frame."""
    told = [data["data"] for name, data in frames(socket) if name == "prompts"]
    return [[prompt["request_id"] for prompt in prompts] for prompts in told]


async def test_who_comes_is_told_both_states_before_anything_else() -> None:
    async with scene() as at:
        at.model.ask("r1")
        at.session.publish([True])
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            assert names(socket) == ["prompts", "presence", "t", "snapshot", "caught_up"]
            assert asked(socket) == [["r1"]]
            assert frames(socket)[1][1] == {
                "viewers": 1,
                "can_answer": 1,
                "host": {"connected": False},
            }
            assert viewer.is_live


async def test_a_change_is_told_to_all_at_once_and_read_once() -> None:
    async with scene() as at:
        (one, first), (two, second) = at.watch(), at.watch()
        async with delivering(one), delivering(two):
            await settle()
            assert at.model.reads == ["presence", "prompts"]
            at.channel.tell(at.model.ask("r1"))
            await settle()
            assert at.model.reads[2:] == ["prompts"]
            assert asked(first) == asked(second) == [[], ["r1"]]
            assert first.got[-1] is second.got[-1], "the bytes are shared"


async def test_a_burst_of_changes_is_few_reads_and_ends_with_the_last() -> None:
    async with scene() as at:
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            before = len(at.model.reads)
            for n in range(100):
                at.channel.tell(at.model.ask(f"r{n}"))
            await settle()
            assert len(at.model.reads) - before <= 2
            assert asked(socket)[-1] == [f"r{n}" for n in range(100)]


async def test_what_takes_long_to_read_is_left_alone_for_longer() -> None:
    """A thousand prompts that change all the time must not take the process's time."""
    async with scene(rest=9) as at:
        at.model.pause_s = 0.01
        viewer, socket = at.watch()
        async with delivering(viewer):
            with anyio.fail_after(10):
                for n in range(60):
                    at.channel.tell(at.model.ask(f"r{n}"))
                    await asyncio.sleep(0.005)
                while len(asked(socket)[-1]) < 60:  # noqa: ASYNC110 - real time passes
                    await asyncio.sleep(0.01)
            assert len(asked(socket)) < 12, (
                "0.3 s are three rests of 0.1 s, and less on a busy machine"
            )


async def test_a_change_while_it_is_read_is_not_missed() -> None:
    async with scene() as at:
        at.model.held = asyncio.Event()
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            news = at.model.ask("r1")
            at.channel.tell(news)
            at.model.held.set()
            await settle()
            assert asked(socket)[-1] == ["r1"]
            assert viewer.is_live


async def test_news_that_was_read_already_is_not_read_again() -> None:
    async with scene() as at:
        news = at.model.ask("r1")
        viewer, socket = at.watch()
        at.channel.observe(EPOCH, at.session.head)
        async with delivering(viewer):
            await settle()
            before = len(at.model.reads)
            at.channel.tell(news)
            await settle()
            assert len(at.model.reads) == before
            assert asked(socket) == [["r1"]]


async def test_prompts_that_a_viewer_was_given_are_never_followed_by_older_ones() -> None:
    async with scene() as at:
        viewer, first = at.watch()
        async with delivering(viewer):
            await settle()
            before, life = await at.model.open("s"), at.channel.states.life
            at.model.ask("r1")
            at.board.learn(at.channel, await at.model.open("s"), life)
            at.board.learn(at.channel, before, life)
            other, late = at.watch()
            async with delivering(other):
                await settle()
                assert asked(first) == [[], ["r1"]]
                assert asked(late) == [["r1"]]


async def test_what_was_read_in_another_life_is_not_learned() -> None:
    async with scene() as at:
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            at.model.ask("r1")
            at.board.learn(at.channel, await at.model.open("s"), at.channel.states.life - 1)
            await settle()
            assert asked(socket) == [[]]


async def test_a_read_that_was_overtaken_shows_nothing_older() -> None:
    async with scene() as at:
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            at.model.held = asyncio.Event()
            at.channel.tell(at.model.ask("r1"))
            await settle()
            held, at.model.held = at.model.held, None
            at.model.ask("r2")
            at.board.learn(at.channel, await at.model.open("s"), at.channel.states.life)
            held.set()
            await settle()
            assert asked(socket) == [[], ["r1", "r2"]]


async def test_a_slow_viewer_is_told_the_newest_alone() -> None:
    async with scene() as at:
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            socket.fill(True)
            for n in range(10):
                at.channel.tell(at.model.ask(f"r{n}"))
                await settle()
            assert len(asked(socket)) == 2, "the write that found the socket full was the last"
            socket.fill(False)
            await settle()
            assert asked(socket)[2:] == [[f"r{n}" for n in range(10)]]
            assert viewer.is_live


async def test_who_pulls_by_itself_is_told_as_well() -> None:
    async with scene() as at:
        pages = Pages(cast(EventStore, at.session), SETTINGS, at.channel.stats)
        puller = Viewer(at.channel, CONTROL, pages, None)
        outlook = Outlook(EPOCH, "copilot", at.session.head, 1, 1, 0, (), None, None)
        puller.begin(Opening(outlook, Position(0, 0), "0", None, True), ephemeral_replay=True)
        got: list[bytes] = []

        async def pull() -> None:
            got.extend([data async for data in puller.chunks()])

        task = asyncio.ensure_future(pull())
        await settle()
        at.channel.tell(at.model.ask("r1"))
        await settle()
        puller.end("shutdown")
        await asyncio.wait_for(task, 5)
        assert b"".join(got).count(b"event: prompts") == 2


async def test_without_control_nothing_is_told_or_read() -> None:
    async with scene() as at:
        at.session.publish([True])
        viewer, socket = at.watch(Taste())
        async with delivering(viewer):
            await settle()
            at.channel.tell(at.model.ask("r1"))
            await settle()
            assert names(socket) == ["t"]
            assert at.model.reads == []


async def test_filters_hide_no_prompts() -> None:
    async with scene() as at:
        at.model.ask("r1")
        at.session.publish([True])
        nothing = Filter(types=frozenset({"nothing"}), agents=frozenset({"nobody"}))
        viewer, socket = at.watch(Taste(nothing, control=True))
        async with delivering(viewer):
            await settle()
            assert names(socket) == ["prompts", "presence", "snapshot", "caught_up"]
            assert asked(socket) == [["r1"]]


async def test_a_new_epoch_tells_everything_again() -> None:
    async with scene() as at:
        at.model.ask("r1")
        at.session.publish([True])
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            socket.got.clear()
            at.model.prompts.clear()
            at.session.messages.clear()
            at.channel.restart("nextlife", Head(0, 0, "0"))
            assert at.model.rewritten == ["s"]
            await settle()
            assert names(socket)[:3] == ["reset", "prompts", "presence"]
            assert asked(socket) == [[]]


async def test_after_a_loss_it_is_read_again_and_told_if_it_differs() -> None:
    async with scene() as at:
        at.model.ask("r1")
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            before = len(at.model.reads)
            at.channel.tell(None)
            await settle()
            assert sorted(at.model.reads[before:]) == ["presence", "prompts"]
            assert asked(socket) == [["r1"]]
            at.model.ask("r2")  # its news was lost
            at.channel.tell(None)
            await settle()
            assert asked(socket) == [["r1"], ["r1", "r2"]]


async def test_an_absent_redis_holds_up_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionwire_server.state_board.REDIS_PAUSE_S", (0, 0.01))
    async with scene(ROOMY.model_copy(update={"redis_timeout_s": 0.05})) as at:
        at.model.is_away = True
        at.session.publish([True])
        viewer, socket = at.watch()
        async with delivering(viewer):
            with anyio.fail_after(5):
                while not viewer.is_live:  # noqa: ASYNC110 - real time passes
                    await asyncio.sleep(0.01)
            assert names(socket) == ["t", "snapshot", "caught_up"]
            at.model.is_away = False
            with anyio.fail_after(5):
                while "presence" not in names(socket):  # noqa: ASYNC110 - real time passes
                    await asyncio.sleep(0.01)
            assert asked(socket) == [[]]


async def test_a_fault_in_one_session_is_not_that_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene() as at:
        at.model.prompts.append(replace(kept("r1"), prompt=cast(Prompt, None)))
        viewer, _ = at.watch()
        async with delivering(viewer):
            await settle()
            assert "the state of session s cannot be shown" in caplog.text
            at.model.prompts.clear()
            at.channel.tell(None)
            await settle()
            assert at.channel.states.known


async def test_when_the_last_who_may_answer_goes_prompts_are_unattended() -> None:
    async with scene() as at:
        at.model.ask("r1")
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            for can_answer in (0, 2, 1):
                at.model.there = Presence(3, can_answer, host_connected=True)
                at.channel.tell(PresenceNews(3, can_answer))
                await settle()
            told = [data["data"][0] for name, data in frames(socket) if name == "prompts"]
            assert [prompt["unattended"] for prompt in told] == [False, True, False]
            there = [data["can_answer"] for name, data in frames(socket) if name == "presence"]
            assert there == [1, 0, 2, 1]


async def test_a_host_that_comes_is_a_change_of_presence() -> None:
    async with scene() as at:
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            at.model.there = replace(at.model.there, host_connected=True)
            at.channel.tell(HostNews(1, connected=True))
            await settle()
            assert frames(socket)[-1] == ("presence", at.model.there.members())


async def test_a_claim_that_lapses_is_told() -> None:
    async with scene() as at:
        at.model.ask("r1")
        prompt = at.model.prompts[0].prompt
        claimed = replace(prompt, claim=Claim("c1", "somebody", NOW_MS + 20))
        at.model.prompts[0] = replace(at.model.prompts[0], prompt=claimed)
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            at.model.prompts[0] = replace(at.model.prompts[0], prompt=prompt)
            with anyio.fail_after(5):
                while len(asked(socket)) < 2:  # noqa: ASYNC110 - real time passes
                    await asyncio.sleep(0.01)
            told = [data["data"][0]["status"] for name, data in frames(socket) if name == "prompts"]
            assert told == ["claimed", "pending"]


async def test_who_leaves_leaves_nothing_behind() -> None:
    async with scene() as at:
        viewer, _ = at.watch()
        async with delivering(viewer):
            await settle()
        at.channel.leave(viewer, 0)
        assert (at.channel.states.watchers, at.channel.states.known) == (0, False)
        before = list(at.model.reads)
        at.channel.tell(at.model.ask("r1"))
        await settle()
        assert at.model.reads == before


def test_a_state_is_a_frame_and_a_notification() -> None:
    state = State("prompts", b'{"data":[]}', b'{"data":[1]}')
    assert Spelling().state(state) == b'event: prompts\ndata: {"data":[]}\n\n'
    assert json.loads(RpcSpelling("s", line).state(state)) == {
        "jsonrpc": "2.0",
        "method": "session.prompts",
        "params": {"session_id": "s", "data": []},
    }
    redacted = redacted_taste(CONTROL).spelling
    assert redacted.state(state) == b'event: prompts\ndata: {"data":[1]}\n\n'


def test_a_state_says_no_more_than_its_bound() -> None:
    """First without what opened them, then not at all: whoever wants all of it asks for it."""
    body = b'{"type":"t","text":"%b"}' % (b"x" * 5_000)
    found = OpenPrompts(1, NOW_MS, "copilot", tuple(kept(f"r{n}", body) for n in range(100)))
    data = prompts_data("s", found, unattended=False, redacted=False, max_bytes=16_384)
    assert len(data) < 16_384 + 100
    told = json.loads(data)
    assert told["more"] is True
    has_opener = [prompt["event"] is not None for prompt in told["data"]]
    assert has_opener == sorted(has_opener, reverse=True)
    assert 25 < len(has_opener) < 100
    assert [prompt["request_id"] for prompt in told["data"]] == [
        f"r{n}" for n in range(len(has_opener))
    ]


def test_a_state_has_every_prompt_and_the_oldest_openers() -> None:
    body = b'{"type":"t","text":"%b"}' % (b"x" * 5_000)
    found = OpenPrompts(1, NOW_MS, "copilot", tuple(kept(f"r{n}", body) for n in range(10)))
    data = prompts_data("s", found, unattended=False, redacted=False, max_bytes=16_384)
    told = json.loads(data)
    assert "more" not in told
    assert [prompt["event"] is not None for prompt in told["data"]] == [True] * 2 + [False] * 8
    assert len(data) < 16_384 + 100


def test_a_state_is_one_line_and_hides_what_is_private() -> None:
    body = '{"type":"t","data":{"text":"a\u2028b","encryptedContent":"hidden"}}'.encode()
    internal = kept("r2", b'{"type":"model.call_start"}', type_="model.call_start")
    found = OpenPrompts(1, NOW_MS, "copilot", (kept("r1", body), internal))
    whole, redacted = (
        prompts_data("s", found, unattended=True, redacted=held_back, max_bytes=2**18)
        for held_back in (False, True)
    )
    assert "\u2028".encode() not in whole
    assert json.loads(whole)["data"][0]["event"]["data"] == {
        "text": "a\u2028b",
        "encryptedContent": "hidden",
    }
    assert json.loads(redacted)["data"][0]["event"]["data"] == {"text": "a\u2028b"}
    told = [json.loads(data)["data"][1]["event"] for data in (whole, redacted)]
    assert told == [{"type": "model.call_start"}, None]
    assert "more" not in json.loads(whole)


async def test_a_state_does_not_come_between_events_of_a_slow_viewer() -> None:
    """Events lost or doubled are the end; states come between them as they like."""
    async with scene() as at:
        viewer, socket = at.watch()
        async with delivering(viewer):
            await settle()
            for n in range(30):
                socket.fill(n % 3 == 1)
                at.session.publish([True, False])
                at.channel.append(at.session.messages.popleft())
                at.channel.tell(at.model.ask(f"r{n}"))
                await settle()
            socket.fill(False)
            await settle()
            assert shown(socket.got) == list(range(1, 61))
            assert asked(socket)[-1] == [f"r{n}" for n in range(30)]
