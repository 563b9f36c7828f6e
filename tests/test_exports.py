"""What the packages export: every module says it in `__all__`, and the three faces are pinned here.

A name that appears in or disappears from a face is a change to the public API: change this file and
the changelog together.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

FACES: dict[str, list[str]] = {
    "sessionwire": [
        *("Client", "Session", "SessionHost", "EventStream", "Publisher", "Published", "Sent"),
        *("Answer", "Prompt", "PASS", "Receipt", "LooseData"),
        *("CaughtUp", "Connected", "Disconnected", "Event", "Gap", "Item", "Presence", "Prompts"),
        *("Reset", "Snapshot", "Follow", "Start", "Wanted", "follow", "Command", "Host", "host"),
        *("ConnectionFailed", "HubError", "PromptEnded", "ProtocolError", "ReplayGap"),
        *("RequestRejected", "SessionReset", "__version__"),
    ],
    "sessionwire_server": [],
    "sessionwire_schemas": [
        *("CATALOGS", "COPILOT", "EVERRUNS", "Catalog", "Cursor", "CursorError", "detect"),
    ],
}


def _modules() -> Iterator[str]:
    for face in FACES:
        package = importlib.import_module(face)
        yield face
        for info in pkgutil.walk_packages(package.__path__, f"{face}."):
            if not info.name.endswith(".__main__"):  # importing one runs it
                yield info.name


def _order(name: str) -> tuple[int, str]:
    """Sort as ruff does: constants, then classes, then the rest."""
    if name.isupper():
        return 0, name
    return (1, name) if name.lstrip("_")[:1].isupper() else (2, name)


@pytest.mark.parametrize("name", sorted(set(_modules())))
def test_a_module_exports_what_it_lists_in_order(name: str) -> None:
    module = importlib.import_module(name)
    exported: list[str] = list(getattr(module, "__all__", []))
    assert exported == sorted(exported, key=_order)
    assert len(exported) == len(set(exported))
    assert [each for each in exported if not hasattr(module, each)] == []


@pytest.mark.parametrize("face", sorted(FACES))
def test_the_face_of_a_package_is_what_it_was(face: str) -> None:
    assert sorted(getattr(importlib.import_module(face), "__all__", [])) == sorted(FACES[face])
