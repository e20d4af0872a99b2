"""What the user typed behind `stepscope run` → what is executed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import UsageError

__all__ = ["Command", "resolve_command"]

_PYTHON_OPTIONS = ("-m", "-c")  # may stand first: the command is then for our own interpreter


class Command(NamedTuple):
    """`executable` is run with `argv`; `label` names the run."""

    executable: str
    argv: tuple[str, ...]
    label: str


def resolve_command(words: list[str]) -> Command:
    """`train.py …`, `-m pkg …`, `python …`, `torchrun …`, any command; UsageError says why not.

    A .py file is always for our own interpreter, whatever its first line says: that is the one the
    user installed stepscope in. `python train.py` and `./train` choose their own.
    """
    if not words or not words[0].strip():
        raise UsageError(
            "There is nothing to run: put a command behind it, as in stepscope run train.py."
        )
    first = words[0]
    if first in _PYTHON_OPTIONS:
        return _for_python(words)
    if first.startswith("-"):
        raise UsageError(f"There is no option {first}: options of the program go behind its name.")
    path = Path(first)
    # A folder may bear the name of a command (python/, deepspeed/): the command is what is meant.
    is_command = os.sep not in first and shutil.which(first) is not None
    if path.is_dir() and not is_command:
        if (path / "__main__.py").is_file():
            return _for_python(words)
        raise UsageError(f"{first} is a folder without a __main__.py: name the script to run.")
    if path.suffix == ".py" and path.is_file():
        return _for_python(words)
    if os.sep not in first and shutil.which(first) is None and path.is_file():
        raise UsageError(f"{first} is neither a .py file nor executable: run it as python {first}.")
    executable = _executable(first)
    return Command(executable, tuple(words), _label(words))


def _for_python(words: list[str]) -> Command:
    if words[0] in _PYTHON_OPTIONS and len(words) == 1:
        what = "a module" if words[0] == "-m" else "code"
        raise UsageError(f"{words[0]} needs {what} behind it, as in stepscope run -m package.")
    return Command(sys.executable, (sys.executable, *words), _label(words))


def _executable(first: str) -> str:
    found = shutil.which(first)
    if found is not None:
        return found
    path = Path(first)
    if path.suffix == ".py":
        raise UsageError(f"There is no script {first}{_near(path)}")
    if path.is_file():
        raise UsageError(f"{first} is not executable: use chmod +x, or name its interpreter.")
    raise UsageError(f"There is no command {first}: check the spelling, or give the path to it.")


def _near(path: Path) -> str:
    """The hint behind "no such script"."""
    from difflib import get_close_matches

    try:
        there = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".py"]
    except OSError:
        return f": there is no folder {path.parent} either."
    near = get_close_matches(path.name, there, n=1, cutoff=0.5)
    return f": did you mean {path.parent / near[0]}?" if near else f" in {path.parent.resolve()}."


def _label(words: list[str]) -> str:
    """The script, module or command, whatever launches it."""
    for position, word in enumerate(words):
        if word.endswith(".py"):
            return Path(word).stem
        if word in _PYTHON_OPTIONS:
            return words[position + 1] if word == "-m" and position + 1 < len(words) else "python"
    return Path(words[0]).name
