"""Changes that proved themselves, written into the source at the calls that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from stepscope.errors import MissingExtraError
from stepscope.model.change import Applied, Change
from stepscope.tune.patch.diff import unified, write
from stepscope.tune.patch.values import Edit, NotWritten, Patch

__all__ = ["Edit", "NotWritten", "Patch", "patch_for", "unified", "write"]


def patch_for(
    changes: Sequence[tuple[Change, Sequence[Applied]]], root: Path, script: Path | None = None
) -> Patch:
    """The changes as edits of files under `root`; what cannot be written is in `refused`.

    Each change comes with what its trial told (applied.jsonl): its calls are edited and no others.
    A change that the source makes already is neither an edit nor refused. script: the program's
    main file, for what is made once at its start (threads, denormals); None: these are refused.
    MissingExtraError: libcst is not installed.
    """
    if find_spec("libcst") is None:
        raise MissingExtraError("libcst", "tune")
    from stepscope.tune.patch.make import make_patch

    return make_patch(changes, root, script)
