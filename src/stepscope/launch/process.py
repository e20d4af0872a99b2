"""The child process and its signals.

The launcher shares the child's process group, so a key on the terminal (Ctrl-C, Ctrl-\\, Ctrl-Z)
reaches the child by itself: the kernel sends it to the whole group. What someone sends to the
launcher alone is passed on. The two are told apart by the origin that the kernel notes with each
signal, which only sigtimedwait shows: so the signals are blocked and waited for, not handled.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from stepscope.errors import UsageError
from stepscope.launch.command import Command

__all__ = ["Child", "die_as", "signals_held", "start", "stop_self"]

_PASSED_ON = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGWINCH,
    signal.SIGTSTP,
    signal.SIGCONT,
}
_HELD = _PASSED_ON | {signal.SIGCHLD}
PATIENCE_S = 10.0  # with a child that was asked to end
# Python ignores these for itself; the program must have them as any program does.
_DEFAULT_IN_CHILD = [signal.SIGPIPE, signal.SIGXFSZ]


@contextmanager
def signals_held() -> Iterator[set[signal.Signals]]:
    """Within, signals wait for Child.wait. Enter before the first thread starts: threads inherit
    the mask, and a thread without it would take the signal and die. Gives the mask from before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    # Whoever started us may have it ignored, and then the child's exit code is lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield {number for number in before if isinstance(number, signal.Signals)}
    finally:
        # What came after the child's end has nobody left to go to.
        while signal.sigtimedwait(_HELD, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(command: Command, environment: Mapping[str, str], mask: set[signal.Signals]) -> Child:
    """The command as a child that sees the user's terminal, files and signals as if we were not
    there."""
    try:
        pid = os.posix_spawn(
            command.executable,
            command.argv,
            environment,
            setsigmask=mask,
            setsigdef=_DEFAULT_IN_CHILD,
        )
    except OSError as error:
        raise UsageError(f"{command.argv[0]} cannot be started: {_why(command, error)}") from error
    return Child(pid)


def _why(command: Command, error: OSError) -> str:
    if error.errno == errno.ENOEXEC:
        return "it has no #! line and is no program. Name its interpreter in front of it."
    if error.errno == errno.ENOENT and os.path.exists(command.executable):  # noqa: PTH110
        return "the interpreter that its #! line names does not exist."
    if error.errno == errno.E2BIG:
        return "the command line is too long."
    return f"{error.strerror}."


class Child:
    """A started child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._asked = 0.0  # when it was asked to end first
        self.status: int | None = None  # as subprocess gives it: -n means ended by signal n

    def wait(self, timeout_s: float) -> signal.Signals | None:
        """Until something happens or the time is over; passes signals on. Gives the signal that
        the caller may want to answer (SIGWINCH, SIGTSTP, SIGCONT, SIGCHLD, …)."""
        info = signal.sigtimedwait(_HELD, max(0.0, timeout_s))
        number = signal.Signals(info.si_signo) if info is not None else None
        self._reap()
        # si_code > 0: the kernel sent it, to everyone in the group.
        if info is not None and number in _PASSED_ON and info.si_code <= 0 and self.status is None:
            self._send(info.si_signo)
        return number

    def end(self) -> None:
        """Ask it to end; asked again after a while, it is ended."""
        now = time.monotonic()
        self._asked = self._asked or now
        self._send(signal.SIGTERM if now < self._asked + PATIENCE_S else signal.SIGKILL)

    def join(self) -> int:
        """Its status, when it has ended."""
        while self.status is None:
            self.wait(3600.0)
        return self.status

    def _reap(self) -> None:
        if self.status is not None:
            return
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # someone else in this process took it: nothing to learn
            self.status = 0
            return
        if pid:
            self.status = os.waitstatus_to_exitcode(status)

    def _send(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass


def stop_self() -> None:
    """Stops the launcher as Ctrl-Z would have; returns when it is continued. Does nothing where
    nobody could continue it (an orphaned process group), as the kernel has it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})


def die_as(status: int) -> int:
    """The exit code for the status of a child. If a signal ended it, that signal ends us too, so
    that whoever started us sees the same."""
    if status >= 0:
        return status
    number = -status
    try:
        resource.setrlimit(
            resource.RLIMIT_CORE, (0, 0)
        )  # the child's core file is the one of interest
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    except (OSError, ValueError):
        pass
    return 128 + number  # the shell's way, should we still be here
