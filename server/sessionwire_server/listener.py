"""The socket that a hub listens on, bound before anything else is started.

A taken port is thus found out before a database is, and port 0 has its real number at once.
"""

from __future__ import annotations

import errno
import socket

__all__ = ["CannotListen", "bind", "url_of"]

BACKLOG = 2_048
"""Connections that may wait while the hub starts or is busy."""

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where to reach, from this machine, what listens on every address."""


class CannotListen(OSError):
    """The address cannot be listened on; the text says why and what to change."""


def bind(host: str, port: int) -> socket.socket:
    """Listen on an address; what connects meanwhile waits.

    Raises:
        CannotListen: the port is taken or not allowed, or the host is not one of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as exc:
        raise CannotListen(f"--host {host!r} is no address: {exc.strerror}") from exc
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        raise CannotListen(_reason(host, port, exc)) from exc
    listener.setblocking(False)
    return listener


def _reason(host: str, port: int, exc: OSError) -> str:
    if exc.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken: choose another with --port (0 takes a free one)"
    if exc.errno == errno.EACCES:
        return f"port {port} needs more rights: choose one above 1023 with --port"
    return f"cannot listen on {host} port {port}: {exc.strerror}"


def url_of(listener: socket.socket) -> str:
    """Return the URL at which this machine reaches a listening socket."""
    name: tuple[str, int] = listener.getsockname()[:2]
    host, port = _ANYWHERE.get(name[0], name[0]), name[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
