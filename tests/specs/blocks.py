"""The Python blocks of a specification, each under the heading that it stands below."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import stepscope

__all__ = ["Block", "find_specs", "python_blocks", "stepscope_names", "with_our_import"]

_ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^\s*```(\w*)\s*$")
_HEADING = re.compile(r"^#+ +(.*?)\s*$")
_OTHER_IMPORT = re.compile(
    r"^from (cookbook\.measure|advanced_code_profiling_optimization) import ", re.MULTILINE
)


class Block(NamedTuple):
    heading: str  # with a number behind it from the second block under the same heading on
    code: str


def find_specs() -> Path | None:
    """The folder with the documents: STEPSCOPE_SPECS, else beside the project; None: not here."""
    folder = Path(os.environ.get("STEPSCOPE_SPECS") or _ROOT.parent / "shared" / "specs")
    return folder if folder.is_dir() else None


def python_blocks(text: str) -> Iterator[Block]:
    """Every ```python block of a Markdown text, in order."""
    heading, language, code = "", None, [""]
    seen: Counter[str] = Counter()
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if fence and language is None:
            language, code = fence[1], []
        elif fence:
            if language == "python":
                seen[heading] += 1
                name = heading if seen[heading] == 1 else f"{heading} ({seen[heading]})"
                yield Block(name, "\n".join(code) + "\n")
            language = None
        elif language is not None:
            code.append(line)
        elif title := _HEADING.match(line):
            heading = title[1]


def with_our_import(code: str) -> str:
    """The block with its import line changed, and nothing else."""
    return _OTHER_IMPORT.sub("from stepscope.profilers import ", code)


def stepscope_names(code: str) -> dict[str, object]:
    """What a block uses of stepscope without importing it."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    return {name: getattr(stepscope, name) for name in used & set(stepscope.__all__)}
