"""What a prompt asks, for people: in one line, and whole before they answer. Pure.

Everything shown is of an agent's making: control characters and what turns text around never get
through, and what is left out is said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from sessionwire._transcript import clean
from sessionwire.cli._short_copilot import form_of
from sessionwire_schemas.paths import member
from sessionwire_schemas.prompts import Asked

__all__ = ["MAX_LINES", "Part", "cut", "one_line", "parts"]

MAX_LINE: Final = 160
"""Characters of the one line."""

MAX_LINES: Final = 200
"""Lines of one part that are shown unless somebody asks for more."""

Look: TypeAlias = Literal["text", "code", "diff", "warning"]

Members = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of what is asked.

    Attributes:
        label: what it is, a word or two.
        text: the piece, clean; may have line breaks.
        look: how to show it.
    """

    label: str
    text: str
    look: Look = "text"


def one_line(asked: Asked) -> str:
    """Say what is asked in one line, of at most `MAX_LINE` characters."""
    first, *others = parts(asked)
    what = f"{first.label}: {first.text}" if first.label else first.text
    given = next((part.text for part in others if part.label == "arguments"), "")
    if given:
        what = f"{what} {' '.join(given.split())}"
    line = " ⏎ ".join(part.strip() for part in what.splitlines() if part.strip())
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"


def parts(asked: Asked) -> list[Part]:
    """Take apart what is asked; the first part says the most. At least one."""
    found = [
        Part(clean(part.label), clean(part.text), part.look)
        for part in _of_kind(asked)
        if part.text.strip()
    ]
    return found or [Part(asked.kind, _json(asked.data), "code")]


def cut(text: str, most: int = MAX_LINES) -> tuple[str, int]:
    """Cut a text to so many lines. Returns: it, and how many lines are left out."""
    lines = text.splitlines()
    return "\n".join(lines[:most]), max(0, len(lines) - most)


def _of_kind(asked: Asked) -> Iterator[Part]:
    data = asked.data
    match asked.kind:
        case "permission":
            yield from _permission(asked)
        case "user_input":
            yield Part("", _text(data, "question"))
        case "elicitation" if asked.catalog == "copilot":
            yield Part("", _text(data, "message"))
            yield Part("asked by", _text(data, "elicitationSource"))
            yield Part("URL", _text(data, "url"), "warning")
            yield from _form(asked)
        case "exit_plan_mode":
            yield Part("plan", _text(data, "summary"))
            yield Part("the plan", _text(data, "planContent"))
            yield Part("it recommends", _text(data, "recommendedAction"))
        case "auto_mode_switch":
            yield Part("", "switch to another model, as this one is used up")
            yield Part("because of", _text(data, "errorCode"))
            yield Part("seconds until it is back", _text(data, "retryAfterSeconds"))
        case "session_limits_exhausted":
            used, limit = _text(data, "usedAiCredits"), _text(data, "maxAiCredits")
            yield Part("", f"{used} of {limit} AI credits are used up")
        case "mcp_oauth" | "mcp_headers":
            what = "token" if asked.kind == "mcp_oauth" else "headers"
            yield Part("", f"{what} for the MCP server {_text(data, 'serverName')}")
            yield Part("URL", _text(data, "serverUrl"), "warning")
            yield Part("reason", _text(data, "reason"))
        case "sampling":
            yield Part("", f"the MCP server {_text(data, 'serverName')} wants an answer of a model")
            yield Part("request", _json(data), "code")
        case "external_tool":
            yield Part("tool", _text(data, "toolName"))
            yield Part("arguments", _json(data.get("arguments")), "code")
            yield Part("folder", _text(data, "workingDirectory"))
        case "command":
            yield Part("command", _text(data, "command"), "code")
        case _:
            yield from _call(asked)


def _permission(asked: Asked) -> Iterator[Part]:
    found = [member(asked.data, name) for name in ("permissionRequest", "promptRequest")]
    requests = [one for one in map(_members, found) if one]
    shown: set[tuple[str, str]] = set()
    # What is carried out, then what its user is shown of it where that says more.
    for request in requests:
        for part in _request(request):
            if (part.label, part.text) not in shown:
                shown.add((part.label, part.text))
                yield part
    if any(request.get("managedApprovalRequired") is True for request in requests):
        yield Part("note", "only a person may approve this", "warning")


