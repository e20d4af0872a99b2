"""Keeps what was profiled from inside the program as a run folder, for `stepscope report`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from stepscope.config import RUNS_FOLDER
from stepscope.errors import NoResultsError, StepscopeError
from stepscope.session.inside import Inside, current
from stepscope.session.meta import describe_process

__all__ = ["save_here"]


def save_here(path: str | Path | None = None, name: str = "") -> Path:
    """What this process recorded so far, as a run folder: `path`, or one in `runs` under `name` or
    the time. Recording goes on. NoResultsError: nothing was recorded."""
    session = current()
    if session is None:
        raise NoResultsError("Nothing was profiled yet: there is nothing to save.")
    return _save(session, None if path is None else Path(path), name)


def _save(session: Inside, output: Path | None, name: str) -> Path:
    # These bring sqlite and pyarrow: not before somebody saves.
    from stepscope.session.report import summarise_run
    from stepscope.store.index import add_run
    from stepscope.store.rundir import create_run, write_meta
    from stepscope.store.summary import write_summary

    session.pull()
    run = create_run(Path(RUNS_FOLDER), _label(), output, name)
    if run.notice and output is not None:
        shutil.rmtree(run.path, ignore_errors=True)
        raise StepscopeError(f"The run cannot be saved: {run.notice}")
    for folder in sorted(session.run.glob("rank-*")):
        shutil.copytree(folder, run.path / folder.name, dirs_exist_ok=True)
    meta: dict[str, Any] = describe_process(run.name, _started_unix(session.run))
    meta |= {"ended_unix": time.time(), "exit_code": None, "git": {}, "losses": _losses(session)}
    write_meta(run.path, meta)
    _convert(run.path)
    summary = summarise_run(run.path)
    write_summary(run.path, summary)
    add_run(Path(RUNS_FOLDER), run.path)
    return run.path


def _label() -> str:
    first = sys.argv[0] if getattr(sys, "argv", None) else ""
    if "ipykernel" in sys.modules:
        return "notebook"
    return Path(first).stem or "python"


def _started_unix(folder: Path) -> float:
    return min((file.stat().st_ctime for file in folder.glob("rank-*")), default=time.time())


def _losses(session: Inside) -> dict[str, Any]:
    counters = session.recorder.counters()
    errno = counters["last_errno"]
    return {
        "dropped_events": counters["dropped"],
        "lost_events": counters["lost"],
        "reason": os.strerror(errno) if counters["lost"] and errno else "",
    }


def _convert(run: Path) -> None:
    """Frames that cannot be converted stay, and are read as they are."""
    from stepscope.store.light import import_pyarrow_lightly

    import_pyarrow_lightly()
    from stepscope.store.convert import Converter

    converter = Converter(run)
    converter.convert(lambda base, path: True)
    converter.close()
