"""Nobody else reads a run, and nobody finds a secret in it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = "hunter2-the-secret"
PROGRAM = f"""
import sys, torch
assert sys.argv[1:] == ["--api-key", "{SECRET[::-1]}"[::-1], "--lr=0.1"], sys.argv
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=4)
for batch in data:
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
open("made-by-program", "w").close()
"""
RULES = """
[[sink]]
type = "log"
[[sink]]
type = "prometheus"
[[sink]]
type = "tensorboard"
"""


def stepscope(
    *arguments: str, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        umask=0o022,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("core", ["native", "python"])
def test_files_of_a_run_are_private_and_hold_no_secret(tmp_path: Path, core: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "rules.toml").write_text(RULES)
    words = ["train.py", "--api-key", SECRET, "--lr=0.1"]
    environment = {"STEPSCOPE_CORE": core} if core == "python" else {}
    options = ["--memory", "--watch", "rules.toml", "--name", "r"]
    stepscope("run", *options, *words, folder=tmp_path, **environment)
    stepscope("report", "r", "--html", folder=tmp_path)
    run = tmp_path / "runs" / "r"
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    inside = [*run.rglob("*"), *run.parent.glob("index.sqlite*")]
    assert {path.name for path in inside} >= {"meta.json", "summary.json", "report.html", "host"}
    for path in inside:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    command = json.loads((run / "meta.json").read_text())["command"]
    assert command[1:] == ["train.py", "--api-key", "***", "--lr=0.1"]
    # The program's own files keep the mode that its umask gives.
    assert stat.S_IMODE((tmp_path / "made-by-program").stat().st_mode) == 0o644


def test_a_page_to_share_has_the_mode_of_any_other_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    stepscope("run", "--name", "r", "train.py", folder=tmp_path)
    done = stepscope("report", "r", "--html", "-o", "page.html", folder=tmp_path)
    assert done.stdout == "page.html\n"
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o644
    assert not (tmp_path / "runs" / "r" / "report.html").exists()
