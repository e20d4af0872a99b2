"""Reading and writing the files of a run folder.

A run folder may be somebody else's, damaged or made to do harm. Every file of it is opened by
`open_file`, which takes regular files of a bounded size only, and every JSON document is decoded by
`read_json` and `model/plain.py`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from stepscope.errors import FormatError
from stepscope.model.plain import parse_json

__all__ = [
    "PRIVATE_FILE",
    "PRIVATE_FOLDER",
    "open_file",
    "read_bytes",
    "read_json",
    "write_bytes",
    "write_json",
    "write_text",
]

# Command lines and source lines are nobody else's business.
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
_MAX_JSON_BYTES = 64 << 20  # far more than any of ours


def open_file(path: Path, max_bytes: int | None = None) -> int:
    """A descriptor to read a regular file of at most so many bytes.

    Opening does not wait for the writer of a named pipe, nor read from a device. Symbolic links are
    followed: tools that manage large files leave them in place of the files.
    Raises FileNotFoundError if there is no such file, FormatError for everything else.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:  # a NUL in the path
        raise FormatError(f"{str(path)!r:.80} is not the name of a file.") from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{path} is not a regular file: restore or delete it.")
        if max_bytes is not None and status.st_size > max_bytes:
            raise FormatError(
                f"{path} is too large to be a file of stepscope ({status.st_size:,} bytes, at most"
                f" {max_bytes:,} are read): restore or delete it."
            )
    except BaseException:
        os.close(file)
        raise
    return file


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The whole file. Raises as `open_file` does."""
    file = open_file(path, max_bytes)
    try:
        # What /proc says is a regular file of size 0 may be endless.
        parts, left = [], max_bytes
        while left > 0 and (part := os.read(file, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(file)


def read_json(path: Path, max_bytes: int = _MAX_JSON_BYTES) -> dict[str, Any]:
    """Raises FileNotFoundError if there is no such file, FormatError if it is no JSON object."""
    content = read_bytes(path, max_bytes)
    try:
        document = parse_json(content)
    except FormatError as error:
        raise FormatError(
            f"{path} is not the JSON that stepscope wrote: {error}. Restore or delete it."
        ) from error
    if not isinstance(document, dict):
        raise FormatError(f"{path} is not the JSON that stepscope wrote: restore or delete it.")
    return document


def _unreadable(path: Path, error: OSError) -> FormatError:
    return FormatError(f"{path} cannot be read ({error.strerror}): check its permissions.")


def write_json(
    path: Path, document: Mapping[str, Any], indent: int | None = 2, *, private: bool = True
) -> None:
    """Readers see the old file or the new one, never a part. OSError: the old one stays.

    private: only this user can read it. A file that the user names gets the mode of any other.
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(document, indent=indent, separators=separators, ensure_ascii=False)
    write_text(path, text + "\n", private=private)


def write_text(path: Path, text: str, *, private: bool = True) -> None:
    """As write_json. What UTF-8 has no place for (half a surrogate pair) becomes a “?”."""
    write_bytes(path, text.encode("utf-8", "replace"), private=private)


def write_bytes(path: Path, content: bytes, *, private: bool = True) -> None:
    """As write_json."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(PRIVATE_FILE if private else 0o666, exist_ok=False)  # new: no link to another
        draft.write_bytes(content)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
