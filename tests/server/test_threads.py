"""Two hubs in one process, each with a thread and an event loop of its own."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

import httpx2
import uvicorn

from sessionwire_server.app import create_app
from sessionwire_server.listener import bind, url_of
from sessionwire_server.settings import Settings

KEY = "key-of-both"
DEADLINE_S = 20.0
EVENT = {"type": "session.info", "timestamp": "2026-08-21T09:31:03Z", "data": {"infoType": "x"}}


@contextmanager
def served_by_a_thread(redis_url: str) -> Generator[httpx2.Client]:
    """Serve a hub; signals are the main thread's and nobody's here."""
    settings = Settings(redis_url=redis_url, key=KEY, drain_s=0.5)
    config = uvicorn.Config(create_app(settings), log_level="warning")
    with bind("127.0.0.1", 0) as listener:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            headers = {"Authorization": f"Bearer {KEY}"}
            with httpx2.Client(
                base_url=url_of(listener), headers=headers, timeout=DEADLINE_S
            ) as http:
                yield http
        finally:
            server.should_exit = True
            thread.join(DEADLINE_S)
            assert not thread.is_alive()


def test_two_hubs_live_in_one_process(redis_url: str, sid: str) -> None:
    """Nothing that belongs to one event loop is shared by all."""
    with served_by_a_thread(redis_url) as first, served_by_a_thread(redis_url) as second:
        events, stream = f"/v1/sessions/{sid}/events", f"/v1/sessions/{sid}/sse"
        assert first.post(events, json=EVENT).is_success
        with first.stream("GET", stream) as one, second.stream("GET", stream) as other:
            assert second.post(events, json=EVENT).is_success
            for stream_of in (one, other):
                names = (n for n in stream_of.iter_lines() if n == "event: session.info")
                assert [next(names), next(names)]
