"""The table of public programs, programs.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Program", "read_programs"]


@dataclass(frozen=True, slots=True)
class Program:
    """A file of a project, run in the file's folder.

    data: what to write there before each run: a function of prepare.py, the path relative to the
      folder, and numbers for the function.
    edits: a text in the file and its replacement, or another file of the project before these two.
      They set what the program has no option for: its length, the size of its data, the CPU.
    seed: True where the program sets no seed: one is set in the line that imports torch.
    steps: "most" for the steps of the optimizer that makes the most of them (an iteration of a GAN
      has two optimizers), "all" for those of all optimizers together (layers that train one after
      the other), or the number where no torch optimizer, or a process of the program's own, makes
      them.
    ranks: processes to start with torchrun; 0 for a plain program.
    path: goes to PYTHONPATH, relative to the project.
    times: a regular expression for times in the output.
    same_figures: False where two runs print different figures whatever the seed.
    """

    project: str
    file: str
    headline: str
    finding: str
    because: str
    name: str = ""
    args: str = ""
    data: tuple[str, ...] = ()
    edits: tuple[tuple[str, ...], ...] = ()
    seed: bool = False
    needs: str = ""
    steps: int | str = "most"
    ranks: int = 0
    path: str = ""
    times: str = ""
    same_figures: bool = True

    @property
    def title(self) -> str:
        return f"{self.project.split('/')[1]}/{self.name or self.file}"


def read_programs() -> list[Program]:
    table = tomllib.loads(Path(__file__).with_name("programs.toml").read_text())
    return [Program(**row) for row in table["program"]]
