"""All stacks of a run as one tree, whatever process they were seen in."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analyze.line_times import Frame
from stepscope.analyze.user_code import is_users
from stepscope.model.own_code import is_ours

__all__ = ["StackTree"]

NODES = 200_000  # beyond these, time goes to the caller


class StackTree:
    """A stack is the number of its innermost frame; 0 is the empty one.

    Processes number their stacks each for itself and come and go: workers are started anew with
    every epoch. What they ran is the same, so the tree stays small.
    """

    def __init__(self) -> None:
        self._frames: list[Frame] = [Frame(0, "", "", 0)]
        self._numbers: dict[Frame, int] = {}
        self._users: dict[int, int] = {0: 0}

    def add(self, frame: Frame) -> int:
        """Its number; `frame.caller` is one of this tree. The time of a frame of ours goes to
        its caller, as that of C does."""
        if is_ours(frame.file, frame.function):
            return frame.caller
        found = self._numbers.get(frame)
        if found is None:
            if len(self._frames) > NODES:
                return frame.caller
            found = self._numbers[frame] = len(self._frames)
            self._frames.append(frame)
        return found

    def frame(self, stack: int) -> Frame:
        return self._frames[stack]

    def chain(self, stack: int) -> Iterator[Frame]:
        """Innermost first. Callers were there before what they call, so this ends."""
        while stack:
            frame = self._frames[stack]
            yield frame
            stack = frame.caller

    def _is_generated(self, stack: int) -> bool:
        """Libraries compile text too and call it as `python -c` does; there, the program itself is
        such text."""
        text = self._frames[stack].file
        if text != "<string>":
            return False
        *_, outermost = self.chain(stack)
        return outermost.file != text

    def users(self, stack: int) -> int:
        """The stack down to the innermost frame that is the user's own; 0: there is none."""
        passed = []
        at = stack
        while at not in self._users:
            frame = self._frames[at]
            if is_users(frame.file, frame.function) and not self._is_generated(at):
                self._users[at] = at
                break
            passed.append(at)
            at = frame.caller
        found = self._users[at]
        self._users.update(dict.fromkeys(passed, found))
        return found
