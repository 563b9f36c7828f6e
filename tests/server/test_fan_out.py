"""All channels of a process: one session's fault stays its own (protocol §6)."""

from __future__ import annotations

import asyncio
from typing import NoReturn, cast

import pytest

from sessionwire_schemas.cursor import NO_CHECK
from sessionwire_server.audience import Spelling, Taste
from sessionwire_server.channel import Channel
from sessionwire_server.entries import Head, StoredEvent
from sessionwire_server.fan_out import FanOut
from sessionwire_server.pages import Pages
from sessionwire_server.sender import TransportSender
from sessionwire_server.store import EventStore
from sessionwire_server.viewer import Viewer
from tests.server.test_splice import EPOCH, SETTINGS, FakeTransport, ModelSession, shown

pytestmark = pytest.mark.anyio


class Faulty(Spelling):
    """A dialect with a defect."""

    def encode(self, event: StoredEvent, epoch: str) -> NoReturn:
        raise RecursionError("a defect")


async def test_a_fault_in_one_session_ends_its_viewers_and_no_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fan_out = FanOut(SETTINGS)
    sockets: dict[str, FakeTransport] = {}
    viewers: dict[str, Viewer] = {}
    for sid, spelling in (("broken", Faulty()), ("whole", Spelling())):
        session = ModelSession()
        channel = fan_out.channels[sid] = Channel(sid, fan_out)
        channel.observe(EPOCH, Head(0, 0, NO_CHECK))
        pages = Pages(cast(EventStore, session), SETTINGS, fan_out.stats)
        socket = sockets[sid] = FakeTransport()
        taste = Taste(spelling=spelling)
        viewer = viewers[sid] = Viewer(channel, taste, pages, cast(TransportSender, socket))
        viewer.audience.live[viewer] = socket.wire
        session.publish([True, True])
        channel.append(session.messages.popleft())
    await asyncio.sleep(0)
    assert shown(sockets["whole"].got) == [1, 2]
    assert viewers["whole"].ending is None
    assert viewers["broken"].ending == "error"
    assert not viewers["broken"].is_live
    assert "fan-out of session broken failed" in caplog.text
