"""`sessionwire export SESSION`: the whole log of a session as NDJSON."""

from __future__ import annotations

import sys
from typing import Annotated

import httpx2
import typer

from sessionwire._http import client, connection_failed, rejected, session_path
from sessionwire.cli._address import Key, Session, Url, find_hub

__all__ = ["export"]


def export(
    session: Session,
    include_rewound: Annotated[
        bool, typer.Option(help="Also the events that a rewind hides.")
    ] = False,
    url: Url = "",
    key: Key = "",
) -> None:
    """Write every durable event of a session to standard output, one a line."""
    params = {"include_rewound": "1"} if include_rewound else {}
    address = find_hub(url, key)
    with client(address) as http:
        try:
            with http.stream("GET", session_path(session, "export"), params=params) as response:
                if response.status_code != 200:
                    raise rejected(response)
                for chunk in response.iter_bytes():
                    sys.stdout.buffer.write(chunk)
        except httpx2.HTTPError as exc:
            raise connection_failed(address.url, exc) from exc
    sys.stdout.buffer.flush()
