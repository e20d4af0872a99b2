"""`stepscope runs`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscope.config import RUNS_FOLDER

__all__ = ["runs"]


def runs(
    folder: Annotated[Path, typer.Argument(help="Where the runs lie.")] = Path(RUNS_FOLDER),
) -> None:
    """List the runs, newest first."""
    from stepscope.session.runs import show_runs

    show_runs(folder)
