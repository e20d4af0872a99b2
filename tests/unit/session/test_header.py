from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from stepscope.record.frames import HEADER, frame
from stepscope.session.compare import read_figures
from stepscope.session.header import Moment, process_header
from tests.unit.session.made_folders import make_run


def header() -> bytes:
    return process_header({}, ["train.py"], "python", Moment(0, 0))


def test_a_process_says_which_torch_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.13.0+cpu"))

    assert json.loads(header())["extra"] == {"torch": "2.13.0+cpu"}


@pytest.mark.parametrize("torch", [None, SimpleNamespace()])
def test_a_process_without_torch_says_nothing_about_it(
    monkeypatch: pytest.MonkeyPatch, torch: object
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)

    assert json.loads(header())["extra"] == {}


def test_runs_are_compared_with_the_torch_that_they_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.13.0+cpu"))
    run = make_run(tmp_path / "run", 10.0)
    (run / "rank-00000").mkdir()
    (run / "rank-00000" / "1-1.0000.frames").write_bytes(frame(HEADER, header()))

    assert read_figures(run).about["version of torch"] == "2.13.0+cpu"
