"""`sessionwire sessions`: the session list, once or as it changes."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any, cast

import anyio
import httpx2
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from sessionwire._http import (
    HubAddress,
    async_client,
    client,
    connection_failed,
    json_object,
    rejected,
)
from sessionwire._session_list import SessionRows, watch_sessions
from sessionwire._transcript import clean
from sessionwire.cli._address import Key, Url, find_hub

__all__ = ["sessions"]

PAGE = 200
COLUMNS = ("id", "catalog", "status", "sequence", "updated_at", "title")
WATCHED_ROWS = 40
"""Rows of a live table; a terminal shows no more."""


def sessions(
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing what changes.")] = False,
    status: Annotated[str, typer.Option(help="Only sessions in this state.")] = "",
    json: Annotated[bool, typer.Option("--json", help="One session a line.")] = False,
    url: Url = "",
    key: Key = "",
) -> None:
    """List the sessions, newest first."""
    address = find_hub(url, key)
    params = {"status": status} if status else {}
    if watch:
        anyio.run(_watch, address, params, json)
        return
    rows = list(_all(address, params))
    if json:
        sys.stdout.writelines(f"{jsonlib.dumps(row, ensure_ascii=False)}\n" for row in rows)
    else:
        Console().print(_table(rows))


def _all(address: HubAddress, params: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Page through the whole list."""
    token: object = None
    with client(address) as http:
        while True:
            more = {"page_token": token} if isinstance(token, str) else {}
            try:
                response = http.get("/v1/sessions", params={**params, "limit": str(PAGE), **more})
            except httpx2.HTTPError as exc:
                raise connection_failed(address.url, exc) from exc
            if response.status_code != 200:
                raise rejected(response)
            page = json_object(response)
            yield from cast("list[dict[str, Any]]", page.get("data") or [])
            token = page.get("next_page_token")
            if not token:
                return


async def _watch(address: HubAddress, params: dict[str, str], as_json: bool) -> None:
    rows = SessionRows()
    async with async_client(address) as http:
        changes = watch_sessions(http, params)
        if as_json:
            async for name, members in changes:
                sys.stdout.write(f"{jsonlib.dumps({name: members}, ensure_ascii=False)}\n")
                sys.stdout.flush()
            return
        with Live(_table([]), console=Console(), auto_refresh=False) as live:
            async for name, members in changes:
                rows.apply(name, members)
                live.update(_table(rows.newest(WATCHED_ROWS)), refresh=True)


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(*COLUMNS, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(clean(str(row.get(name) or "")).replace("[", "\\[") for name in COLUMNS))
    return table
