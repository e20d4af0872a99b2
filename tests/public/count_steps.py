"""
Run a program as `python FILE ARGS…` would, and count its optimizer steps.

    python count_steps.py FOLDER FILE ARGS…

FOLDER gets one file for each optimizer, with one byte for each step, so that the count survives
a process that ends without a farewell. Imports nothing of stepscope: it is what its count is
compared with.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    sys.argv[:] = sys.argv[2:]
    files: dict[int, tuple[int, Optimizer]] = {}

    def count(optimizer: Optimizer, *_: Any) -> None:
        if id(optimizer) not in files:
            name = f"{os.getpid()}-{len(files)}"
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            files[id(optimizer)] = (file, optimizer)  # holding it keeps its id unique
        os.write(files[id(optimizer)][0], b".")

    register_optimizer_step_post_hook(count)
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
