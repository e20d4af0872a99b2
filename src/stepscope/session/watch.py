"""The launcher's side of a run: what is recorded is read, folded and converted as it arrives."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.config import RUNS_FOLDER, Replay, Settings
from stepscope.launch.command import Command
from stepscope.launch.git import GitProbe
from stepscope.model import traits
from stepscope.session.analysis import RunFold
from stepscope.session.capturing import Captured, Captures
from stepscope.session.hostside import HostSide
from stepscope.session.live import live_text
from stepscope.session.losses import Lost, count_lost
from stepscope.session.meta import about_run, describe_end, describe_start
from stepscope.session.plan_show import plan_progress, with_plan
from stepscope.session.troubles import Troubles
from stepscope.store.details import write_details
from stepscope.store.index import add_run
from stepscope.store.layout import frames_number, pid_of
from stepscope.store.live_request import is_requested
from stepscope.store.rundir import NewRun, write_meta
from stepscope.store.status import StatusPage, join_ended_pages, read_status_pages
from stepscope.store.status_folders import remove_status_folder
from stepscope.store.summary import write_summary
from stepscope.store.tail import News, RunTail

if TYPE_CHECKING:
    from stepscope.analyze.loop import Loop
    from stepscope.model.process import ProcessInfo
    from stepscope.model.summary import Summary
    from stepscope.session.live_view import LiveFold
    from stepscope.session.watching import Watching
    from stepscope.store.convert import Converter

__all__ = ["Watch"]


class Watch:
    """Made right after the program was started; `look` once a second, `finish` when it has ended.

    Nothing here raises: what goes wrong is added to the troubles, and the rest goes on.
    """

    def __init__(
        self,
        run: NewRun,
        command: Command,
        settings: Settings,
        status_folder: Path,
        troubles: Troubles,
        index: Path | None = Path(RUNS_FOLDER),
        watching: Watching | None = None,
    ) -> None:
        """index: the folder of runs that remembers this one; None: nobody is to. watching: raises
        alerts while it goes on."""
        self._run, self._index = run, index
        self._status_folder = status_folder
        self._troubles = troubles
        self._tail = RunTail(run.path)
        self._fold = RunFold(run.path, None if watching is None else watching.on_step_of)
        self._captures = Captures(status_folder, run.path)
        self._watching = watching
        self._limit_bytes = settings.limit_bytes
        self._replay, self._began_s = settings.replay, time.monotonic()
        self._not_measured = ""  # why operators were not run again, where that would have helped
        self._host = HostSide(run.path, settings, troubles)
        self._converter: Converter | None = None
        self._meta = describe_start(run.name, command, settings, status_folder)
        self._live = None if watching is None else self._live_fold(watching)
        self._git = GitProbe(Path.cwd(), status_folder / "git")
        self.lost = Lost()  # known when it is finished

    def _show_live(self, *, is_ending: bool = False) -> None:
        """Most runs are never looked at: they load nothing for it."""
        with self._troubles.guard("showing the run live"):
            if self._live is None and is_requested(self._run.path, time.time()):
                self._live = self._live_fold(None)
            if self._live is not None:
                self._live.look(is_ending=is_ending)

    def _live_fold(self, watching: Watching | None) -> LiveFold:
        from stepscope.session.live_view import LiveFold, LiveSources
        from stepscope.session.outlook import MemoryAhead, OutlookSource

        fold, runs = self._fold, self._index or Path(RUNS_FOLDER)
        memory = None if watching is None else MemoryAhead()
        outlook = OutlookSource(fold.rank_loops, runs, _command(self._meta), memory)
        made = LiveFold(
            self._run.path,
            self._meta,
            LiveSources(fold.rank_loops, fold.progress, fold.sampled, fold.verdict_now, outlook),
        )
        if watching is not None and memory is not None:
            watching.also_tell(made)
            watching.also_tell(memory)
        return made

    def start(self, pid: int) -> None:
        """The program is process `pid`."""
        self._host.start(pid)
        with self._troubles.guard("watching for alerts"):
            if self._watching is not None:
                self._watching.start(self._fold, self._captures.ask)
        with self._troubles.guard("writing meta.json"):
            write_meta(self._run.path, self._meta)

    @property
    def loops(self) -> list[Loop]:
        """One for each rank that trains."""
        return self._fold.rank_loops()

    def look(self) -> None:
        """Takes in what is new."""
        with self._troubles.guard("reading what was recorded"):
            self._tail.note_ended(_runs)
            for news in self._tail.read_new():
                self._fold.update(news.process, news.batches)
                for batch in news.batches:
                    self._captures.take(news.process, batch)
                self._watch(news)
            self._attach(self._captures.ended())
        with self._troubles.guard("watching for alerts"):
            if self._watching is not None:
                self._watching.look()
        self._show_live()
        with self._troubles.guard("joining status pages"):
            join_ended_pages(self._status_folder, _is_alive)
        if self._tail.has_done_files:
            self._convert(lambda base, path: frames_number(path) <= self._tail.done_through(base))

    def _attach(self, found: list[Captured]) -> None:
        for captured in found:
            if self._watching is not None and captured.alert:
                self._watching.captured(captured.alert, captured.path)

    def _watch(self, news: News) -> None:
        with self._troubles.guard("watching for alerts"):
            if self._watching is not None:
                self._watching.update(news.process, news.batches)

    def status(self) -> str:
        """The text of the live status line."""
        with self._troubles.guard("the status line"):
            planning = plan_progress(self._status_folder)
            return planning + live_text(self._fold.loops, read_status_pages(self._status_folder))
        return ""

    def finish(
        self, exit_code: int, tell: Callable[[str], None] = lambda _: None
    ) -> Summary | None:
        """Everything into its place; None: there is no summary, and the troubles say why.

        `tell`: for what takes long enough to be announced.
        """
        self.look()
        with self._troubles.guard("captures"):
            self._attach(self._captures.close())
        self._stop_watching()
        self._show_live(is_ending=True)
        if exit_code == 0:
            self._try_alternatives(tell)
        pages = read_status_pages(self._status_folder)
        running = {page.pid for page in pages if _is_alive(page.pid)}
        self._convert(lambda base, path: pid_of(base) not in {os.getpid(), *running})
        # Its own cost is the last thing that the launcher records: as much as possible stands
        # before it.
        self.lost = count_lost(pages, self._host.stop())
        self.look()
        self._convert(lambda base, path: pid_of(base) not in running)
        self._close_converter()
        with self._troubles.guard("asking git"):
            git = self._git.result()
            self._meta |= describe_end(exit_code, git, self.lost.as_json())
        remove_status_folder(self._status_folder)
        return self._write_results(pages)

    def _stop_watching(self) -> None:
        watching, self._watching = self._watching, None
        with self._troubles.guard("watching for alerts"):
            if watching is not None:
                for line in watching.finish():
                    self._troubles.add(line)

    def _try_alternatives(self, tell: Callable[[str], None]) -> None:
        """Operators of the program, run again on a machine that it has left."""
        with self._troubles.guard("running operators again"):
            request = self._fold.replay_request()
            if request is None:
                return
            from stepscope.session.replay import allowance_s, run_again

            run_s = time.monotonic() - self._began_s
            limit_s = allowance_s(self._replay, run_s, self._fold.torch_import_s())
            found = {}
            if limit_s:
                most = "" if self._replay is Replay.FULL else f", at most {limit_s:.1f} s"
                tell(f"running operators of a step again to measure gains{most}; Ctrl-C skips it")
                found = run_again(request, limit_s, complete=self._replay is Replay.FULL)
            if found:
                self._host.tell(traits.ALTERNATIVES, found)
            elif self._replay is Replay.AUTO:
                self._not_measured = (
                    "What other dtypes, layouts and fused operators would save was not measured."
                    " To measure it: stepscope run --replay full …"
                )

    def _convert(self, may_take: Callable[[Path, Path], bool]) -> None:
        with self._troubles.guard("converting to Arrow"):
            if self._converter is None:
                # Not before it is needed: a run that is over soon spends its time elsewhere.
                from stepscope.store.light import import_pyarrow_lightly

                import_pyarrow_lightly()
                from stepscope.store.convert import Converter

                self._converter = Converter(self._run.path, self._limit_bytes)
            self._converter.convert(may_take)

    def _close_converter(self) -> None:
        if self._converter is not None:
            self._converter.close()
            for line in self._converter.problems:
                self._troubles.add(line)

    def _write_results(self, pages: list[StatusPage]) -> Summary | None:
        run, guard = self._run.path, self._troubles.guard
        summary = None
        with guard("the analysis"):
            notes = [*self._tail.problems, *self.lost.why()]
            notes += [self._not_measured] if self._not_measured else []
            summary = self._fold.summary(about_run(run, self._meta), pages, notes)
        if not run.is_dir():
            self._troubles.add(f"the run folder {run} is gone: nothing of this run is kept.")
            return summary
        with guard("writing the summary"):
            if summary is not None:
                write_summary(run, summary)
        with guard("writing the details"):
            if summary is not None:
                write_details(run, with_plan(self._fold.details, run))
        with guard("writing meta.json"):
            write_meta(run, self._meta)
        with guard("remembering the run"):
            if self._index is not None:
                add_run(self._index, run)
        return summary


def _command(meta: Mapping[str, Any]) -> str:
    """As the index of runs has it."""
    return " ".join(map(str, meta.get("command") or ()))


def _runs(process: ProcessInfo) -> bool:
    """Of a process on another host nothing is known."""
    return process.host != os.uname().nodename or _is_alive(process.pid)


def _is_alive(pid: int) -> bool:
    """It may still be writing: what it writes to must not be taken away."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
