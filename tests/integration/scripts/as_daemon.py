"""Trains, closes every descriptor, opens files of its own, trains on. Also logs and saves."""

import os
import sys
from pathlib import Path

import torch
from own_files import OwnFiles, Training

folder, workers, when = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
own_files = OwnFiles(folder)


def log_and_save(training: Training) -> None:
    for line in range(8):
        with open(folder / "log", "a") as log:  # noqa: PTH123
            print("line", line, file=log, flush=True)
    torch.save(training.model.state_dict(), folder / "model.pt")


if when == "before":
    own_files.open()
training = Training(workers)
training.run(0.5)
log_and_save(training)
if when == "between":
    own_files.open()
training.run(2.5)
log_and_save(training)
own_files.check("trained")
assert os.path.getsize(folder / "log") == 16 * len("line 0\n")  # noqa: PTH202
