"""Which hub a command talks to, and whom it shows a key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessionwire._http import HubAddress
from sessionwire._hub_file import default_data_dir, read_hub_file
from sessionwire.cli._address import find_hub
from sessionwire.cli._exit import CommandFailed
from sessionwire_server.settings import Settings

LOCAL = {"url": "http://127.0.0.1:8787", "pid": 1, "key": "made-up"}


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SESSIONWIRE_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "sessionwire"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "environ",
    [
        {"XDG_DATA_HOME": "/somewhere"},
        {"XDG_DATA_HOME": ""},
        {"SESSIONWIRE_DATA_DIR": "/mine", "XDG_DATA_HOME": "/somewhere"},
    ],
)
def test_the_default_data_folder_is_the_hubs(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONWIRE_DATA_DIR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert default_data_dir() == Settings.from_env().data_dir


def test_a_hub_on_this_machine_is_found(data_dir: Path) -> None:
    (data_dir / "hub.json").write_text(json.dumps(LOCAL))
    assert find_hub("", "") == HubAddress("http://127.0.0.1:8787", "made-up")
    assert find_hub("http://127.0.0.1:8787/", "") == HubAddress("http://127.0.0.1:8787", "made-up")
    assert find_hub("", "mine") == HubAddress("http://127.0.0.1:8787", "mine")


def test_the_key_of_the_local_hub_is_shown_to_no_other(data_dir: Path) -> None:
    (data_dir / "hub.json").write_text(json.dumps(LOCAL))
    assert find_hub("https://elsewhere.example", "") == HubAddress("https://elsewhere.example", "")


def test_without_any_hub_the_error_says_how_to_name_one(data_dir: Path) -> None:
    assert read_hub_file(data_dir) is None
    with pytest.raises(CommandFailed, match="SESSIONWIRE_URL") as caught:
        find_hub("", "key")
    assert caught.value.code == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 7}', '{"key": "k"}'])
def test_a_broken_hub_file_is_none(data_dir: Path, text: str) -> None:
    (data_dir / "hub.json").write_text(text)
    assert read_hub_file(data_dir) is None


@pytest.mark.parametrize("url", ["ftp://x", "localhost:8787", "http://", "http://x:port"])
def test_what_is_no_url_is_a_usage_error(data_dir: Path, url: str) -> None:
    del data_dir
    with pytest.raises(CommandFailed, match="--url") as caught:
        find_hub(url, "")
    assert caught.value.code == 2


@pytest.mark.parametrize("key", ["two\nlines", "a b", "sch\u00fcssel", "\udcff"])
def test_what_no_key_can_be_is_a_usage_error_that_does_not_show_it(
    data_dir: Path, key: str
) -> None:
    del data_dir
    with pytest.raises(CommandFailed, match="--key") as caught:
        find_hub("http://127.0.0.1:8787", key)
    assert caught.value.code == 2
    assert key not in str(caught.value)


def test_a_key_is_not_in_the_text_of_an_address() -> None:
    assert "secret" not in repr(HubAddress("http://x", "secret"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://127.0.0.1:1", True), ("http://localhost", True), ("http://[::1]:1", True),
     ("https://hub.example", False), ("http://10.0.0.1", False)],
)  # fmt: skip
def test_a_proxy_is_not_asked_for_the_loopback(url: str, expected: bool) -> None:
    assert HubAddress(url).on_loopback is expected
