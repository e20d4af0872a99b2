from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.errors import FormatError
from stepscope.store.files import open_file, read_bytes, read_json


def test_a_named_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "meta.json")
    with pytest.raises(FormatError, match="not a regular file"):
        open_file(tmp_path / "meta.json")


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "/"])
def test_a_link_to_a_device_or_folder_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "meta.json").symlink_to(target)
    with pytest.raises(FormatError, match="not a regular file"):
        open_file(tmp_path / "meta.json")


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"content")
    (tmp_path / "link").symlink_to("kept")
    assert read_bytes(tmp_path / "link", 100) == b"content"


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(101))
    assert read_bytes(tmp_path / "large", 101) == bytes(101)
    with pytest.raises(FormatError, match=r"too large .*101 bytes, at most 100"):
        read_bytes(tmp_path / "large", 100)


def test_a_file_that_grows_while_it_is_read_is_read_to_the_limit() -> None:
    assert len(read_bytes(Path("/proc/self/maps"), 64)) == 64  # its size is said to be 0


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("{}")
    before = len(list(Path("/proc/self/fd").iterdir()))
    read_json(tmp_path / "a")
    with pytest.raises(FormatError):
        read_bytes(tmp_path / "a", 1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not the name of a file"):
        open_file(tmp_path / "a\0b")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": 1e400}', "1e400 is too large"),
        ('{"a": 1' + "0" * 400 + "}", "a number has 401 digits"),
        ("[" * 100_000, "recursion"),
        ("[]", "not the JSON that stepscope wrote"),
        ("", "Expecting value"),
        ("\xff", "not the JSON"),
    ],
)
def test_what_is_no_document_is_refused_with_the_reason(
    tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "a.json").write_text(text, "latin-1")
    with pytest.raises(FormatError, match=says):
        read_json(tmp_path / "a.json")
