from __future__ import annotations

import gzip
import json
import os
import pickle
import tracemalloc
from pathlib import Path

import pytest

from stepscope.errors import FormatError, StepscopeError, UsageError
from stepscope.interop import files, plain_json
from stepscope.interop.load import load_memory_file
from stepscope.model.allocations import AllocatorSnapshot, CategoryTimeline
from tests.unit.interop.made_snapshot import made_snapshot

TIMELINE = [[-1, 1, 100, 0], [5, 2, 40, 7]]


def written(folder: Path, content: bytes) -> Path:
    path = folder / "memory.file"
    path.write_bytes(content)
    return path


def _packed(content: bytes) -> bytes:
    """The same whenever it is made: tests are named by it, in several processes."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (pickle.dumps(made_snapshot()), AllocatorSnapshot),
        (json.dumps(made_snapshot()).encode(), AllocatorSnapshot),
        (json.dumps(TIMELINE, indent=2).encode(), CategoryTimeline),
        (b"\n  " + json.dumps(TIMELINE).encode(), CategoryTimeline),
    ],
    ids=["pickle", "snapshot as JSON", "timeline", "timeline with space before"],
)
def test_a_file_is_known_by_what_it_holds(content: bytes, kind: type, tmp_path: Path) -> None:
    plain = load_memory_file(written(tmp_path, content))
    assert isinstance(plain, kind)
    assert load_memory_file(written(tmp_path, gzip.compress(content))) == plain


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no memory file"),
        (b"hello", "is no memory file"),
        (b"\x00" * 100, "is no memory file"),
        (_packed(b"hello"), "is no memory file"),
        (_packed(json.dumps(TIMELINE).encode())[:-9], "is torn"),
        (b"\x1f\x8b" + b"a" * 100, "is torn or no gzip"),
        (_packed(b"[" + b"a" * 5000)[:30] + b"\xff" * 30, "is torn or no gzip"),
        (b'{"segments": [', "is broken JSON"),
        (b"[NaN, Infinity", "is broken JSON"),
        (b"[\xff\xff]", "is broken JSON"),
        (b"[" + b"9" * 10_000 + b"]", "is broken JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a": 1}', "neither a memory snapshot"),
        (pickle.dumps({"a": 1}), "neither a memory snapshot"),
        (b'{"segments": 3}', "cannot be used: segments should be a list"),
        (b"[[1, 2]]", "cannot be used: event 0"),
        (pickle.dumps({"segments": 3}), "cannot be used: segments should be a list"),
    ],
)
def test_what_is_no_memory_file_is_refused_in_words(
    content: bytes, said: str, tmp_path: Path
) -> None:
    with pytest.raises(FormatError) as refused:
        load_memory_file(written(tmp_path, content))
    assert said in str(refused.value)


@pytest.mark.parametrize("begins", [b"", b"\x80\x04", b"["], ids=["zeros", "pickle", "JSON"])
def test_a_gigabyte_of_nothing_is_refused_without_being_read(begins: bytes, tmp_path: Path) -> None:
    path = written(tmp_path, begins)
    os.truncate(path, 1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"no memory file|more than 512 MiB"):
            load_memory_file(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1_000_000


def test_a_gzip_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 1 << 20)
    bomb = written(tmp_path, gzip.compress(b"[" + b" " * (64 << 20), 1))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="holds more than 1 MiB"):
            load_memory_file(bomb)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 << 20


def test_json_that_would_take_too_much_memory_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_json, "_MAX_HELD_BYTES", 1 << 20)
    bomb = written(tmp_path, b"[" + b"[]," * 50_000 + b"[]]")
    with pytest.raises(FormatError, match="record a shorter window"):
        load_memory_file(bomb)


def test_places_that_are_no_files_are_told_of(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, said in (
        (pipe, "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path / "missing", "cannot be read"),
    ):
        with pytest.raises(UsageError) as refused:
            load_memory_file(path)
        assert said in str(refused.value)


def test_no_error_is_another_than_ours(tmp_path: Path) -> None:
    content = json.dumps(made_snapshot()).encode()
    for end in range(0, len(content), 97):
        with pytest.raises(StepscopeError):
            load_memory_file(written(tmp_path, content[:end]))
