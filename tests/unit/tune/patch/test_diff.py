"""Patches as diffs and as files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stepscope.errors import UsageError
from stepscope.tune.patch import Edit, Patch, unified, write


def patch_of(*edits: Edit) -> Patch:
    return Patch(edits, ())


def edit_in(folder: Path, name: str, before: str, after: str, encoding: str = "utf-8") -> Edit:
    path = folder.resolve() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(before.encode(encoding))
    return Edit(str(path), before, after, encoding)


def test_a_diff_names_files_from_the_root(tmp_path: Path) -> None:
    edit = edit_in(tmp_path, "pkg/data.py", "a\nb\nc\n", "a\nB\nc\n")
    assert unified(patch_of(edit), tmp_path) == (
        "--- a/pkg/data.py\n+++ b/pkg/data.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    )


def test_a_diff_says_where_no_newline_is(tmp_path: Path) -> None:
    edit = edit_in(tmp_path, "t.py", "a\nb", "a\nc")
    assert unified(patch_of(edit), tmp_path).endswith(
        "-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )


def test_nothing_to_change_is_an_empty_diff(tmp_path: Path) -> None:
    assert unified(patch_of(), tmp_path) == ""
    assert write(patch_of()) == []


@pytest.mark.parametrize("tool", [["git", "apply", "-"], ["patch", "-p1", "--silent"]])
def test_names_with_blanks_and_letters_of_all_kinds_are_found(
    tmp_path: Path, tool: list[str]
) -> None:
    edits = [
        edit_in(tmp_path, "my net/ä b.py", "a = 1\r\n", "a = 2\r\n"),
        edit_in(
            tmp_path,
            "old.py",
            "# coding: latin-1\nb = 'é'\n",
            "# coding: latin-1\nc = 'é'\n",
            "latin-1",
        ),
    ]
    diff = unified(patch_of(*edits), tmp_path).encode("utf-8", "surrogateescape")
    subprocess.run(tool, input=diff, cwd=tmp_path, check=True, capture_output=True)
    for edit in edits:
        assert Path(edit.file).read_bytes() == edit.new


def test_files_are_written_and_keep_their_permissions(tmp_path: Path) -> None:
    edit = edit_in(tmp_path, "train.py", "a\n", "b\n")
    path = Path(edit.file)
    path.chmod(0o750)
    assert write(patch_of(edit)) == [path]
    assert path.read_text() == "b\n"
    assert path.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("gone", [False, True])
def test_no_file_is_written_where_one_has_changed(tmp_path: Path, gone: bool) -> None:
    first = edit_in(tmp_path, "a.py", "a\n", "b\n")
    second = edit_in(tmp_path, "b.py", "a\n", "b\n")
    if gone:
        Path(second.file).unlink()
    else:
        Path(second.file).write_text("mine\n")
    with pytest.raises(UsageError, match="nothing was written"):
        write(patch_of(first, second))
    assert Path(first.file).read_text() == "a\n"


def test_files_are_put_back_where_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = edit_in(tmp_path, "a.py", "a\n", "b\n")
    second = edit_in(tmp_path, "folder/b.py", "a\n", "b\n")
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target.name == "b.py":
            raise PermissionError(13, "Permission denied")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(UsageError, match="so no file was changed"):
        write(patch_of(first, second))
    assert Path(first.file).read_text() == Path(second.file).read_text() == "a\n"
    assert [one.name for one in (tmp_path / "folder").iterdir()] == ["b.py"]
