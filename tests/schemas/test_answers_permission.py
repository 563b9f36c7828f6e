"""Answers to permission prompts: 11 kinds, 12 ways to show them, 6 decisions, 9 approvals."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sessionwire_schemas.catalog import COPILOT
from sessionwire_schemas.permission_answers import APPROVALS, DECISIONS
from tests.schemas.answering import answer, faults
from tests.schemas.prompting import event, openers

_PAIR = next(pair for pair in COPILOT.pairs if pair.id == "permission")


def permission(kind: str, prompt: str | None = None, **members: Any) -> dict[str, Any]:
    request: dict[str, Any] = {"kind": kind, "toolCallId": "c1", **members}
    data: dict[str, Any] = {"requestId": "p1", "permissionRequest": request}
    if prompt is not None:
        data["promptRequest"] = {"kind": prompt, **members}
    return event("permission.requested", data)


def result(opener: dict[str, Any], value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", answer(opener, value).closer.data["result"])


def example(prompt_kind: str) -> dict[str, Any]:
    return next(
        one
        for one in openers("permission.requested")
        if one["data"].get("promptRequest", {}).get("kind") == prompt_kind
    )


APPROVAL_OF = {
    "shell": "commands",
    "write": "write",
    "read": "read",
    "mcp": "mcp",
    "memory": "memory",
    "custom-tool": "custom-tool",
    "extension-management": "extension-management",
    "factory": "factory",
    "extension-permission-access": "extension-permission-access",
}


@pytest.mark.parametrize("kind", [kind.kind for kind in _PAIR.kinds])
def test_every_kind_of_permission_takes_every_simple_decision(kind: str) -> None:
    opener = permission(kind)
    for decision, became in (
        ({"kind": "approve-once"}, {"kind": "approved"}),
        ({"kind": "approve-once", "approvedInteractively": True}, {"kind": "approved"}),
        ({"kind": "reject"}, {"kind": "denied-interactively-by-user"}),
        (
            {"kind": "reject", "feedback": "not there"},
            {"kind": "denied-interactively-by-user", "feedback": "not there"},
        ),
        (
            {"kind": "user-not-available"},
            {"kind": "denied-no-approval-rule-and-could-not-request-from-user"},
        ),
    ):
        assert result(opener, decision) == became
    assert answer(opener, {"kind": "approve-once"}).closer.data["toolCallId"] == "c1"


@pytest.mark.parametrize("kind", [kind.kind for kind in _PAIR.kinds])
def test_an_approval_for_the_session_covers_what_was_asked(kind: str) -> None:
    members: dict[str, Any] = {
        "commands": [{"identifier": "git", "readOnly": True}],
        "serverName": "srv",
        "toolName": "tool",
        "operation": "reload",
        "approvalKey": "key",
        "extensionName": "ext",
    }
    found = result(permission(kind, **members), {"kind": "approve-for-session"})
    if kind not in APPROVAL_OF:
        assert found == {"kind": "approved"}
        return
    assert found["kind"] == "approved-for-session"
    approval = found["approval"]
    assert approval.pop("kind") == APPROVAL_OF[kind]
    covered = {"shell": {"commandIdentifiers": ["git"]}}
    names = {
        "mcp": ["serverName", "toolName"],
        "custom-tool": ["toolName"],
        "extension-management": ["operation"],
        "factory": ["approvalKey"],
        "extension-permission-access": ["extensionName"],
    }
    assert approval == covered.get(kind, {name: members[name] for name in names.get(kind, [])})


def test_there_is_a_model_for_each_decision_and_each_approval() -> None:
    assert set(APPROVALS) == {kind.kind for kind in _PAIR.approval_kinds}
    assert len(DECISIONS) == 6


@pytest.mark.parametrize("kind", APPROVAL_OF)
def test_an_approval_may_say_what_it_covers(kind: str) -> None:
    approvals: dict[str, dict[str, Any]] = {
        "shell": {"commandIdentifiers": ["git status"]},
        "mcp": {"serverName": "srv", "toolName": None},
        "custom-tool": {"toolName": "t"},
        "extension-management": {},
        "factory": {"approvalKey": "k"},
        "extension-permission-access": {"extensionName": "e"},
    }
    members = {"serverName": "srv", "toolName": "t", "approvalKey": "k", "extensionName": "e"}
    approval = {"kind": APPROVAL_OF[kind], **approvals.get(kind, {})}
    opener = permission(kind, **members)
    found = result(opener, {"kind": "approve-for-session", "approval": approval})
    assert found == {"kind": "approved-for-session", "approval": approval}
    where = {"kind": "approve-for-location", "approval": approval, "locationKey": "/w"}
    assert result(opener, where) == {
        "kind": "approved-for-location",
        "approval": approval,
        "locationKey": "/w",
    }


@pytest.mark.parametrize("kind", [kind.kind for kind in _PAIR.prompt_kinds])
def test_every_kind_of_permission_prompt_can_be_answered(kind: str) -> None:
    opener = example(kind)
    opener["data"]["promptRequest"].pop("canOfferSessionApproval", None)
    opener["data"]["permissionRequest"].pop("canOfferSessionApproval", None)
    assert result(opener, {"kind": "approve-once"}) == {"kind": "approved"}
    answer(opener, {"kind": "approve-for-session"})


def test_a_path_prompt_is_approved_for_reading_or_writing() -> None:
    opener = permission("shell", "path", accessKind="read", paths=["/w"])
    approvals: list[dict[str, Any]] = [
        {"kind": "read"},
        {"kind": "write"},
        {"kind": "commands", "commandIdentifiers": ["cat"]},
    ]
    for approval in approvals:
        answer(opener, {"kind": "approve-for-session", "approval": approval})
    other = {"kind": "approve-for-session", "approval": {"kind": "memory"}}
    assert faults(opener, other) == ["/approval/kind"]


def test_a_url_is_approved_by_its_domain() -> None:
    opener = permission("url", "url", url="https://x.test/a")
    for decision in (
        {"kind": "approve-permanently", "domain": "x.test"},
        {"kind": "approve-for-session", "domain": "x.test"},
    ):
        assert result(opener, decision) == {"kind": "approved"}
    shell = permission("shell")
    assert faults(shell, {"kind": "approve-permanently", "domain": "x"}) == ["/kind"]
    assert faults(shell, {"kind": "approve-for-session", "domain": "x"}) == ["/domain"]
    assert faults(opener, {"kind": "approve-permanently"}) == ["/domain"]
    assert faults(opener, {"kind": "approve-permanently", "domain": ""}) == ["/domain"]


@pytest.mark.parametrize("kind", [*(kind.kind for kind in _PAIR.result_kinds), "no-result", "yes"])
def test_a_result_is_no_decision(kind: str) -> None:
    assert faults(permission("shell"), {"kind": kind}) == ["/kind"]


def test_a_permission_is_not_approved_for_longer_than_it_offers() -> None:
    shell = permission("shell", canOfferSessionApproval=False)
    assert faults(shell, {"kind": "approve-for-session"}) == ["/kind"]
    factory = permission("factory", canPersistApproval=False)
    where = {"approval": {"kind": "factory"}, "locationKey": "/w"}
    assert faults(factory, {"kind": "approve-for-location", **where}) == ["/kind"]


def test_an_approval_is_of_what_was_asked() -> None:
    opener = permission("mcp", serverName="srv", toolName="tool")
    approval = {"kind": "mcp", "serverName": "other", "toolName": "tool"}
    wrong = {"kind": "approve-for-session", "approval": approval}
    assert faults(opener, wrong) == ["/approval/serverName"]
    wrong = {"kind": "approve-for-session", "approval": {"kind": "write"}}
    assert faults(opener, wrong) == ["/approval/kind"]
    wrong = {"kind": "approve-for-session", "approval": {"kind": "mcp", "serverName": "srv"}}
    assert faults(opener, wrong) == ["/approval/toolName"]
    wrong = {"kind": "approve-for-session", "approval": {"kind": "mcp-sampling"}}
    assert faults(opener, wrong) == ["/approval/kind"]
