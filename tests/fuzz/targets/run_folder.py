"""The documents of a run folder, read through the functions that the commands use."""

from __future__ import annotations

import io
import json
import shutil
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random

from rich.console import Console

from stepscope.analyze.compare_figures import figures_of
from stepscope.cli import main
from stepscope.collect.control import Control
from stepscope.errors import FormatError
from stepscope.report.alerts import render_alerts
from stepscope.report.capture import render_capture
from stepscope.report.memory import render_memory
from stepscope.report.plan import render_plan
from stepscope.report.watch import snapshot
from stepscope.session.alerts import AlertsOptions, read_alerts
from stepscope.session.capture_target import find_target
from stepscope.session.finished_view import view_of_finished
from stepscope.session.page import write_page
from stepscope.session.show import show_summary
from stepscope.session.view_source import ViewSource
from stepscope.session.watching_view import terminal_glyphs
from stepscope.store.captures import read_capture
from stepscope.store.details import read_details
from stepscope.store.index import list_runs
from stepscope.store.plan_file import PLAN_FILE, read_plan, read_plan_report, write_plan_report
from stepscope.store.rundir import find_run, read_meta
from stepscope.store.summary import read_summary
from tests.fuzz.damage import damaged_bytes, damaged_json
from tests.fuzz.harness import Feed, Target
from tests.fuzz.recorded import recorded_run
from tests.unit.report.made_checkpointing import made_plan

# Shares of the inputs that go through what takes long: a whole command, or drawing everything.
COMMANDS, DRAWN = 0.01, 0.1


def command(*arguments: str) -> None:
    """As a user calls it. Whatever is no StepscopeError comes through."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        main(list(arguments))


def console() -> Console:
    return Console(file=io.StringIO(), width=100)


def damaged(text: bytes, random: Random) -> bytes:
    """A JSON document, mostly with other values, sometimes with other bytes or a key twice."""
    choice = random.random()
    if choice < 0.1:
        return damaged_bytes(text, random)
    if choice < 0.12:
        key = random.choice(list(json.loads(text)))
        return b'{"%s": [], %s' % (key.encode(), text.lstrip()[1:])
    return damaged_json(json.loads(text), random)


def document(name: str, file: str, read: Callable[[Path, Random], None]) -> Target:
    """`read` the run after `file` of it was damaged."""

    def setup(folder: Path) -> Feed:
        run = folder / "runs" / "whole"
        shutil.copytree(recorded_run(), run)
        write_plan_report(run, made_plan())
        lines = (
            (run / file).read_bytes().split(b"\n")
            if file.endswith(".jsonl")
            else [(run / file).read_bytes()]
        )
        lines = [line for line in lines if line]

        def feed(random: Random) -> None:
            at = random.randrange(len(lines))
            changed = [*lines[:at], damaged(lines[at], random), *lines[at + 1 :]]
            (run / file).write_bytes(b"\n".join(changed) + b"\n")
            read(run, random)

        return feed

    return Target(name, setup)


def read_meta_as_commands_do(run: Path, random: Random) -> None:
    list_runs(run.parent)
    find_run(run.parent)
    if random.random() < COMMANDS:
        which = random.choice(("runs", "history", "report", "watch", "alerts", "memory"))
        more = ("--once",) if which == "watch" else ()
        command(which, str(run.parent if which in ("runs", "history") else run), *more)
    try:
        find_target(str(run))
    except FormatError:
        raise
    except Exception as error:
        if type(error).__module__ != "stepscope.errors":
            raise
    read_meta(run)
    if random.random() < DRAWN:
        ViewSource(run, lambda: time.time() + random.choice((0, 1e9))).next()


def read_summary_as_commands_do(run: Path, random: Random) -> None:
    list_runs(run.parent)
    if random.random() < COMMANDS:
        which = random.choice(("runs", "history", "report", "watch"))
        more = ("--once",) if which == "watch" else ()
        command(which, str(run.parent if which in ("runs", "history") else run), *more)
        command("compare", str(recorded_run()), str(run))
    summary = read_summary(run)
    assert summary is not None
    json.dumps(summary.to_dict(), allow_nan=False)
    figures_of(summary, "", "")
    if random.random() < DRAWN:
        show_summary(summary, io.StringIO(), run)
        view = view_of_finished(run)
        assert view is not None
        snapshot(view, 80, terminal_glyphs(io.TextIOWrapper(io.BytesIO())), time.time())
    if random.random() < COMMANDS:
        write_page(run, summary)


def read_details_as_commands_do(run: Path, random: Random) -> None:
    details = read_details(run)
    assert details is not None
    if random.random() < COMMANDS:
        summary = read_summary(run)
        assert summary is not None
        write_page(run, summary)
        show_summary(summary, io.StringIO(), run)
        command("memory", str(run), *random.choice(((), ("--json",))))
        view_of_finished(run)
    elif details.memory is not None and random.random() < DRAWN:
        render_memory(details.memory, "whole", console())


def read_alerts_as_commands_do(run: Path, random: Random) -> None:
    shown = read_alerts(AlertsOptions(str(run)))
    if random.random() < DRAWN:
        render_alerts(shown, console(), time.time())
    if random.random() < COMMANDS:
        command("alerts", str(run), *random.choice(((), ("--json",))))


def read_capture_as_commands_do(run: Path, random: Random) -> None:
    capture = read_capture(run, 1)
    assert capture is not None
    if random.random() < DRAWN:
        render_capture(capture, console())


def read_plan_as_commands_do(run: Path, random: Random) -> None:
    report = read_plan_report(run)
    assert report is not None
    read_plan(run / PLAN_FILE)
    if random.random() < DRAWN:
        render_plan(report, "whole", console())


def capture_requests(folder: Path) -> Feed:
    """What the training process and the launcher read from the status folder."""
    request = {"steps": 20, "seconds": 10.0, "interval_s": 0.001, "layers": True, "alert": ""}
    request |= {"operators": False, "memory": False, "expires_ns": 0}
    control = Control(folder, [1])

    def feed(random: Random) -> None:
        path = folder / "capture-1.json"
        path.write_bytes(damaged(json.dumps(request).encode(), random))
        try:
            asked = control.read(1)
        except (ValueError, OSError) as error:
            raise FormatError(str(error)) from error
        assert 1 <= asked.steps <= 10_000
        assert 0.05 <= asked.seconds <= 600

    return feed


TARGETS = [
    document("meta", "meta.json", read_meta_as_commands_do),
    document("summary", "summary.json", read_summary_as_commands_do),
    document("details", "details.json", read_details_as_commands_do),
    document("alerts", "alerts.jsonl", read_alerts_as_commands_do),
    document("capture", "captures/1.json", read_capture_as_commands_do),
    document("plan", PLAN_FILE, read_plan_as_commands_do),
    Target("capture-request", capture_requests),
]
