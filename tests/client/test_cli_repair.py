"""`sessionwire check --repair` as a process: on a Redis, and on a hub's own that is running."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import httpx2

from sessionwire_server.keys import SESSIONS
from sessionwire_server.redis_link import RedisLink
from sessionwire_server.settings import Settings
from tests.client.command import environment, run
from tests.hub_process import HubProcess, running_hub
from tests.redis_process import RedisProcess


def listed(hub: HubProcess) -> list[str]:
    return [row["id"] for row in json.loads(hub.get("/v1/sessions")[1])["data"]]


def create(hub: HubProcess, sid: str) -> None:
    headers = {"Authorization": f"Bearer {hub.key}"}
    httpx2.post(f"{hub.url}/v1/sessions", json={"id": sid}, headers=headers).raise_for_status()


async def forget_list(redis_url: str) -> None:
    async with RedisLink(Settings(redis_url=redis_url)) as link:
        await link.command("DEL", SESSIONS)


def test_a_session_that_is_in_no_list_is_found_again_while_a_hub_runs(tmp_path: Path) -> None:
    with RedisProcess() as redis, running_hub(redis.url) as hub:
        create(hub, "lost")
        anyio.run(forget_list, redis.url)
        assert listed(hub) == []
        done = run("check", "--repair", "--redis-url", redis.url, env=environment(tmp_path))
        assert done.returncode == 0, done.stderr
        assert "repaired 1 sessions: 1 were in no list" in done.stdout.decode()
        assert listed(hub) == ["lost"]


def test_the_hubs_own_database_is_repaired_running_or_not(tmp_path: Path) -> None:
    env = environment(tmp_path)
    (tmp_path / "data").mkdir()
    with running_hub("", data_dir=tmp_path / "data") as hub:
        create(hub, "kept")
        done = run("check", "--repair", "--data-dir", str(hub.data_dir), env=env)
        assert done.returncode == 0, done.stderr
        assert "repaired 1 sessions: 0 were in no list" in done.stdout.decode()
    done = run("check", "--repair", "--data-dir", str(tmp_path / "data"), env=env)
    assert done.returncode == 0, done.stderr
    assert "repaired 1 sessions" in done.stdout.decode()


def test_a_redis_that_is_away_is_not_repaired(tmp_path: Path) -> None:
    url = "redis://127.0.0.1:1/0"
    done = run("check", "--repair", "--redis-url", url, env=environment(tmp_path))
    assert done.returncode == 5
    assert done.stderr.count(b"\n") == 1
