"""JSON-RPC messages and their frames, read and spelled (protocol.md §7)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from sessionwire_schemas.close_codes import CloseCode
from sessionwire_schemas.rpc import ErrorCode, error_message, event_notification
from sessionwire_server.call_rate import CallRate
from sessionwire_server.entries import StoredEvent
from sessionwire_server.errors import HubError
from sessionwire_server.rpc_call import Call, Fault, fault_of, read_message
from sessionwire_server.rpc_spelling import RpcSpelling, line, text_frame

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "method": st.just("ping") | VALUES,
        "id": VALUES,
        "params": st.dictionaries(st.text(), VALUES, max_size=2) | VALUES,
    },
)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
def test_a_text_frame_is_the_one_that_websockets_makes(size: int) -> None:
    message = b"x" * size
    assert text_frame(message) == Frame(Opcode.TEXT, message).serialize(mask=False)


@given(st.binary() | st.text().map(str.encode) | VALUES.map(lambda v: json.dumps(v).encode()))
def test_whatever_comes_is_read_and_every_item_has_an_answer(message: bytes) -> None:
    for item in read_message(message):
        assert isinstance(item, Call | Fault)
        if isinstance(item, Fault):
            json.loads(error_message(item.id, item.code, item.error.detail, {"code": "x"}))


@given(MEMBERS)
def test_a_call_is_what_json_rpc_says(members: dict[str, object]) -> None:
    (item,) = read_message(json.dumps(members).encode())
    params = members.get("params", {})
    method = members.get("method")
    right = (
        members.get("jsonrpc") == "2.0"
        and isinstance(method, str)
        and len(method) <= 64
        and isinstance(params, dict)
        and len(json.dumps(members.get("id"))) <= 1_024
    )
    assert isinstance(item, Call) == right
    if isinstance(item, Call):
        assert json.loads(item.params) == params
        assert (item.id is None) == ("id" not in members)
    else:
        assert item.code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_PARAMS)
    if item.id is not None and "id" in members and item.id != b"null":
        assert json.loads(item.id) == members["id"]


def test_ids_come_back_on_one_line() -> None:
    (item,) = read_message(b'{"jsonrpc":"2.0","method":"ping","id":{"a":\r\n 1.0e5}}')
    assert item.id == b'{"a":   1.0e5}'


def test_nesting_without_end_is_a_parse_error() -> None:
    for message in (b"[" * 100_000, b'{"id":' * 100_000):
        (item,) = read_message(message)
        assert isinstance(item, Fault)
        assert item.code == ErrorCode.PARSE_ERROR


@pytest.mark.parametrize(
    ("status", "code", "number"),
    [
        (400, "invalid_parameter", -32602),
        (404, "method_not_found", -32601),
        (500, "internal_error", -32603),
        (409, "catalog_mismatch", -32000),
    ],
)
def test_errors_of_the_hub_have_their_numbers(status: int, code: str, number: int) -> None:
    assert fault_of(b"1", HubError(status, code, "no")).code == number


def test_an_event_keeps_its_bytes_and_says_its_place() -> None:
    event = StoredEvent(7, 3, "abcde", True, "e", "t", b'{"a": 1.0}')
    spelling = RpcSpelling("s-1", line)
    message = json.loads(spelling.encode(event, "abcdefgh"))
    assert message["params"] == {
        "session_id": "s-1",
        "cursor": "abcdefgh.3.7.abcde",
        "sequence": 3,
        "event": {"a": 1.0},
    }
    assert b'"event":{"a": 1.0}' in spelling.encode(event, "abcdefgh")
    assert b"sequence" not in event_notification("s", "c", None, b"{}")


def test_equal_spellings_share_their_bytes_and_others_do_not() -> None:
    assert RpcSpelling("s", text_frame) == RpcSpelling("s", text_frame)
    assert RpcSpelling("s", text_frame) != RpcSpelling("s", line)
    assert hash(RpcSpelling("s", line)) == hash(RpcSpelling("s", line))


def test_the_range_of_a_close_code_says_whether_to_come_back() -> None:
    back = {code for code in CloseCode if code.reconnect}
    assert back == {
        CloseCode.TRY_AGAIN_LATER,
        CloseCode.SHUTDOWN,
        CloseCode.SLOW,
        CloseCode.CONNECTION_CYCLE,
    }


def test_a_bucket_of_calls_fills_while_time_goes_by() -> None:
    rate = CallRate(10, now=0)
    for _ in range(10):
        rate.take(0)
    with pytest.raises(HubError) as refused:
        rate.take(0.05)
    assert refused.value.code == "rate_limited"
    assert refused.value.headers == {"Retry-After": "1"}
    rate.take(0.15)
    for _ in range(10):
        rate.take(100)
    with pytest.raises(HubError):
        rate.take(100)
