"""Programs as users write them, patched in three ways, and run before and after."""

from __future__ import annotations

import io
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from stepscope.model.change import Applied, Change
from stepscope.tune.patch import Patch, patch_for, unified, write

__all__ = ["Case", "Run", "check_case", "run_program", "sites_of", "standing_in"]

STANDIN = Path(__file__).parent / "standin" / "torch.py"
Called = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A program, a change, and what the calls of `site` get with it.

    wants: arguments that are new; all others stay. refused: a part of the reason why there is no
    patch. measured: which of the calls the trial changed (all, where it is None). what: as the
    trial told it. contains: what stands in the new text. note: a part of what the user is told.
    """

    name: str
    code: str | bytes
    site: str = "DataLoader"
    wants: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=lambda: {"num_workers": 2})
    change: str = "loader"
    refused: str = ""
    measured: Sequence[int] | None = None
    what: str = ""
    contains: str = ""
    note: str = ""
    again: bool = True  # a second patch finds nothing to do
    gone: bool = False  # the call is made no longer

    def made(self) -> Change:
        return Change(self.change, self.change, self.settings)


@dataclass(frozen=True)
class Run:
    output: str
    calls: list[Called]

    def of(self, what: str) -> list[Called]:
        return [call for call in self.calls if call["what"] == what]


def run_program(folder: Path) -> Run:
    """Runs train.py with the stand-in for torch."""
    output = io.StringIO()
    with standing_in() as standin, redirect_stdout(output):
        runpy.run_path(str(folder / "train.py"), run_name="__main__")
    return Run(output.getvalue(), standin.calls)


@contextmanager
def standing_in() -> Iterator[Any]:
    """The stand-in is what programs import as torch, for as long as this lasts."""
    real = {name: sys.modules.pop(name) for name in [*sys.modules] if _is_torch(name)}
    spec = spec_from_file_location("torch", STANDIN)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["torch"] = module_from_spec(spec)
    try:
        spec.loader.exec_module(sys.modules["torch"])
        yield sys.modules["torch"]
    finally:
        for name in [name for name in sys.modules if _is_torch(name)]:
            del sys.modules[name]
        sys.modules.update(real)


def _is_torch(name: str) -> bool:
    return name.partition(".")[0] == "torch"


def sites_of(case: Case, run: Run) -> list[Applied]:
    """As the injected change would have told them."""
    calls = run.of(case.site)
    chosen = calls if case.measured is None else [calls[index] for index in case.measured]
    return [
        Applied(
            change=case.change,
            what=case.what or f"{case.site}(…)",
            file=call["file"],
            line=call["line"],
            function=call["function"],
        )
        for call in chosen
    ]


def check_case(case: Case, folder: Path) -> None:
    program = folder / "program"
    program.mkdir()
    text = case.code if isinstance(case.code, bytes) else case.code.encode()
    (program / "train.py").write_bytes(text)
    before = run_program(program)
    assert before.of(case.site)
    patch = patch_for([(case.made(), sites_of(case, before))], program)
    if case.refused:
        _check_refused(case, patch)
        return
    assert patch.refused == ()
    assert case.note in "\n".join(patch.notes)
    new = _apply_three_ways(patch, program)
    assert case.contains.encode() in new
    after = run_program(program)
    assert after.output == before.output
    _check_calls(case, before, after)
    if case.again and not case.gone:
        assert patch_for([(case.made(), sites_of(case, after))], program).edits == ()


def _check_refused(case: Case, patch: Patch) -> None:
    assert patch.edits == ()
    (refused, *_) = patch.refused
    assert case.refused in refused.why
    assert "stepscope run --apply stepscope.toml" in refused.setting


def _apply_three_ways(patch: Patch, program: Path) -> bytes:
    diff = unified(patch, program).encode("utf-8", "surrogateescape")
    ways: dict[str, Callable[[Path], None]] = {
        "patch": lambda folder: _feed(["patch", "-p1", "--silent"], folder, diff),
        "git": lambda folder: _feed(["git", "apply", "-"], folder, diff),
    }
    found = {}
    for name, apply in ways.items():
        folder = program.with_name(name)
        shutil.copytree(program, folder)
        apply(folder)
        found[name] = (folder / "train.py").read_bytes()
    assert write(patch) == [program / "train.py"]
    new = (program / "train.py").read_bytes()
    assert found == {"patch": new, "git": new}
    return new


def _feed(command: list[str], folder: Path, text: bytes) -> None:
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr


def _check_calls(case: Case, before: Run, after: Run) -> None:
    calls = [] if case.gone else before.of(case.site)
    assert len(after.of(case.site)) == len(calls)
    for index, (old, new) in enumerate(zip(calls, after.of(case.site), strict=True)):
        changed = case.measured is None or index in case.measured
        assert new["given"] == (old["given"] | case.wants if changed else old["given"])
    others = [
        [(call["what"], call["given"]) for call in run.calls if call["what"] != case.site]
        for run in (before, after)
    ]
    assert others[0] == others[1]
