"""The catalogs' tables, `sessionwire_schemas/_tables.py`: plain data, no models."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from _generator.names import everruns_event_name
from _generator.pinned import Pinned
from _generator.source import Call, expression, header

__all__ = ["Row", "copilot_types", "everruns_types", "render_tables"]

Row: TypeAlias = tuple[str, str, str, str, str, str]
"""Type, ephemeral rule, visibility, stability, name of its model, description."""


def render_tables(pinned: Pinned) -> str:
    """Write the module with both catalogs' types, last values and the copilot pairs."""
    parts = [
        header("The catalogs' tables: types, last values, pairs.", pinned.digests),
        "from typing import Final\n",
        "from sessionwire_schemas.pairs import Kind, Pair\n",
        '__all__ = ["COPILOT_LASTS", "COPILOT_PAIRS", "COPILOT_TYPES", "EVERRUNS_TYPES"]\n',
        _assign(
            "COPILOT_TYPES",
            "tuple[tuple[str, str, str, str, str, str], ...]",
            copilot_types(pinned),
            "Type, ephemeral rule, visibility, stability, name of its model, description.",
        ),
        _assign(
            "EVERRUNS_TYPES",
            "tuple[tuple[str, str, str, str, str, str], ...]",
            everruns_types(pinned),
            "The same for everruns.",
        ),
        _assign(
            "COPILOT_LASTS",
            "dict[str, str]",
            _copilot_lasts(pinned),
            'Last-value types with the path of the member that tells values apart, "" for none.',
        ),
        _assign("COPILOT_PAIRS", "tuple[Pair, ...]", _copilot_pairs(pinned), ""),
    ]
    return "\n".join(parts)


def _assign(name: str, annotation: str, value: object, doc: str) -> str:
    opening = f"{name}: Final[{annotation}] = "
    text = opening + expression(value, len(opening)) + "\n"
    return text + (f'"""{doc}"""\n' if doc else "")


def copilot_types(pinned: Pinned) -> tuple[Row, ...]:
    """Return the rows of the copilot types, in the order of the union."""
    rows: list[Row] = []
    definitions = pinned.copilot["definitions"]
    for branch in definitions["SessionEvent"]["anyOf"]:
        name = branch["$ref"].rsplit("/", 1)[-1]
        schema = definitions[name]
        always = schema["properties"]["ephemeral"].get("const") is True
        rows.append(
            (
                schema["properties"]["type"]["const"],
                "always" if always else "optional",
                schema.get("visibility", "public"),
                schema.get("stability", "stable"),
                name,
                schema.get("description", ""),
            )
        )
    return tuple(rows)


def everruns_types(pinned: Pinned) -> tuple[Row, ...]:
    """Return the rows of the everruns types, in the order of the page."""
    return tuple(
        (
            name,
            "always" if entry["ephemeral"] else "never",
            "public",
            "stable",
            everruns_event_name(name),
            entry["description"],
        )
        for name, entry in pinned.everruns.items()
    )


def _copilot_lasts(pinned: Pinned) -> dict[str, str]:
    table: dict[str, list[str]] = pinned.pairs["ephemeral_classes"]["last_value_or_invalidation"]
    return {name: next(iter(paths), "") for name, paths in table.items()}


def _copilot_pairs(pinned: Pinned) -> tuple[object, ...]:
    return tuple(_pair(entry) for entry in pinned.pairs["pairs"])


def _pair(entry: dict[str, Any]) -> Call:
    """Turn one pinned pair into `Pair(…)`; its prose stays behind, its facts do not."""
    open_key, close_key = _keys(entry["key"])
    arguments: dict[str, object] = {
        "id": entry["id"],
        "role": entry["class"],
        "opens": _types(entry["opened"]),
        "closes": _types(entry["closed"]),
        "progress": tuple(_word(name) for name in entry["progress_events"]),
        "open_key": open_key,
        "close_key": close_key,
        "secondary_keys": tuple(_word(path) for path in entry.get("secondary_keys", [])),
        "open_ephemeral": entry["open_is_ephemeral"],
        "close_ephemeral": entry["close_is_ephemeral"],
        # The only durable trace of a finished external tool.
        "also_closed_by": ("tool.execution_complete",) if entry["id"] == "external_tool" else (),
        "skip_when": "data.resolvedByHook" if "skip_prompt_when" in entry else "",
        "human_when": (
            (
                "data.permissionRequest.managedApprovalRequired",
                "data.promptRequest.managedApprovalRequired",
            )
            if "must_be_human_when" in entry
            else ()
        ),
        "machine": entry.get("human") is False,
        "secret": "secret" in entry,
        "requires_interest": _word(entry.get("requires_interest", "")),
        "answer_method": entry.get("answer_rpc", {}).get("method", ""),
        "kinds": _kinds(entry.get("request_kinds", [])),
        "prompt_kinds": _kinds(entry.get("prompt_kinds", [])),
        "result_kinds": _kinds(entry.get("result_kinds", [])),
        "approval_kinds": _kinds(entry.get("approval_kinds", [])),
        "outcomes": tuple(entry.get("outcomes", [])),
        "reasons": tuple(entry.get("reasons", [])),
        "modes": tuple(entry.get("modes", {})),
    }
    said = {name: value for name, value in arguments.items() if value not in ((), "", False)}
    return Call("Pair", said)


def _keys(paths: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read `data.a` (both sides), `data.a ~ data.b[].c` (each its own), `data.a (start only)`."""
    opens: list[str] = []
    closes: list[str] = []
    for path in paths:
        first, _, second = path.partition(" ~ ")
        opens.append(_word(first))
        if second and not second.startswith("data."):
            raise ValueError(f"unknown spelling of a key: {path!r}")
        closes.append("" if "(start only)" in path else _word(second or first))
    return tuple(opens), tuple(closes)


def _word(text: str) -> str:
    """Take the name out of `name (remark)`."""
    return re.split(r"\s", text, maxsplit=1)[0]


def _types(entries: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(entry["type"] for entry in entries)


def _kinds(entries: list[dict[str, Any]]) -> tuple[Call, ...]:
    kinds: list[Call] = []
    for entry in entries:
        arguments: dict[str, object] = {"kind": entry["kind"]}
        for name in ("required", "optional"):
            if entry.get(name):
                arguments[name] = tuple(entry[name])
        kinds.append(Call("Kind", arguments))
    return tuple(kinds)
