"""Writing and reading small JSON files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepscope.errors import FormatError

__all__ = ["read_json", "write_json"]

_MAX_BYTES = 64 << 20  # far more than any of ours


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Readers see the old file or the new one, never a part. OSError: the old one stays."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
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
