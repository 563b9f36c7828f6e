"""The wheel: what is in it, what it says of itself, and that the pinned versions fit the bounds."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sessionwire

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT],
        check=True,
        capture_output=True,
        timeout=110,
    )
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_every_file_of_the_three_packages_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    here: set[str] = set()
    for folder in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        base = ROOT / folder
        here |= {
            str(path.relative_to(base.parent))
            for path in base.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
    assert packed == here


@pytest.mark.parametrize(
    "name",
    [
        "sessionwire/py.typed",
        "sessionwire_schemas/py.typed",
        "sessionwire_server/py.typed",
        "sessionwire_server/console/console.css",
        "sessionwire_server/console/console.js",
        "sessionwire_server/console/index.html",
        "sessionwire_server/lua/publish.lua",
    ],
)
def test_the_wheel_carries_the_files_that_are_no_code(wheel: zipfile.ZipFile, name: str) -> None:
    assert len(wheel.read(name)) == len(next(path for path in ROOT.glob(f"*/{name}")).read_bytes())


def test_the_wheel_says_who_it_is(metadata: Message) -> None:
    assert metadata["Name"] == "sessionwire"
    assert metadata["Version"] == sessionwire.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_all("Provides-Extra") == ["embedded", "server"]


def test_the_wheel_brings_its_command(wheel: zipfile.ZipFile) -> None:
    (name,) = (each for each in wheel.namelist() if each.endswith("entry_points.txt"))
    assert "sessionwire = sessionwire.cli:main" in wheel.read(name).decode()


def test_every_pinned_version_lies_within_the_bounds() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pinned = dict(line.split("==") for line in lines)
    stated: list[str] = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        stated += extra
    for group in PROJECT["dependency-groups"].values():
        stated += [line for line in group if isinstance(line, str)]
    wanted = [Requirement(text) for text in stated]
    unfit = [
        str(each)
        for each in wanted
        if each.name != "sessionwire"
        and not each.specifier.contains(pinned.get(canonicalize_name(each.name), "0"))
    ]
    assert unfit == []
