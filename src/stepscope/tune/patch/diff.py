"""A patch as a unified diff, and as files."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from stepscope.errors import UsageError
from stepscope.store.files import write_bytes
from stepscope.tune.patch.values import Edit, Patch

__all__ = ["unified", "write"]

_NO_NEWLINE = "\n\\ No newline at end of file\n"


def unified(patch: Patch, root: Path) -> str:
    """What `git apply` and `patch -p1` take in `root`; "" where there is nothing to change.

    Bytes that are not UTF-8 (a file in Latin-1) are kept as surrogate escapes, so this text
    encoded with `errors="surrogateescape"` is the very diff.
    """
    return "".join(line for edit in patch.edits for line in _diff(edit, root))


def _diff(edit: Edit, root: Path) -> Iterator[str]:
    name = Path(edit.file).relative_to(root.resolve()).as_posix()
    end = "\t" if " " in name else ""  # where a name with blanks ends, as diff and git say it
    lines = difflib.unified_diff(
        _lines(edit.old), _lines(edit.new), f"a/{name}{end}", f"b/{name}{end}"
    )
    for line in lines:
        yield line if line.endswith("\n") else line + _NO_NEWLINE


def _lines(content: bytes) -> list[str]:
    """Split at line feeds alone, as patch does; str.splitlines knows ten more line ends."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def write(patch: Patch) -> list[Path]:
    """Puts every edit into its file, or none. The files keep their permissions.

    UsageError: a file is not what it was when the patch was made, or cannot be written.
    """
    for edit in patch.edits:
        _check_unchanged(edit)
    done: list[Edit] = []
    for edit in patch.edits:
        try:
            _replace(Path(edit.file), edit.new)
        except OSError as error:
            for earlier in done:
                _replace(Path(earlier.file), earlier.old)
            raise UsageError(
                f"{edit.file} cannot be written ({error.strerror}), so no file was changed: "
                "check its permissions, or use --diff."
            ) from error
        done.append(edit)
    return [Path(edit.file) for edit in done]


def _check_unchanged(edit: Edit) -> None:
    try:
        same = Path(edit.file).read_bytes() == edit.old
    except OSError as error:
        raise UsageError(
            f"{edit.file} cannot be read ({error.strerror}), so nothing was written."
        ) from error
    if not same:
        raise UsageError(
            f"{edit.file} has changed since it was read, so nothing was written: "
            "run the command again."
        )


def _replace(path: Path, content: bytes) -> None:
    mode = path.stat().st_mode
    write_bytes(path, content)
    path.chmod(mode)
