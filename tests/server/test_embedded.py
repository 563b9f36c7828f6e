"""The embedded server: found, started, kept running, ended, never doubled."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from sessionwire_server import embedded as module
from sessionwire_server.embedded import DataFolderInUse, EmbeddedError, NoRedisServer, embedded
from sessionwire_server.redis_link import RedisLink, StoreUnavailable
from sessionwire_server.settings import Settings
from sessionwire_server.store import EventStore
from tests.server.store_events import durable, ids, read_all, send, until

pytestmark = pytest.mark.anyio

HOLD = """
import sys, anyio
from sessionwire_server.embedded import embedded
from sessionwire_server.settings import Settings

async def main():
    async with embedded(Settings(data_dir=sys.argv[1])) as url:
        print(url, flush=True)
        await anyio.sleep_forever()

anyio.run(main, backend_options={"use_uvloop": True})
"""


async def server_pid(url: str) -> int:
    async with RedisLink(Settings(), url) as link:
        info = str(await link.command("INFO", "server"))
        return int(info.partition("process_id:")[2].split("\\r")[0].split()[0])


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_data_survives_a_restart_and_the_server_ends_with_the_hub(
    tmp_path: Path, sid: str
) -> None:
    settings = Settings(data_dir=tmp_path / "new" / "data")
    async with embedded(settings) as url:
        first = await server_pid(url)
        async with RedisLink(settings, url) as link:
            store = EventStore(link, settings)
            before = await send(store, sid, durable("a"), durable("b"))
    assert not is_running(first)
    async with embedded(settings) as url, RedisLink(settings, url) as link:
        store = EventStore(link, settings)
        assert ids((await read_all(store, sid))[0]) == ["a", "b"]
        (verdict,) = await send(store, sid, durable("c"))
        assert verdict.epoch == before[0].epoch
        assert verdict.sequence == 3


async def test_a_second_hub_on_the_folder_is_told_who_has_it(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with embedded(settings):
        with pytest.raises(DataFolderInUse) as caught:
            async with embedded(settings):
                pass
    assert str(tmp_path) in str(caught.value)
    assert str(os.getpid()) in str(caught.value)


async def test_a_server_that_dies_is_started_again_with_its_data(tmp_path: Path, sid: str) -> None:
    settings = Settings(data_dir=tmp_path)
    async with embedded(settings) as url, RedisLink(settings, url) as link:
        store = EventStore(link, settings)
        await send(store, sid, durable("a"))
        await link.command("CONFIG", "SET", "appendfsync", "always")
        await send(store, sid, durable("b"))
        os.kill(await server_pid(url), signal.SIGKILL)

        async def is_back() -> bool:
            try:
                return (await store.look(sid)).head.sequence == 2
            except StoreUnavailable:
                return False

        await until(is_back)


async def test_a_killed_hub_takes_its_server_along(tmp_path: Path) -> None:
    """And the folder is free for the next hub at once."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    async with await anyio.open_process(command, stderr=None) as hub:
        try:
            assert hub.stdout is not None
            with anyio.fail_after(20):
                url = (await hub.stdout.receive()).decode().strip()
            pid = await server_pid(url)
        finally:
            hub.kill()
            await hub.wait()
    async with embedded(Settings(data_dir=tmp_path)) as url:
        assert await server_pid(url) != pid
    assert not is_running(pid)


async def test_a_terminal_interrupt_does_not_reach_the_server(tmp_path: Path) -> None:
    async with embedded(Settings(data_dir=tmp_path)) as url:
        assert os.getpgid(await server_pid(url)) != os.getpgid(0)


async def test_a_folder_with_a_long_name_gets_a_short_socket(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / ("x" * 120) / "ü %20")
    async with embedded(settings) as url, RedisLink(settings, url) as link:
        await link.command("SET", "a", "b")
        socket = Path(url.removeprefix("unix://"))
        assert len(str(socket)) <= 100
    assert not socket.parent.exists()
    assert (settings.data_dir / "appendonlydir").is_dir()


async def test_a_folder_name_with_odd_characters_works(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "ü %20?#")
    async with embedded(settings) as url, RedisLink(settings, url) as link:
        assert await link.command("SET", "a", "b")


async def test_an_error_of_the_hub_comes_out_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(LookupError):
        async with embedded(Settings(data_dir=tmp_path)):
            raise LookupError


async def test_damaged_data_is_told_with_the_servers_own_words(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with embedded(settings) as url, RedisLink(settings, url) as link:
        await link.command("SET", "a", "b" * 1000)
    (manifest,) = (tmp_path / "appendonlydir").glob("*.manifest")
    manifest.write_text("nonsense\n")
    with pytest.raises(EmbeddedError, match="did not start"):
        async with embedded(settings):
            pass


async def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedError, match="cannot use the data folder"):
        async with embedded(Settings(data_dir=tmp_path / "file" / "data")):
            pass


async def test_without_a_server_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "files", lambda _name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoRedisServer, match=r"pip install 'sessionwire\[embedded\]'"):
        async with embedded(Settings(data_dir=tmp_path)):
            pass


async def test_a_server_on_the_path_is_taken_where_the_wheel_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packaged = module.find_server()
    monkeypatch.setattr(module, "files", lambda _name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    (tmp_path / "redis-server").symlink_to(packaged)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert module.find_server() == tmp_path / "redis-server"
