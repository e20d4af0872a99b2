"""Delivers what runs could not, with the sinks of the rules that they were watched by."""

from __future__ import annotations

import os
import platform
import stat
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stepscope.config import RUNS_FOLDER, WATCH_DEFAULT
from stepscope.errors import StepscopeError, UsageError
from stepscope.notify.build import ALERT_TYPES, make_sinks
from stepscope.notify.courier import Courier
from stepscope.notify.sink import AlertSink, SinkContext
from stepscope.printer import show
from stepscope.session.watch_rules import check_rules, load_rules
from stepscope.store.alerts import pending_everywhere
from stepscope.store.leftovers import Leftovers
from stepscope.store.rundir import find_run, read_meta

__all__ = ["Sent", "send_waiting"]


class Sent(NamedTuple):
    """What became of the notices of a run for a sink. why: those that still wait do."""

    run: str
    sink: str
    delivered: int
    refused: int
    waiting: int
    why: str = ""


def send_waiting(wanted: str | None, rules: str | None = None) -> int:
    """Says on stdout what was sent, of that run or of all. 1: some of it still waits.

    rules: the file with the sinks of all of them; None: each run's own, where it can be trusted.
    """
    rules = None if rules is None else check_rules(rules)
    runs = Path(RUNS_FOLDER)
    run = None if wanted is None else find_run(runs, wanted).resolve()
    if run is not None and not runs.is_dir():
        runs = run.parent
    by_run: dict[str, list[str]] = {}
    for row in pending_everywhere(runs, run=run):
        by_run.setdefault(row.run, []).append(row.sink)
    results = [
        result for path, sinks in by_run.items() for result in _send(runs, Path(path), sinks, rules)
    ]
    for result in results:
        show(_words(result))
    if not results:
        show("Nothing waits to be delivered.")
    return int(any(result.waiting for result in results))


def _send(runs: Path, run: Path, waiting: Sequence[str], rules: str | None) -> Iterator[Sent]:
    """waiting: for each notice, the sink that did not take it."""
    sinks, why = _sinks(runs, run, rules)
    outbox = Leftovers(runs, run)
    for name, count in Counter(waiting).items():
        if name in sinks:
            yield _deliver(outbox, sinks[name], run.name, count)
        else:
            yield Sent(run.name, name, 0, 0, count, why or "it is not in the rules any more")
    outbox.close()
    for sink in sinks.values():
        sink.close()


def _sinks(runs: Path, run: Path, rules: str | None) -> tuple[dict[str, AlertSink], str]:
    """By name, those that can be made; and why others cannot."""
    try:
        meta = read_meta(run)
        tables = load_rules(rules or _rules_of(runs, run, meta.get("watch_file"))).sinks
    except StepscopeError as error:
        return {}, str(error)
    host = meta["host"].get("name") if isinstance(meta.get("host"), dict) else None
    context = SinkContext(
        str(meta.get("name") or run.name), str(host or platform.node()), os.getpid(), run
    )
    sinks: dict[str, AlertSink] = {}
    troubles = []
    for table in tables:
        if table.get("type") in ALERT_TYPES:
            try:
                sinks |= {sink.name: sink for sink in make_sinks([table], context)[0]}
            except StepscopeError as error:
                troubles.append(str(error))
    return sinks, " ".join(troubles)


def _rules_of(runs: Path, run: Path, named: object) -> str:
    """The rules that a run says it was watched by. UsageError: they are not to be followed.

    Sinks run commands and are told secrets, and a run folder may come from anybody: only a file
    that this user keeps, and that cannot have come along with a run, is believed.
    """
    if not isinstance(named, str) or not named:
        raise UsageError(
            "the run does not say by which rules it was watched: name the file with --rules FILE"
        )
    doubt = "" if named == WATCH_DEFAULT else _doubt(named, (runs.resolve(), run.resolve()))
    if doubt:
        raise UsageError(
            f"its rules {named} are not used, because {doubt}: name the file with --rules FILE"
        )
    return named


def _doubt(named: str, folders: Sequence[Path]) -> str:
    """Why rules are not believed; "": they are. folders: what lies in there came with runs."""
    if not Path(named).is_absolute():
        return "it is no absolute path"
    try:
        path = Path(named).resolve(strict=True)
        status = path.stat()
    except FileNotFoundError:
        return "there is no such file"
    except (OSError, ValueError, RuntimeError):  # the last: links that lead in a circle
        return "it cannot be read"
    if any(path.is_relative_to(folder) for folder in folders):
        return "the file lies in a folder of runs"
    if not stat.S_ISREG(status.st_mode):
        return "it is no regular file"
    if status.st_uid != os.getuid():
        return "the file belongs to another user"
    return "everybody may write to the file" if status.st_mode & stat.S_IWOTH else ""


def _deliver(outbox: Leftovers, sink: AlertSink, run: str, waiting: int) -> Sent:
    """Once for each, until one is not taken."""
    before = outbox.counts()
    courier = Courier(sink, outbox, time.time)
    ours = len(outbox.pending(sink.name, waiting))
    courier.work(lambda: False)
    after = outbox.counts()
    delivered, refused = after.delivered - before.delivered, after.refused - before.refused
    why = courier.trouble if ours else "another process is at work on it"
    return Sent(run, sink.name, delivered, refused, waiting - delivered - refused, why)


def _words(sent: Sent) -> str:
    parts = []
    if sent.delivered:
        parts.append(f"{sent.delivered} delivered")
    if sent.refused:
        parts.append(f"{sent.refused} refused")
    if sent.waiting:
        parts.append(f"{sent.waiting} still {'waits' if sent.waiting == 1 else 'wait'}")
    why = f": {sent.why}" if sent.why and (sent.waiting or sent.refused) else ""
    return f"{sent.run} → {sent.sink}: {', '.join(parts)}{why}"
