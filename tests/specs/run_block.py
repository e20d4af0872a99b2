"""Runs one block in this process: `python -m tests.specs.run_block 002 "FLOPS Estimation"`."""

from __future__ import annotations

import contextlib
import io
import sys

from tests.specs import (
    bottleneck_detection,
    monitoring,
    optimization,
    performance_profiler,
    profiling_system,
)
from tests.specs.blocks import find_specs, python_blocks, stepscope_names, with_our_import
from tests.specs.case import Case

CASES: dict[str, dict[str, Case]] = {
    "002": performance_profiler.CASES,
    "003": profiling_system.CASES | optimization.CASES | monitoring.CASES,
    "004": bottleneck_detection.CASES,
}


def run_block(spec: str, heading: str) -> None:
    folder = find_specs()
    assert folder is not None
    (document,) = folder.glob(f"{spec}_*.txt")
    text = document.read_text("utf-8")
    code = next(block.code for block in python_blocks(text) if block.heading == heading)
    code = with_our_import(code)
    case = CASES[spec][heading]
    names = {"__name__": "__main__", **stepscope_names(code), **case.given()}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, f"<{document.name}: {heading}>", "exec"), names)
    case.then(names, printed.getvalue())


if __name__ == "__main__":
    run_block(*sys.argv[1:])
