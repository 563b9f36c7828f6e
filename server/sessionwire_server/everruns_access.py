"""Who asks under a channel: a key, or a runtime token of one end user (protocol.md §4.8).

A runtime token is what a program hands to its user's browser in place of its own key. It works
under the one channel, for the one end user, and under no other path: nothing else reads it.
"""

from __future__ import annotations

import base64
import binascii
import time
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request

from sessionwire_server.access import Principal, unauthorized
from sessionwire_server.api_keys import Scope
from sessionwire_server.desk import Desk
from sessionwire_server.errors import HubError
from sessionwire_server.everruns_channel import Channel
from sessionwire_server.everruns_message import named_id
from sessionwire_server.query import invalid
from sessionwire_server.signing import Grant

__all__ = ["authorize_in_channel", "runtime_token"]

TTL_S: Final = 3_600

_PREFIX: Final = "evr_rt_"
_SCOPES: Final[tuple[Scope, ...]] = ("answer", "read", "steer")


async def authorize_in_channel(
    request: Request, scope: Scope, sid: str | None = None, *, tickets: bool = False
) -> tuple[Principal, Channel]:
    """Authenticate, and refuse who may not do this.

    Raises:
        HubError: as `Access.authorize` and `Channel.of`; 403 `forbidden` for a runtime token with
            another `End-User` than its own.
    """
    access, channel = Desk.of(request).hub.access, Channel.of(request)
    token = request.headers.get("authorization", "").strip().rpartition(" ")[2]
    if not token.startswith(_PREFIX):
        return await access.authorize(request, scope, sid, tickets=tickets), channel
    name, _, rest = token.removeprefix(_PREFIX).partition(".")
    end_user = _unspelled(name)
    who = await access.signer.read(_purpose(channel.id, end_user), rest)
    if who is None:
        raise unauthorized()
    if channel.end_user not in ("", end_user):
        raise HubError(403, "forbidden", "the token is another end user's")
    who.require(scope, sid)
    return who, replace(channel, end_user=end_user)


async def runtime_token(request: Request) -> dict[str, Any]:
    """Make a runtime token for the end user that the request names; its maker has a key.

    Raises:
        HubError: as `Access.authorize` and `Channel.of`; 400 `invalid_parameter` without one.
    """
    access, channel = Desk.of(request).hub.access, Channel.of(request)
    maker = await access.authorize(request, "steer")
    if not channel.end_user:
        raise invalid("End-User", "a runtime token needs one")
    ends_at = time.time() + TTL_S
    if maker.expires_at is not None:
        ends_at = min(ends_at, maker.expires_at)
    scopes: tuple[Scope, ...] = tuple(scope for scope in _SCOPES if maker.has(scope))
    grant = Grant(maker.id, scopes, maker.sessions, maker.human, False, ends_at, ends_at)
    signed = await access.signer.sign(_purpose(channel.id, channel.end_user), grant)
    return {
        "access_token": f"{_PREFIX}{_spelled(channel.end_user)}.{signed}",
        "token_type": "Bearer",
        "expires_in": max(0, int(ends_at - time.time())),
        "virtual_user_id": named_id("vuser", channel.id, channel.end_user),
    }


def _purpose(channel: str, end_user: str) -> str:
    # What is signed says whose it is, so a token moved to another channel fits no signature.
    return f"runtime {channel} {end_user}"


def _spelled(end_user: str) -> str:
    return base64.urlsafe_b64encode(end_user.encode()).rstrip(b"=").decode()


def _unspelled(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        raise unauthorized() from None
