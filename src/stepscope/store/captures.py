"""Captures: asking for one (the status folder), and what they gave (captures/ of the run folder).

`captures/<number>.json` is described by capture.schema.json.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from stepscope.descriptor import open_own
from stepscope.errors import FormatError
from stepscope.model.capture import Capture, CaptureDetails
from stepscope.model.capture_request import CONTROL, CONTROL_BYTES, CaptureRequest, request_name
from stepscope.model.plain import from_plain, to_plain
from stepscope.model.summary import Summary
from stepscope.store.files import (
    PRIVATE_FOLDER,
    read_bytes,
    read_json,
    write_bytes,
    write_json,
    write_text,
)

__all__ = [
    "CAPTURE_SCHEMA",
    "ask_capture",
    "capture_path",
    "read_capture",
    "said_run",
    "say_run",
    "write_capture",
]

CAPTURE_SCHEMA = 1
_FOLDER = "captures"
_RUN = "run"  # in the status folder: whose it is
_NUMBER = struct.Struct("=Q")


def ask_capture(status_folder: Path, request: CaptureRequest) -> int:
    """The number of the request, from 1. Several may ask at once. OSError: nobody can be asked."""
    file = open_own(status_folder / CONTROL, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.posix_fallocate(file, 0, CONTROL_BYTES)
        number = int(_NUMBER.unpack(os.pread(file, _NUMBER.size, 0))[0]) + 1
        write_text(status_folder / request_name(number), request.to_json())
        os.pwrite(file, _NUMBER.pack(number), 0)
    finally:
        os.close(file)
    return number


def say_run(status_folder: Path, run: Path) -> None:
    """So that a process id is enough to find the run."""
    write_bytes(status_folder / _RUN, os.fsencode(run))


def said_run(status_folder: Path) -> Path | None:
    try:
        content = read_bytes(status_folder / _RUN, 1 << 16)
    except (FormatError, FileNotFoundError):
        return None
    return Path(os.fsdecode(content)) if content.startswith(b"/") else None


def capture_path(number: int) -> str:
    """Of its file, in the run folder."""
    return f"{_FOLDER}/{number}.json"


def write_capture(run: Path, capture: Capture) -> Path:
    path = run / capture_path(capture.details.number)
    path.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
    plain = to_plain(capture.details)
    document = {"schema": CAPTURE_SCHEMA, **plain, "summary": capture.summary.to_dict()}
    write_json(path, document, indent=None)
    return path


def read_capture(run: Path, number: int) -> Capture | None:
    """None: there is none of that number, or it is still under way."""
    path = run / capture_path(number)
    try:
        plain = read_json(path)
    except FileNotFoundError:
        return None
    schema = plain.get("schema")
    if schema != CAPTURE_SCHEMA:
        raise FormatError(
            f"{path} has capture schema {schema!r:.20}, this stepscope reads {CAPTURE_SCHEMA}:"
            " upgrade with pip install -U stepscope, or delete it."
        )
    try:
        summary = plain.get("summary")
        if not isinstance(summary, dict):
            raise FormatError("it has no summary.")
        details: CaptureDetails = from_plain(CaptureDetails, plain, "capture")
        return Capture(details, Summary.from_dict(summary))
    except FormatError as error:
        raise FormatError(f"{path} cannot be used: {error} Restore or delete it.") from error