def _request(request: Members) -> Iterator[Part]:
    match request.get("kind"):
        case "shell" | "commands":
            yield Part("run", _text(request, "fullCommandText"), "code")
        case "write":
            yield Part("write", _text(request, "fileName"), "code")
            yield Part("change", _text(request, "diff"), "diff")
            if not _text(request, "diff"):
                yield Part("content", _text(request, "newFileContents"), "code")
        case "read":
            yield Part("read", _text(request, "path"), "code")
        case "path":
            access = _text(request, "accessKind") or "access"
            yield Part(access, _lines(request.get("paths")), "code")
        case "url":
            yield Part("fetch", _text(request, "url"), "code")
            yield Part("redirected from", _text(request, "redirectedFrom"), "warning")
        case "mcp":
            tool = f"{_text(request, 'serverName')} / {_text(request, 'toolName')}"
            yield Part("MCP tool", tool)
            yield Part("title", _text(request, "toolTitle"))
            yield Part("arguments", _json(request.get("args")), "code")
            yield Part("it says that it", "only reads" if request.get("readOnly") is True else "")
        case "memory":
            yield Part(f"{_text(request, 'action') or 'store'} a fact", _text(request, "fact"))
            for name in ("subject", "citations", "direction", "reason"):
                yield Part(name, _text(request, name))
        case _:
            yield from _other(request)
    yield Part("why", _text(request, "intention"))
    yield Part("warning", _text(request, "warning"), "warning")
    if request.get("requestSandboxBypass") is True:
        yield Part(
            "outside the sandbox", _text(request, "requestSandboxBypassReason") or "yes", "warning"
        )


def _other(request: Members) -> Iterator[Part]:
    """Show what has no form of its own: a tool, an extension, a factory, or a kind not known."""
    kind = _text(request, "kind")
    name = next(
        (
            text
            for key in ("toolName", "name", "extensionName", "operation")
            if (text := _text(request, key))
        ),
        "",
    )
    yield Part(kind, name or "allow it")
    told = {"kind", "toolCallId", "toolName", "intention", "warning"}
    rest = {key: value for key, value in request.items() if key not in told}
    yield Part("details", _json(rest), "code")


def _form(asked: Asked) -> Iterator[Part]:
    for name, field in form_of(asked).items():
        said = [_text(field, "title"), _text(field, "description"), _text(field, "type")]
        if isinstance(field.get("enum"), list):
            said.append("one of " + ", ".join(str(one) for one in field["enum"]))
        if "default" in field:
            said.append(f"default {field['default']}")
        yield Part(f"field {name}", "; ".join(filter(None, said)) or "any text")


def _call(asked: Asked) -> Iterator[Part]:
    arguments = asked.data.get("arguments")
    known = _members(arguments)
    match asked.kind:
        case "question":
            yield from _questions(known)
        case "elicitation":
            asks = _members(known.get("elicitation"))
            yield Part("", _text(asks, "message") or f"{_text(asks, 'server')} asks")
            yield Part("MCP server", _text(asks, "server"))
            yield Part("tool", _text(asks, "tool"))
            yield from _questions(known)
            yield from _form(asked)
        case "approval":
            yield Part("run the tool", next(iter(_named(known)), "") or "a tool")
            yield Part("details", _json(known), "code")
        case _:
            yield Part("tool", _text(asked.data, "name"))
            yield Part("arguments", _json(arguments), "code")


def _named(arguments: Members) -> Iterator[str]:
    """Give the names under which an approval may name its tool."""
    for name in ("tool_name", "tool", "name"):
        value: object = arguments.get(name)
        text = _text(_members(value), "name") or value
        if isinstance(text, str) and text:
            yield text


def _questions(arguments: Members) -> Iterator[Part]:
    listed = arguments.get("questions")
    for question in cast("list[object]", listed) if isinstance(listed, list) else []:
        if not isinstance(question, Mapping):
            continue
        known = cast("Members", question)
        asks = next(filter(None, (_text(known, n) for n in ("question", "prompt", "text"))), "")
        several = len(cast("list[object]", listed)) > 1
        yield Part(_text(known, "id") if several else "", asks or _json(known))
        options = known.get("options")
        labels = [
            one if isinstance(one, str) else member(one, "label")
            for one in (cast("list[object]", options) if isinstance(options, list) else [])
        ]
        yield Part("options", ", ".join(str(label) for label in labels if label))


def _members(value: object) -> Members:
    return cast("Members", value) if isinstance(value, Mapping) else {}


def _text(members: Members, name: str) -> str:
    value = members.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value)


def _lines(value: object) -> str:
    return "\n".join(map(str, cast("list[object]", value))) if isinstance(value, list) else ""


def _json(value: object) -> str:
    if value is None or value == {}:
        return ""
    return json.dumps(value, ensure_ascii=False, indent=2)
