"""The app in process, over a real Redis: requests go through every layer but the sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest

from sessionwire_server.app import create_app
from sessionwire_server.errors import HubError
from sessionwire_server.settings import Settings

KEY = "key-with-every-scope"
KEYS: list[dict[str, Any]] = [
    {"key": "reader", "scopes": ["read"], "sessions": ["*"], "name": "the reader"},
    {"key": "publisher", "scopes": ["publish"], "sessions": ["*"]},
    {"key": "team", "scopes": ["read", "publish"], "sessions": ["team-a-*"], "human": True},
    {"key": "admin", "scopes": ["admin"], "sessions": ["*"]},
]


class OpenHub(Protocol):
    """Starts an app; `given` are settings beside Redis and the key."""

    def __call__(self, **given: Any) -> AbstractAsyncContextManager[httpx2.AsyncClient]: ...


@pytest.fixture
def open_hub(redis_url: str) -> OpenHub:
    """Start apps with settings of one's own."""

    @asynccontextmanager
    async def open_one(**given: Any) -> AsyncGenerator[httpx2.AsyncClient]:
        settings = Settings.model_validate({"redis_url": redis_url, "key": KEY, **given})
        app = create_app(settings)
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(
                transport=transport,
                base_url="http://hub.test:8787",
                headers={"Authorization": f"Bearer {KEY}"},
            ) as client,
        ):
            yield client

    return open_one


@pytest.fixture
async def client(open_hub: OpenHub) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of a hub with default settings, with every scope."""
    async with open_hub() as client:
        yield client


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    """A keys file with `KEYS`."""
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(KEYS))
    return path


def bearer(key: str) -> Mapping[str, str]:
    """The header that says who asks."""
    return {"Authorization": f"Bearer {key}"}


def error_of(call: Callable[[], object]) -> HubError | None:
    """The error that a call ends with, None if it does not."""
    try:
        call()
    except HubError as error:
        return error
    return None


def check_problem(answer: httpx2.Response, status: int, code: str) -> Any:
    """Check that an answer is a whole problem body; return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["status"], body["code"]) == (status, code), body
    assert body["error"] == {"code": code, "message": body["detail"]}
    assert body["type"]
    assert body["title"]
    return body
