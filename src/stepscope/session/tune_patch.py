"""What tuning kept, as a patch of the user's source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepscope.model.trial import Tuning
from stepscope.printer import show_exactly
from stepscope.session.troubles import say
from stepscope.tune.patch import patch_for, unified
from stepscope.tune.patch import write as write_patch

__all__ = ["show_patch"]


def show_patch(tuning: Tuning, words: Sequence[str], *, write: bool) -> None:
    """The diff on stdout; with `write` into the files. What cannot be written is said, with the
    setting to use instead. words: the program's command line."""
    root = Path.cwd()
    pairs = [
        (change, [one for one in tuning.applied if one.change == change.name and not one.refused])
        for change in tuning.kept
    ]
    patch = patch_for(pairs, root, _script(words))
    text = unified(patch, root)
    if text:
        show_exactly(text)
    if write:
        for path in write_patch(patch):
            say(f"written: {path}")
    for note in patch.notes:
        say(note)
    for one in patch.refused:
        say(f"{one.change.name} is not in the patch: {one.why}. Instead: {one.setting}")
    if not text and not patch.refused:
        say("there is nothing to write into the source.")


def _script(words: Sequence[str]) -> Path | None:
    """The program's main file, where the command line names one."""
    return next((Path(word) for word in words if word.endswith(".py")), None)
