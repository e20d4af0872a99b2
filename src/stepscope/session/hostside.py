"""What the launcher records itself: samples of the host and of the processes, from outside."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.config import Settings
from stepscope.model import names
from stepscope.model.process import ProcessInfo
from stepscope.redact import redact
from stepscope.session.troubles import Troubles
from stepscope.store.layout import HOST_FOLDER
from stepscope.store.process import process_to_json

if TYPE_CHECKING:
    from stepscope.collect.system import SystemCollector
    from stepscope.record.recorder import Recorder

__all__ = ["HostSide"]


class HostSide:
    """Records from `start` to `stop`. A launcher that cannot record says so and does without."""

    def __init__(self, run: Path, settings: Settings, troubles: Troubles) -> None:
        self._run = run
        self._settings = settings
        self._troubles = troubles
        self._recorder: Recorder | None = None
        self._collector: SystemCollector | None = None

    def start(self, pid: int) -> None:
        """Samples the process `pid` and all that it starts."""
        with self._troubles.guard("sampling the host"):
            from stepscope.collect.system import SystemCollector
            from stepscope.record.recorder import Recorder

            process = _launcher_process(Recorder().core.name)
            base = self._run / HOST_FOLDER / f"{process.pid}-{process.monotonic_ns}"
            recorder = Recorder()
            recorder.open(str(base), process_to_json(process))
            self._recorder = recorder
            collector = SystemCollector(pid, self._settings.system_interval_s)
            collector.start(recorder)
            self._collector = collector

    def tell(self, trait: str, fact: Any) -> None:
        """A fact about the program that was found from outside."""
        if self._recorder is not None:
            from stepscope.collect.trait_marks import tell

            tell(self._recorder, trait, fact)

    def stop(self) -> int:
        """Ends the sampling; gives the number of samples that could not be written."""
        lost = 0
        with self._troubles.guard("ending the samples of the host"):
            if self._collector is not None:
                self._collector.stop()
            if self._recorder is not None:
                own = self._recorder.intern(names.OWN_CPU_NS)
                self._recorder.sample(own, float(time.process_time_ns()), os.getpid())
                self._recorder.close()
                lost = self._recorder.counters()["lost"]
        return lost


def _launcher_process(core: str) -> ProcessInfo:
    return ProcessInfo(
        pid=os.getpid(),
        parent_pid=os.getppid(),
        rank=0,
        world_size=1,
        host=os.uname().nodename,
        role="launcher",
        argv=tuple(redact(sys.argv)),
        python=platform.python_version(),
        core=core,
        monotonic_ns=time.monotonic_ns(),
        unix_ns=time.time_ns(),
    )
