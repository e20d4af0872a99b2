"""Train with the log level left at DEBUG: the attention of every sample goes to a file."""

import logging
import os
import tempfile
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer

log = logging.getLogger("train")


class SafeHandler(logging.FileHandler):
    """Nothing may be lost when the node dies: every record is on the disk before we go on."""

    def flush(self):
        super().flush()
        if self.stream:
            os.fsync(self.stream.fileno())


def describe(step, tokens, loss, lines):
    with planted.cost("logging-io"):
        for number in range(lines):
            sample = tokens[number % len(tokens)]
            log.debug("step %d sample %d: %s loss %.4f", step, number, sample.tolist(), loss)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=os.environ.get("FAULT_DISK")) as folder:
        handler = SafeHandler(Path(folder) / "train.log")
        log.addHandler(handler)
        log.setLevel(logging.INFO if planted.off else logging.DEBUG)
        model = Transformer()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        lines = planted.times(lambda: describe(0, data.texts(1, 65), 0.0, 1), 0.030)
        with planted.training():
            for step, (tokens,) in enumerate(data.batches(8, data.texts(8 * 100, 65))):
                logits = model(tokens[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if log.isEnabledFor(logging.DEBUG):
                    describe(step, tokens, loss.item(), lines)
        log.removeHandler(handler)
        handler.close()


if __name__ == "__main__":
    main()
