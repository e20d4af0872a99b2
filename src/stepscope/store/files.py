"""Writing and reading small JSON files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepscope.errors import FormatError

__all__ = ["read_json", "write_bytes", "write_json", "write_text"]

_MAX_BYTES = 64 << 20  # far more than any of ours


def write_json(path: Path, document: Mapping[str, Any], indent: int | None = 2) -> None:
    """Readers see the old file or the new one, never a part. OSError: the old one stays."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(document, indent=indent, separators=separators, ensure_ascii=False)
    write_text(path, text + "\n")


def write_text(path: Path, text: str) -> None:
    """As write_json. What UTF-8 has no place for (half a surrogate pair) becomes a “?”."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_bytes(path: Path, content: bytes) -> None:
    """As write_json."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)  # a file that is new is no link to another one
        with draft.open("xb") as file:
            file.write(content)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any]:
    """FileNotFoundError: there is none. FormatError: there is something else."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise FormatError(
                f"{path} is too large to be a file of stepscope: restore or delete it."
            )
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FormatError(
            f"{path} cannot be read ({error.strerror}): check its permissions."
        ) from error
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{path} is not the JSON that stepscope wrote ({error}): restore or delete it."
        ) from error
    if not isinstance(document, dict):
        raise FormatError(f"{path} is not the JSON that stepscope wrote: restore or delete it.")
    return document
