"""Several changes, several files, and what is no file of the user's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stepscope.errors import MissingExtraError
from stepscope.model.change import Applied, Change
from stepscope.tune.changes import NAMES
from stepscope.tune.patch import patch_for, unified, write

LOADER = Change("loader", "", {"num_workers": 2})
IMPORT = "from torch.utils.data import DataLoader\n"


def at(
    file: Path | str | None, line: int | None, change: str = "loader", what: str = ""
) -> Applied:
    return Applied(change, what, False, None if file is None else str(file), line, "<module>")


def made(folder: Path, name: str, code: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    return path


def test_changes_at_the_same_call_become_one_edit(tmp_path: Path) -> None:
    path = made(tmp_path, "train.py", IMPORT + "loader = DataLoader([1], 8)\n")
    changes = [(LOADER, [at(path, 2)]), (Change("batch", "", {"factor": 2}), [at(path, 2)])]
    (edit,) = patch_for(changes, tmp_path).edits
    assert edit.after == IMPORT + "loader = DataLoader([1], 16, num_workers=2)\n"


def test_changes_at_the_same_dictionary_become_one(tmp_path: Path) -> None:
    code = IMPORT + "def make(**kw):\n    return DataLoader([1], **kw)\n"
    path = made(tmp_path, "train.py", code)
    changes = [(LOADER, [at(path, 3)]), (Change("batch", "", {"factor": 2}), [at(path, 3)])]
    (edit,) = patch_for(changes, tmp_path).edits
    assert edit.after.splitlines()[2] == (
        '    return DataLoader([1], **{**kw, "num_workers": 2, '
        '"batch_size": 2 * kw.get("batch_size", 1)})'
    )


def test_changes_of_a_model_follow_each_other(tmp_path: Path) -> None:
    code = "import torch\nmodel = torch.nn.Conv2d(3, 4, 5)\nx = 1\nout = model(x)\n"
    path = made(tmp_path, "train.py", code)
    names = ("layout", "compile", "autocast")
    patch = patch_for([(Change(n, ""), [at(path, 4, n)]) for n in names], tmp_path)
    (edit,) = patch.edits
    assert edit.after == (
        "import torch\nmodel = torch.nn.Conv2d(3, 4, 5)\n"
        "model = model.to(memory_format=torch.channels_last)\nmodel.compile()\nx = 1\n"
        "with torch.autocast(device_type=next(model.parameters()).device.type, "
        "dtype=torch.bfloat16):\n    out = model(x.to(memory_format=torch.channels_last))\n"
    )


def test_files_are_edited_each_for_itself(tmp_path: Path) -> None:
    first = made(tmp_path, "train.py", IMPORT + "a = DataLoader([1])\n")
    second = made(tmp_path, "pkg/data.py", IMPORT + "b = DataLoader([1])\n")
    patch = patch_for([(LOADER, [at(first, 2), at("pkg/data.py", 2)])], tmp_path)
    assert write(patch) == [first.resolve(), second.resolve()]
    assert "num_workers=2" in first.read_text()
    assert "num_workers=2" in second.read_text()


def test_a_call_that_cannot_be_written_keeps_no_other_back(tmp_path: Path) -> None:
    code = IMPORT + "a = DataLoader([1])\nb = DataLoader(*[[1]])\n"
    path = made(tmp_path, "train.py", code)
    patch = patch_for([(LOADER, [at(path, 2), at(path, 3)])], tmp_path)
    assert [edit.after for edit in patch.edits] == [
        code.replace("a = DataLoader([1])", "a = DataLoader([1], num_workers=2)")
    ]
    assert [one.why for one in patch.refused] == [
        "num_workers may be in the * arguments of the call at train.py:3"
    ]


def test_changes_of_the_same_name_are_for_the_calls_they_name(tmp_path: Path) -> None:
    code = (
        IMPORT + "N = 0\na = DataLoader([1], num_workers=N)\nb = DataLoader([2], num_workers=N)\n"
    )
    path = made(tmp_path, "train.py", code)
    sites = [at(path, 3), at(path, 4)]
    changes = [
        (Change("loader", "", {"num_workers": n, "site": {"file": str(path), "line": line}}), sites)
        for n, line in ((2, 3), (4, 4))
    ]
    (edit,) = patch_for(changes, tmp_path).edits
    assert edit.after == code.replace("[1], num_workers=N", "[1], num_workers=2").replace(
        "[2], num_workers=N", "[2], num_workers=4"
    )


def test_half_a_conversion_to_float32_is_not_written(tmp_path: Path) -> None:
    code = "import torch\nx = torch.zeros(1).double()\nfor y in [1]:\n    pass\n"
    path = made(tmp_path, "train.py", code)
    told = [
        at(path, 2, "float32", "float() for double()"),
        at(path, 3, "float32", "float32 out of the loader"),
    ]
    patch = patch_for([(Change("float32", ""), told)], tmp_path)
    assert patch.edits == ()
    assert patch.notes == ()
    assert [one.why for one in patch.refused] == [
        "line 3 of train.py has no call that makes float64"
    ]


def test_what_the_trial_refused_is_not_written(tmp_path: Path) -> None:
    path = made(tmp_path, "train.py", IMPORT + "a = DataLoader([1])\n")
    told = Applied("loader", "its dataset is a stream", True, str(path), 2, "<module>")
    patch = patch_for([(LOADER, [told])], tmp_path)
    assert patch.edits == ()
    assert [one.why for one in patch.refused] == ["the trial changed nothing in the program"]


def test_a_link_to_a_file_is_edited_where_the_file_is(tmp_path: Path) -> None:
    path = made(tmp_path, "code/train.py", IMPORT + "a = DataLoader([1])\n")
    (tmp_path / "run.py").symlink_to(path)
    patch = patch_for([(LOADER, [at(tmp_path / "run.py", 2)])], tmp_path)
    assert write(patch) == [path.resolve()]
    assert unified(patch, tmp_path).startswith("--- a/code/train.py\n")
    assert (tmp_path / "run.py").is_symlink()


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (None, "took hold of no line"),
        ("<stdin>", "is no file that could be edited"),
        ("<ipython-input-3-abc>", "is no file that could be edited"),
        ("/tmp/ipykernel_12/34.py", "is no file that could be edited"),
        ("../other.py", "lies outside"),
        (os.__file__, "lies outside"),
        (".venv/lib/python3.11/site-packages/lib/data.py", "belongs to an installed package"),
        ("missing.py", "cannot be read"),
        ("torn.py", "cannot be parsed"),
        ("bytes.py", "cannot be parsed"),
        ("short.py", "line 7 of short.py has no call of DataLoader by its name"),
    ],
)
def test_what_is_no_file_of_the_users_is_refused(
    tmp_path: Path, file: str | None, why: str
) -> None:
    root = tmp_path / "root"
    made(tmp_path, "other.py", IMPORT)
    made(root, ".venv/lib/python3.11/site-packages/lib/data.py", IMPORT)
    made(root, "torn.py", "def (\n")
    (root / "bytes.py").write_bytes(b"x = '\xff'\n")
    made(root, "short.py", IMPORT)
    patch = patch_for([(LOADER, [at(file, 7)])], root)
    assert patch.edits == ()
    (refused,) = patch.refused
    assert why in refused.why
    assert refused.setting.startswith("stepscope run --apply stepscope.toml")
    assert "DataLoader(…, num_workers=2)" in refused.setting


def test_files_of_pythons_own_library_are_refused_in_any_root() -> None:
    patch = patch_for([(LOADER, [at(os.__file__, 1)])], Path("/"))
    assert "belongs to an installed package" in patch.refused[0].why


@pytest.mark.parametrize("name", NAMES)
def test_every_change_is_written_or_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    path = made(tmp_path, "train.py", "x = 1\n")
    change = Change(name, name, {"path": "my.json"} if name == "plan" else {})
    patch = patch_for([(change, [at(path, 1, name)])], tmp_path)
    assert patch.edits == ()
    for refused in patch.refused:
        assert refused.change == change
        assert refused.why
        assert "stepscope run --apply" in refused.setting
        assert "{" not in refused.setting
    if name == "plan":
        assert "CheckpointManager(model).apply_file('my.json')" in patch.refused[0].setting


def test_a_missing_libcst_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "libcst", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'stepscope\[tune\]'"):
        patch_for([], tmp_path)
