"""What is made once for the whole program."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.model.change import Applied, Change
from stepscope.tune.patch import Patch, patch_for
from tests.unit.tune.patch.programs import Case, check_case, run_program

PROGRAM = '''\
"""Training."""
import os
os.environ["A"] = "1"
try:
    import torch
except ImportError:
    raise
from torch.utils.data import DataLoader  # data

def main():
    import json
    return json, DataLoader([1])

main()
'''
NOWHERE = Applied("threads", "torch.set_num_threads(2)")


def patched(folder: Path, code: str, change: Change, *applied: Applied) -> Patch:
    script = folder / "train.py"
    script.write_bytes(code.encode())
    return patch_for([(change, applied)], folder, script)


@pytest.mark.parametrize(
    ("change", "line", "called"),
    [
        (Change("threads", "", {"torch": 2}), "torch.set_num_threads(2)", "set_num_threads"),
        (
            Change("threads", "", {"interop": 1}),
            "torch.set_num_interop_threads(1)",
            "set_num_interop_threads",
        ),
        (Change("denormals", ""), "torch.set_flush_denormal(True)", "set_flush_denormal"),
    ],
)
def test_a_line_is_written_behind_the_imports_of_the_script(
    tmp_path: Path, change: Change, line: str, called: str
) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    patch = patched(folder, PROGRAM, change, NOWHERE)
    assert patch.refused == ()
    (edit,) = patch.edits
    assert edit.after == PROGRAM.replace("# data\n", f"# data\n\n{line}\n")
    (folder / "train.py").write_text(edit.after)
    (call,) = run_program(folder).of(called)
    assert call["line"] == 10
    assert patch_for([(change, [NOWHERE])], folder, folder / "train.py").edits == ()


def test_torch_is_imported_where_the_script_does_not(tmp_path: Path) -> None:
    code = "from model import train\r\n\r\ntrain()\r\n"
    (edit,) = patched(tmp_path, code, Change("threads", "", {"torch": 2}), NOWHERE).edits
    assert edit.after == (
        "import torch\r\nfrom model import train\r\n\r\ntorch.set_num_threads(2)\r\n\r\ntrain()\r\n"
    )


def test_the_programs_own_call_says_how_many_threads_there_are(tmp_path: Path) -> None:
    code = "import torch\ntorch.set_num_threads(8)\n"
    told = Applied("threads", "torch.set_num_threads(2)", False, "train.py", 2, "<module>")
    patch = patched(tmp_path, code, Change("threads", "", {"torch": 2}), NOWHERE, told)
    assert [edit.after for edit in patch.edits] == ["import torch\ntorch.set_num_threads(2)\n"]


def test_fewer_threads_are_the_programs_choice(tmp_path: Path) -> None:
    code = "import torch\ntorch.set_num_threads(1)\n"
    patch = patched(tmp_path, code, Change("threads", "", {"torch": 2}), NOWHERE)
    assert patch.edits == ()
    assert patch.refused == ()


def test_of_several_calls_the_one_that_was_measured_is_edited(tmp_path: Path) -> None:
    code = "import torch\ntorch.set_num_threads(8)\nif not torch:\n    torch.set_num_threads(9)\n"
    change = Change("threads", "", {"torch": 2})
    told = Applied("threads", "torch.set_num_threads(2)", False, "train.py", 2, "<module>")
    (edit,) = patched(tmp_path, code, change, told).edits
    assert edit.after == code.replace("(8)", "(2)")
    (refused,) = patched(tmp_path, code, change, NOWHERE).refused
    assert "at several places" in refused.why


def test_threads_of_workers_are_left_to_the_user_and_the_rest_is_written(tmp_path: Path) -> None:
    change = Change("threads", "", {"torch": 2, "workers": 1})
    patch = patched(tmp_path, "import torch\n", change, NOWHERE)
    assert [edit.after for edit in patch.edits] == ["import torch\n\ntorch.set_num_threads(2)\n"]
    assert [one.why for one in patch.refused] == [
        "how many threads a worker has is for your worker_init_fn to say"
    ]


@pytest.mark.parametrize("script", [None, "empty.py"])
def test_without_a_script_with_imports_nothing_is_written(
    tmp_path: Path, script: str | None
) -> None:
    (tmp_path / "empty.py").write_text("print(1)\n")
    path = None if script is None else tmp_path / script
    patch = patch_for([(Change("denormals", ""), [NOWHERE])], tmp_path, path)
    assert patch.edits == ()
    (refused,) = patch.refused
    assert "torch.set_flush_denormal(True)" in refused.setting


COLLECTING = "gc.collect() every 50 steps"


def test_the_programs_own_collections_come_more_rarely(tmp_path: Path) -> None:
    code = "import gc\nfor i, x in enumerate([1]):\n    # tidy\n    gc.collect()  # all\n"
    told = Applied("gc", COLLECTING, False, "train.py", 4, "<module>")
    patch = patched(tmp_path, code, Change("gc", "", {"every_steps": 0}), told)
    (edit,) = patch.edits
    assert edit.after == code.replace(
        "    gc.collect()", "    if i % 50 == 0:\n        gc.collect()"
    )
    assert "gc.freeze()" in patch.refused[0].setting
    told = Applied("gc", COLLECTING, False, "train.py", 5, "<module>")
    assert patched(tmp_path, edit.after, Change("gc", ""), told).edits == ()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import gc\n\n\nwhile gc:\n    gc.collect()\n", "has no count of its steps"),
        ("import gc\nfor i in range(3):\n    x = 1\n    x = 2\n    gc.collect()\n", "no count"),
        ("import gc\n\n\n\nx = gc.collect() + 1\n", "is part of something larger"),
        ("import gc\n\n\n\nprint(1)\n", "has no call of gc.collect()"),
    ],
)
def test_other_collections_are_left_to_the_user(tmp_path: Path, code: str, why: str) -> None:
    told = Applied("gc", COLLECTING, False, "train.py", 5, "<module>")
    patch = patched(tmp_path, code, Change("gc", "", {"every_steps": 50}), told)
    assert patch.edits == ()
    assert why in patch.refused[0].why
    assert "if step % 50 == 0: gc.collect()" in patch.refused[0].setting


def test_no_place_is_known_for_freezing(tmp_path: Path) -> None:
    told = Applied("gc", "gc.freeze(), a collection every 20 steps", False, "train.py", 1, "main")
    patch = patched(tmp_path, "import gc\n", Change("gc", ""), told)
    assert [one.why for one in patch.refused] == [
        "no place in the program is known to be right for it"
    ]


def test_a_script_in_which_torch_has_another_name(tmp_path: Path) -> None:
    case = Case(
        "another name",
        "import torch as th\nth.set_num_threads(4)\n",
        change="threads",
        site="set_num_threads",
        settings={"torch": 3},
        wants={"number": 3},
        contains="th.set_num_threads(3)",
    )
    check_case(case, tmp_path)
