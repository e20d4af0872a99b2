"""The bytes of a file from somewhere else, within bounds."""

from __future__ import annotations

import gzip
import stat
import zlib
from pathlib import Path
from typing import IO, cast

from stepscope.errors import FormatError, UsageError

__all__ = ["MAX_BYTES", "read_foreign"]

MAX_BYTES = 512 << 20  # of a file as it is read, and of what a compressed one unfolds to
_GZIP = b"\x1f\x8b"
_PICKLE = b"\x80"
_JSON = (b"{", b"[")
_LOOK = 64  # bytes that tell what a file is


def read_foreign(path: Path) -> bytes:
    """What a memory file holds, unpacked. Its beginning is looked at before the rest is read, so
    that a large file of something else costs nothing."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is not a regular file: copy what it gives into one.")
        with path.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            if not packed and status.st_size > MAX_BYTES:
                raise _too_large(path)
            unpacked = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if packed else file
            return _read(path, unpacked)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"{path} is torn or no gzip ({error}): copy it again.") from error
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}): check the path and its permissions."
        ) from error


def _read(path: Path, file: IO[bytes]) -> bytes:
    head = file.read(_LOOK)
    if not head.startswith(_PICKLE) and not head.lstrip().startswith(_JSON):
        raise FormatError(
            f"{path} is no memory file: torch.cuda.memory._dump_snapshot (pickle), a snapshot as"
            " JSON, and export_memory_timeline('….raw.json.gz') can be read."
        )
    rest = file.read(MAX_BYTES - len(head) + 1)
    if len(head) + len(rest) > MAX_BYTES:
        raise _too_large(path)
    return head + rest


def _too_large(path: Path) -> FormatError:
    return FormatError(
        f"{path} holds more than {MAX_BYTES >> 20} MiB: record a shorter window, for snapshots with"
        " torch.cuda.memory._record_memory_history(max_entries=100_000)."
    )
