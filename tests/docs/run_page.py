"""Runs the Python blocks of a page in order, in one namespace, as a reader would:
`python -m tests.docs.run_page docs/howto/in-code.md` (in a folder where files may be left)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["python_blocks", "run_page"]

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[tuple[int, str]]:
    """(line of the first statement, code) of every Python block of a page."""
    return [(text[: found.start(1)].count("\n"), found[1]) for found in _BLOCK.finditer(text)]


def run_page(page: Path, names: dict[str, Any]) -> dict[str, Any]:
    """The names after the last block. Errors point to the line of the page."""
    for line, code in python_blocks(page.read_text("utf-8")):
        exec(compile("\n" * line + code, str(page), "exec"), names)
    return names


if __name__ == "__main__":
    from tests.docs.preamble import preamble, training

    page = Path(sys.argv[1])
    needs_training = page.stem in ("bottlenecks", "optimize-in-code", "monitor-in-code")
    run_page(page, preamble() | (training() if needs_training else {}))
