"""The rules that a run is watched by: a .toml file, or those that come with stepscope."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.config import WATCH_DEFAULT
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.monitor.settings import WatchSettings

__all__ = ["check_rules", "load_rules", "read_rules"]

_MOST_BYTES = 1_000_000


def check_rules(wanted: str) -> str:
    """The same, as a path that holds from anywhere; UsageError: such rules cannot be followed."""
    load_rules(wanted)
    return wanted if wanted == WATCH_DEFAULT else str(Path(wanted).resolve())


def load_rules(wanted: str) -> WatchSettings:
    """The rules of that file. UsageError says which setting is wrong, and what is allowed."""
    from stepscope.monitor.settings import watch_settings

    _register_installed()
    if wanted == WATCH_DEFAULT:
        return watch_settings({})
    try:
        return watch_settings(read_rules(Path(wanted)))
    except UsageError as error:
        raise UsageError(f"{wanted}: {error}") from error


def _register_installed() -> None:
    """Rules that installed packages bring along (the entry points `stepscope.rules`)."""
    from importlib.metadata import entry_points

    from stepscope.monitor.registry import register_rule

    for entry in entry_points(group="stepscope.rules"):
        try:
            register_rule(entry.name, entry.load())
        except Exception as error:
            raise UsageError(
                f"The rule {entry.name} ({entry.value}) cannot be loaded: {error}. Repair the"
                " package that brings it, or uninstall it."
            ) from error


def read_rules(path: Path) -> Mapping[str, Any]:
    """What the file says, unchecked. UsageError: it is not there, or no TOML."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError("it is no regular file.")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(
            f"there is no such file: write one (docs/howto/alerts.md), or use"
            f" --watch {WATCH_DEFAULT}."
        ) from None
    except OSError as error:
        raise UsageError(f"it cannot be read ({error.strerror}).") from error
    if len(content) > _MOST_BYTES:
        raise UsageError("it is longer than 1 MB: that is no file of rules.")
    try:
        return tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"it is no TOML ({error}).") from error
