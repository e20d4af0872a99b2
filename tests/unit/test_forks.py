"""What has a thread, around forks that really happen."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Sequence

import pytest

from stepscope.forks import Forks


class Thing:
    """Something that runs, and notes what it is told."""

    def __init__(self, *, runs: bool = True) -> None:
        self.runs = runs
        self.told: list[str] = []


def stop(things: Sequence[Thing]) -> None:
    for thing in things:
        thing.told.append("stop")


def resume(thing: Thing) -> None:
    thing.told.append("resume")


def forget(thing: Thing) -> None:
    thing.told.append("forget")


def made() -> Forks[Thing]:
    return Forks(stop, resume, forget, lambda thing: thing.runs)


def fork(holds_in_child: Callable[[], bool] = lambda: True) -> bool:
    """Whether it held in the child."""
    child = os.fork()
    if child == 0:
        held = False
        try:
            held = holds_in_child()
        finally:
            os._exit(0 if held else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_it_is_stopped_before_a_fork_goes_on_in_the_parent_and_is_forgotten_in_the_child() -> None:
    thing, forks = Thing(), made()
    forks.mind(thing)
    assert fork(lambda: thing.told == ["stop", "forget"])
    assert thing.told == ["stop", "resume"]


def test_it_is_told_once_however_often_it_was_to_be_minded_and_at_every_fork() -> None:
    thing, forks = Thing(), made()
    forks.mind(thing)
    forks.mind(thing)
    assert fork()
    assert fork()
    assert thing.told == ["stop", "resume"] * 2


def test_what_does_not_run_hears_nothing() -> None:
    thing, forks = Thing(runs=False), made()
    forks.mind(thing)
    assert fork(lambda: thing.told == [])
    assert thing.told == []


def test_a_child_minds_only_what_it_starts_itself() -> None:
    inherited, started, forks = Thing(), Thing(), made()
    forks.mind(inherited)

    def holds() -> bool:
        forks.mind(started)
        return fork() and (inherited.told, started.told) == (["stop", "forget"], ["stop", "resume"])

    assert fork(holds)


def test_what_is_started_in_the_child_while_it_is_told_of_the_fork_is_minded() -> None:
    thing = Thing()

    def start_again(thing: Thing) -> None:
        forks.mind(thing)

    forks: Forks[Thing] = Forks(stop, resume, start_again)
    forks.mind(thing)
    assert fork(lambda: fork() and thing.told == ["stop", "stop", "resume"])


def test_nothing_is_kept_alive() -> None:
    thing, forks = Thing(), made()
    forks.mind(thing)
    assert fork()
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_was_being_stopped_goes_on_though_that_was_interrupted() -> None:
    def interrupted(things: Sequence[Thing]) -> None:
        if things:  # later forks are of no concern
            raise KeyboardInterrupt

    thing = Thing()
    forks: Forks[Thing] = Forks(interrupted, resume)
    forks.mind(thing)
    assert fork()
    assert thing.told == ["resume"]
