from __future__ import annotations

import gc
import os
import threading
import time
import weakref

from stepscope.session.ticking import Ticking


class Clock:
    def __init__(self) -> None:
        self.ticks = 0
        self.left = 0
        self.ticked = threading.Event()
        self.ticking = Ticking(self.tick, 0.001, "test")

    def tick(self) -> None:
        self.ticks += 1
        self.ticked.set()

    def left_behind(self) -> None:
        self.left += 1

    def start(self) -> None:
        self.ticking.start(self.left_behind)


def test_it_ticks_until_it_is_stopped() -> None:
    clock = Clock()
    clock.start()
    assert clock.ticked.wait(20)
    clock.ticking.stop()
    ticks = clock.ticks
    time.sleep(0.01)
    assert clock.ticks == ticks
    assert not clock.ticking.is_running
    clock.ticking.stop()


def test_it_does_not_keep_its_owner_alive() -> None:
    clock = Clock()
    clock.start()
    thread, gone = clock.ticking._thread, weakref.ref(clock)
    del clock
    gc.collect()
    assert thread is not None
    thread.join(20)
    assert gone() is None
    assert not thread.is_alive()


def test_a_fork_leaves_the_thread_in_the_parent_and_tells_the_child() -> None:
    clock = Clock()
    clock.start()
    child = os.fork()
    if child == 0:
        os._exit(0 if clock.left == 1 and not clock.ticking.is_running else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    clock.ticked.clear()
    assert clock.ticked.wait(20)
    assert clock.left == 0
    clock.ticking.stop()
