"""Writes what torch.save writes, from a thread that leaves the interpreter to the others.

torch's own writer keeps the interpreter's lock while it sums up and copies every tensor: a training
that goes on meanwhile would stand still. zlib and files of Python's let go of it.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from typing import Any, Final

from stepscope.descriptor import Descriptor, RawFile

__all__ = ["CheckpointWriter"]

_KNOWN: Final = {
    "data.pkl", ".format_version", ".storage_alignment", "byteorder", "version",
    ".data/serialization_id",
}  # fmt: skip
_ALIGNED: Final = 64  # bytes, as torch.load with mmap likes them
_HEADER: Final = 30  # bytes of a zip's local header, before name and padding
_PADDING: Final = 0x4246  # as torch marks it
_PROTOCOL: Final = 2


class CheckpointWriter:
    """save: torch's own, for a torch whose files we do not know."""

    def __init__(self, torch: Any, save: Any) -> None:
        self._torch, self._save = torch, save
        self._version: bytes | None = None
        self._is_known: bool | None = None

    def write(self, value: Any, path: str, name: str) -> None:
        """name: of the folder within the file."""
        if self._is_known is None:
            self._is_known = self._knows_files()
        if not self._is_known:
            self._save(value, path)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with (
            # The training goes on meanwhile, and may close all descriptors.
            io.BufferedWriter(RawFile(Descriptor.open(path, flags, 0o666))) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
        ):
            records = _Records(self._torch, archive, name)
            self._torch.serialization._save(value, records, pickle, _PROTOCOL, False)
            records.write_record("version", self._version or b"", 0)

    def _knows_files(self) -> bool:
        """Whether torch writes the records that we know, found on a very small file."""
        try:
            sample = io.BytesIO()
            self._save({}, sample)
            with zipfile.ZipFile(sample) as archive:
                names = {one.partition("/")[2]: one for one in archive.namelist()}
                self._version = archive.read(names["version"])
            return set(names) <= _KNOWN and hasattr(self._torch.serialization, "_save")
        except Exception:  # noqa: BLE001 - another torch: it writes by itself
            return False


class _Records:
    """Stands for torch's writer of zip files."""

    def __init__(self, torch: Any, archive: zipfile.ZipFile, name: str) -> None:
        self._torch, self._archive, self._name = torch, archive, name

    def write_record(self, name: str, data: Any, _: int) -> None:
        if self._torch.is_storage(data):
            empty = self._torch.empty(0, dtype=self._torch.uint8, device="cpu")
            content: Any = memoryview(empty.set_(data).numpy())
        else:
            content = data.encode() if isinstance(data, str) else data
        info = zipfile.ZipInfo(f"{self._name}/{name}")
        assert self._archive.fp is not None
        start = self._archive.fp.tell() + _HEADER + len(info.filename.encode())
        padding = -start % _ALIGNED
        if padding:
            padding += _ALIGNED if padding < 4 else 0
            info.extra = struct.pack("<HH", _PADDING, padding - 4) + b"Z" * (padding - 4)
        self._archive.writestr(info, content)
