"""What is sent to answer and claim prompts: its bounds, its hash, who it is from."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sessionwire_server.api_keys import Principal
from sessionwire_server.errors import HubError
from sessionwire_server.prompt_bodies import (
    AnswerPrompt,
    ClaimPrompt,
    ReleasePrompt,
    answerer,
    idempotency_key,
)
from tests.server.conftest import error_of


def read(text: str) -> AnswerPrompt:
    return AnswerPrompt.model_validate_json(text)


def test_an_answer_left_out_is_null() -> None:
    said = read("{}").said("r")
    assert (said.request_id, said.answer, said.comment, said.claim_id) == ("r", None, "", "")
    assert said == read('{"answer":null,"comment":null,"claim_id":null}').said("r")


SAME = [
    ('{"answer":{"a":1,"b":[2]}}', '{ "answer" : {"b":[2.0],"a":1.0} , "comment":""}'),
    ('{"answer":"é"}', '{"answer":"\\u00e9"}'),
    ("{}", '{"answer":null}'),
]
OTHER = [
    ('{"answer":"1"}', '{"answer":1}'),
    ('{"answer":true}', '{"answer":1}'),
    ('{"answer":[1,2]}', '{"answer":[2,1]}'),
    ('{"answer":"a"}', '{"answer":"a","comment":"b"}'),
    ('{"answer":"a"}', '{"answer":"a","claim_id":"c"}'),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=lambda text: "")
def test_the_hash_is_of_the_meaning(one: str, other: str) -> None:
    assert read(one).said("r", "k").digest == read(other).said("r", "k").digest != ""


@pytest.mark.parametrize(("one", "other"), OTHER, ids=lambda text: "")
def test_another_meaning_has_another_hash(one: str, other: str) -> None:
    assert read(one).said("r", "k").digest != read(other).said("r", "k").digest


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('{"answer":1e999}', ""),
        ('{"answer":{"a":[0,{"b/c":123456789012345678901234567890}]}}', "/a/1/b~1c"),
        ('{"answer":[-9223372036854775809]}', "/0"),
    ],
    ids=["infinite", "long", "low"],
)
def test_a_number_that_no_record_holds_is_refused_with_its_place(text: str, pointer: str) -> None:
    error = error_of(lambda: read(text).said("r"))
    assert isinstance(error, HubError)
    assert (error.status, error.code) == (422, "invalid_answer")
    assert [fault["pointer"] for fault in error.extra["faults"]] == [pointer]


@pytest.mark.parametrize("number", ["9223372036854775807", "-9223372036854775808", "1e300", "true"])
def test_other_numbers_are_taken(number: str) -> None:
    read(f'{{"answer":{number}}}').said("r")


@pytest.mark.parametrize(
    "body",
    [
        {"answer": 1, "odd": 1},
        {"comment": 1},
        {"comment": "x" * 4_097},
        {"claim_id": ""},
        {"claim_id": "a b"},
        {"claim_id": "x" * 129},
    ],
    ids=["unknown", "number", "long", "empty", "space", "long-claim"],
)
def test_a_body_with_odd_members_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AnswerPrompt.model_validate(body)


@pytest.mark.parametrize("lease", [0, -1, 301, float("nan"), float("inf"), "30", True, None])
def test_a_lease_has_bounds(lease: Any) -> None:
    with pytest.raises(ValidationError):
        ClaimPrompt.model_validate({"lease_s": lease})


def test_a_lease_is_thirty_seconds_and_a_release_names_its_claim() -> None:
    assert ClaimPrompt.model_validate({}).lease_s == 30
    assert ClaimPrompt.model_validate({"lease_s": 300}).lease_s == 300
    with pytest.raises(ValidationError):
        ReleasePrompt.model_validate({})


@pytest.mark.parametrize("key", ["k", "a b", "x" * 256, "~!"])
def test_a_printable_key_is_taken(key: str) -> None:
    assert idempotency_key(key) == key
    assert idempotency_key("") == ""


@pytest.mark.parametrize("key", ["x" * 257, "é", "a\tb", "\x00"], ids=["long", "e", "tab", "nul"])
def test_any_other_key_is_refused(key: str) -> None:
    error = error_of(lambda: idempotency_key(key))
    assert isinstance(error, HubError)
    assert (error.status, error.code) == (400, "invalid_parameter")


def test_who_answers_is_named_and_from_where() -> None:
    who = Principal(id="0123", scopes=frozenset({"answer"}), sessions=("*",), human=True)
    by = answerer(who, "http", "curl/8\r\n " + "é" * 3 + "x" * 500)
    assert (by.name, by.human, by.host) == ("0123", True, False)
    assert by.via.startswith("http curl/8")
    assert by.via.isprintable()
    assert len(by.via) <= 125
    assert answerer(who, "websocket").via == "websocket"
