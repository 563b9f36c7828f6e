"""Reading request bodies: bounded, and as what the client says they are.

A body is counted while it is read, so a false `Content-Length` helps nobody; one that is announced
too large is refused before it is read.
"""

from __future__ import annotations

from typing import Final, Literal, TypeVar

import anyio
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from sessionwire_server.errors import HubError
from sessionwire_server.raw_json import parse

__all__ = [
    "Kind",
    "body_kind",
    "model_of",
    "read_body",
    "read_json",
    "read_model",
    "read_model_and_bytes",
]

Kind = Literal["json", "ndjson"]
Model = TypeVar("Model", bound=BaseModel)

MAX_MODEL_BYTES: Final = 1024 * 1024
"""Bodies that are not events describe sessions, tickets and the like."""

PAUSE_S: Final = 30.0
"""A client that sends nothing for so long is gone. Lines may pause: an upload can be live."""

_NDJSON: Final = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})


def body_kind(request: Request) -> Kind:
    """Tell what a body claims to be; JSON where nothing is said.

    Raises:
        HubError: 415 `unsupported_media_type`.
    """
    media, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    media = media.strip()
    charset = parameters.partition("charset=")[2].split(";")[0].strip(' "')
    if charset in {"", "utf-8", "utf8", "us-ascii"}:
        if media in _NDJSON:
            return "ndjson"
        if media in {"", "application/json"} or media.endswith("+json"):
            return "json"
    raise HubError(
        415,
        "unsupported_media_type",
        "send application/json or, for events, application/x-ndjson, in UTF-8",
    )


async def read_body(request: Request, limit: int, too_large: HubError) -> bytes:
    """Read a whole body of at most `limit` bytes, else raise `too_large`.

    Raises:
        HubError: `too_large`, as soon as the limit is passed; 408 `request_timeout` if the client
            stops sending in the middle.
        ClientDisconnect: the client went away in the middle.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    with anyio.move_on_after(PAUSE_S) as patience:
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise too_large
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)
            patience.deadline = anyio.current_time() + PAUSE_S
    raise HubError(408, "request_timeout", f"nothing came for {PAUSE_S:g} s")


async def read_model(request: Request, model: type[Model]) -> Model:
    """Read a JSON object into a model.

    Raises:
        HubError: as `read_json` and `model_of`.
    """
    return (await read_model_and_bytes(request, model))[0]


async def read_model_and_bytes(request: Request, model: type[Model]) -> tuple[Model, bytes]:
    """Read a JSON object into a model, and give its bytes.

    Raises:
        HubError: as `read_json` and `model_of`.
    """
    body = await read_json(request)
    return model_of(body, model), body


async def read_json(request: Request) -> bytes:
    """Read a body that claims to be JSON; no body at all is an empty object.

    Raises:
        HubError: as `read_body`; 413 `body_too_large`, 415 `unsupported_media_type`.
    """
    body = await read_body(request, MAX_MODEL_BYTES, _too_large())
    if not body.strip():
        body = b"{}"
    elif body_kind(request) != "json":
        raise HubError(415, "unsupported_media_type", "send application/json")
    return body


def model_of(body: bytes, model: type[Model]) -> Model:
    """Read JSON into a model, whatever brought it.

    Raises:
        HubError: 413 `body_too_large`, 400 `malformed_json`, or 422 `invalid_body` with the
            `pointer` of the first fault.
    """
    if len(body) > MAX_MODEL_BYTES:
        raise _too_large()
    parse(body.strip())  # pydantic takes NaN and Infinity for numbers
    try:
        return model.model_validate_json(body)
    except ValidationError as exc:
        fault = exc.errors(include_input=False, include_url=False)[0]
    if fault["type"] == "json_invalid":
        raise HubError(400, "malformed_json", fault["msg"])
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in fault["loc"]]
    pointer = "".join(f"/{step}" for step in steps)
    raise HubError(422, "invalid_body", f"{pointer or 'body'}: {fault['msg']}", pointer=pointer)


def _too_large() -> HubError:
    detail = f"the body has at most {MAX_MODEL_BYTES} bytes"
    return HubError(413, "body_too_large", detail, limit=MAX_MODEL_BYTES)
