"""A program that records a training loop without torch: quick to start, exact in what it does."""

from __future__ import annotations

TEXT = '''
import os, sys, time
from stepscope.model import names
from stepscope.record.recorder import Recorder
from stepscope.session.header import Moment, process_header

recorder = Recorder()
pid = os.getpid()
base = os.path.join(os.environ["STEPSCOPE_RUN"], "rank-00000", f"{pid}-{time.time_ns()}")
status = os.path.join(os.environ["STEPSCOPE_STATUS"], f"{pid}.status")
header = process_header(os.environ, sys.argv, recorder.core.name, Moment.now())
recorder.open(base, header, status)
phases = [
    recorder.intern(name)
    for name in (names.INPUT_NEXT, names.FORWARD, names.BACKWARD, names.OPTIMIZER_STEP)
]


def step(seconds=0.002):
    """An input wait of 70 %, the rest in equal parts."""
    for name, share in zip(phases, (0.7, 0.1, 0.1, 0.1)):
        token = recorder.begin(name, 1, 1.0)
        time.sleep(seconds * share)
        recorder.end(token)


def train(steps, seconds=0.002):
    for _ in range(steps):
        step(seconds)


'''
