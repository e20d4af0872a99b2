"""The training process: its recorder, its collectors, and its life from torch to the end."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscope.collect.cost import HookCost, measure_hook_cost
from stepscope.collect.gc import GcCollector
from stepscope.collect.imports import import_ns, when_imported
from stepscope.collect.stacks import StackCollector
from stepscope.collect.torch_hooks import TorchHooks
from stepscope.collect.worker_loop import WorkerLoop
from stepscope.config import (
    ENV_APPLY,
    ENV_LEVEL,
    ENV_PLAN,
    ENV_RUN,
    ENV_STATUS,
    ENV_TRIAL,
    ENV_WATCH,
    Settings,
)
from stepscope.model import names
from stepscope.record.recorder import Recorder
from stepscope.session.header import Moment, process_header, process_rank

__all__ = ["Program", "program_here"]


_CALM_FLUSH_NS = 15_000_000_000  # who watches has what waits written before it is read back
_CALM_CLOCK_NS = 1_000_000_000
# Beginning and ending to sample stacks takes some milliseconds, naming them included.
_SETTLED_NS = 1_000_000_000


class _Elsewhere:
    """Stands for a program whose wrapper was sent to another process: nothing to wake there."""

    def wake(self) -> None:
        pass


class Program:
    """A process of the run. It writes nothing until its loop shows a first sign of life."""

    def __init__(self, run: str, began: Moment, spent_ns: int) -> None:
        self._run = run
        self._began = began
        self._spent_ns = spent_ns  # on joining, so far
        self.recorder = Recorder()
        self.awake = False
        self._hooked = self._minding = self._left = False
        self._cost: HookCost | None = None
        self._torch = TorchHooks(self.wake, self._save, self._sample_when_settled)
        self._gc = GcCollector()
        self._stacks: StackCollector | None = None
        self._finish: Callable[[], None] | None = None  # what changes have pending

    def __reduce__(self) -> tuple[type[_Elsewhere], tuple[()]]:
        """Wrapped functions that are pickled by value bring us along into another process."""
        return _Elsewhere, ()

    @property
    def run(self) -> Path:
        """The run folder."""
        return Path(self._run)

    @property
    def base(self) -> Path:
        """What the names of this process's files begin with."""
        process = f"{os.getpid()}-{self._began.unix_ns}"
        return Path(self._run, f"rank-{process_rank(os.environ):05d}", process)

    def start(self) -> None:
        """Hook torch. From here on, what the program does is seen."""
        if self._hooked:
            return
        self._hooked = True
        began_ns = time.monotonic_ns()
        self._guarded("measuring the cost of hooks", self._measure_cost)
        self._guarded("making changes", self._make_changes)
        self._guarded("checkpoint plans", self._follow_plan)
        self._guarded("the trial", self._follow_trial)
        self._guarded("the loss", self._watch_loss)
        self._guarded("hooking torch", lambda: self._torch.start(self.recorder))
        self._mind()
        self._spent_ns += time.monotonic_ns() - began_ns
        if self.awake:
            self._guarded("waiting for captures", self._listen)
            self._say_cost()

    def _make_changes(self) -> None:
        """Before our own hooks: these then stand in front of what the program runs."""
        changes = os.environ.get(ENV_APPLY)
        if changes and os.environ.get(ENV_RUN) == self._run:
            from stepscope.tune.inject import injections_for

            made = injections_for(changes, self.run, self.recorder.failed)
            made.install()
            self._torch.follow(made)
            self._finish = made.finish

    def _follow_trial(self) -> None:
        wish = os.environ.get(ENV_TRIAL)
        if wish and os.environ.get(ENV_RUN) == self._run:
            from stepscope.session.trial import trial_for

            self._torch.follow(trial_for(wish, self.run, self.recorder, self._leave))

    def _watch_loss(self) -> None:
        """Where somebody watches. A trial tells all of them already."""
        watched = os.environ.get(ENV_WATCH) == "1" and not os.environ.get(ENV_TRIAL)
        if watched and os.environ.get(ENV_RUN) == self._run:
            from stepscope.collect.losses import WATCHED_INTERVAL_S, LossCollector

            LossCollector(WATCHED_INTERVAL_S).start(self.recorder)

    def _follow_plan(self) -> None:
        """Only the program itself trains, not its loaders' workers."""
        wish = os.environ.get(ENV_PLAN)
        if wish and os.environ.get(ENV_RUN) == self._run:
            from stepscope.session.planning import guide_for

            guide = guide_for(wish, self.run, self.recorder, self._leave)
            if guide is not None:
                self._torch.follow(guide)

    def _mind(self) -> None:
        if not self._minding:
            self._minding = True
            self._guarded("minding forks and the end", self._mind_forks_and_the_end)

    def _guarded(self, what: str, do: Callable[[], None]) -> None:
        """Whatever fails in here, the program goes on and the rest of us too."""
        try:
            do()
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self.recorder.failed(what, error)

    def _measure_cost(self) -> None:
        self.recorder.pause()  # what is measured here is forgotten before anybody writes it
        try:
            self._cost = measure_hook_cost(self.recorder)
        finally:
            self.recorder.resume()

    def _mind_forks_and_the_end(self) -> None:
        atexit.register(self._guarded, "at exit", self._leave)
        recorder = self.recorder
        os.register_at_fork(
            before=lambda: self._guarded("before a fork", recorder.pause),
            after_in_parent=lambda: self._guarded("after a fork", recorder.resume),
            after_in_child=lambda: self._guarded("after a fork", self._after_fork),
        )
        when_imported("multiprocessing.util", self._mind_workers, self.recorder.failed)

    def wake(self) -> None:
        """The loop lives: open the files, say what joining cost, and record collections too."""
        if self.awake:
            return
        self.awake = True
        began_ns = time.monotonic_ns()
        self._mind()
        self._open()
        self._guarded("starting gc", lambda: self._gc.start(self.recorder))
        self._guarded("waiting for captures", self._listen)
        self._guarded("sampling stacks", self._sample_stacks)
        self._spent_ns += time.monotonic_ns() - began_ns
        self._say_cost()

    def set_calm(self, calm: bool) -> None:
        """calm: nobody is there but those who watch from inside the program, for weeks. Under
        `stepscope run` the report wants more."""
        is_launched = os.environ.get(ENV_RUN) == self._run
        calm = calm and not is_launched
        self._torch.set_calm(calm)
        if calm:
            self.recorder.core.set_pace(_CALM_FLUSH_NS, _CALM_CLOCK_NS)
        else:
            self.recorder.core.set_pace()

    def _listen(self) -> None:
        """Somebody may ask for a closer look. Before stacks are sampled, which then leaves out our
        own threads."""
        status = os.environ.get(ENV_STATUS)
        if status and os.environ.get(ENV_RUN) == self._run and Path(status).is_dir():
            self._torch.listen(status)

    def _sample_stacks(self) -> None:
        """In all processes of a run. Profilers in the code ask for stacks themselves."""
        if os.environ.get(ENV_RUN) != self._run:
            return
        settings = Settings.of_environment(os.environ.get(ENV_LEVEL))
        self._stacks = StackCollector(settings.stack_interval_s)
        self._stacks.start(self.recorder)

    def _sample_when_settled(self, worker: WorkerLoop) -> None:
        worker.call_when_old(
            _SETTLED_NS, lambda: self._guarded("sampling stacks", self._sample_stacks)
        )

    def _save(self, name: str, content: bytes) -> None:
        """A file beside our own; a reader never sees half of it."""
        path = self.base.with_name(f"{self.base.name}.{name}")
        unfinished = path.with_suffix(".part")
        unfinished.touch(0o600)
        unfinished.write_bytes(content)
        unfinished.replace(path)

    def _say_cost(self) -> None:
        sample, intern = self.recorder.sample, self.recorder.intern
        if self._cost is not None:
            sample(intern(names.OWN_CALL_COST_NS), self._cost.call_ns)
            sample(intern(names.OWN_CLOCK_COST_NS), self._cost.clock_ns)
            sample(intern(names.OWN_PROBE_COST_NS), self._cost.probe_ns)
        sample(intern(names.OWN_STARTUP_NS), float(self._spent_ns))
        torch_ns = import_ns("torch")
        if torch_ns is not None:
            sample(intern(names.TORCH_IMPORT_NS), float(torch_ns))

    def _open(self) -> None:
        status = os.environ.get(ENV_STATUS)
        page = str(Path(status, f"{os.getpid()}.status")) if status else ""
        argv = getattr(sys, "argv", [])
        header = process_header(os.environ, argv, self.recorder.core.name, self._began)
        self.recorder.open(str(self.base), header, page)

    def _after_fork(self) -> None:
        """In a forked child: forget what is the parent's, and go on in files of our own."""
        self._began = Moment.now()
        self._left = False
        self.recorder.after_fork()
        self._torch.after_fork()
        self._torch.set_calm(False)  # whoever watched, watched the parent
        if self.awake:
            self._open()
            self._stacks = None
            if not self._torch.starts_short_lived:
                self._sample_stacks()

    def _mind_workers(self, util: Any) -> None:
        """Children of multiprocessing end with os._exit: no atexit, but their own finalizers."""

        def in_child(program: Program) -> None:
            leave = ("at exit", program._leave)
            util.Finalize(None, program._guarded, args=leave, exitpriority=-100)

        util.register_after_fork(self, in_child)
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            in_child(self)  # made by a fork server, before we came

    def _leave(self) -> None:
        """The process ends: write what is pending. A second call has nothing to do."""
        if self._left:
            return
        self._left = True
        if self._finish is not None:
            self._guarded("finishing changes", self._finish)
        self._guarded("the last events of torch", self._torch.leave)
        if self._stacks is not None:
            self._stacks.stop()
        if self.awake and self.recorder.counters()["recorded"]:
            self.recorder.mark(self.recorder.intern(names.PROCESS_EXIT))
        self.recorder.close()


_here: Program | None = None


def program_here(run: str, began: Moment, spent_ns: int = 0) -> Program:
    """The one program of this process; made by whoever comes first, the launcher's hook on torch or
    a profiler in the code."""
    global _here
    if _here is None:
        _here = Program(run, began, spent_ns)
    return _here
