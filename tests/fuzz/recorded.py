"""A real run to damage: recorded once per process by a small training program."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_PROGRAM = """
import time
import stepscope
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
first, last = nn.Sequential(nn.Linear(16, 32), nn.GELU()), nn.Linear(32, 4)
optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()])
kept = []
until = time.monotonic() + 3
while time.monotonic() < until:
    for x, y in DataLoader(data, batch_size=64, num_workers=1):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(last(checkpoint(first, x, use_reentrant=False)), y)
        loss.backward()
        optimizer.step()
        kept.append(torch.zeros(1000))
        stepscope.metric("loss", loss.item())
with stepscope.PerformanceProfiler().profile("after"):
    sum(range(1000))
"""
# The loss is always above it: one alert, one capture.
_RULES = """
[watch]
hold = "1s"
[[threshold]]
metric = "loss"
above = 0.0001
for = "0.5s"
capture = true
[[sink]]
type = "log"
path = "alerts.log"
"""


@cache
def recorded_run() -> Path:
    """The folder of a finished run with memory, an alert and a capture. Copy it before a change."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-run-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "train.py").write_text(_PROGRAM)
    (folder / "rules.toml").write_text(_RULES)
    command = [sys.executable, "-m", "stepscope", "run", "--quiet", "--memory"]
    command += ["--watch", "rules.toml", "--name", "whole", "train.py"]
    subprocess.run(command, cwd=folder, check=True, timeout=240)
    return folder / "runs" / "whole"
