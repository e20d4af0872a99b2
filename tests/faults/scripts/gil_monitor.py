"""Train while a thread of the same process keeps statistics in plain Python."""

import threading
import time

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer


class Monitor(threading.Thread):
    """Keeps a rolling summary of the run for the status page, as fresh as it can."""

    def __init__(self, busy):
        super().__init__(daemon=True)
        self.busy, self.stopped, self.summary = busy, False, {}

    def run(self):
        while not self.stopped:
            begin = time.perf_counter()
            while time.perf_counter() - begin < 0.02 * self.busy:
                self.summarise()
            time.sleep(0.02 * (1 - self.busy) + 1e-4)

    def summarise(self):
        for number in range(300):
            self.summary[number % 50] = self.summary.get(number % 50, 0.0) * 0.9 + number


def main():
    torch.set_num_threads(1)
    model = Transformer(width=64, depth=3, length=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    monitor = Monitor(planted.strength)
    if not planted.off:
        monitor.start()
    with planted.training():
        for (tokens,) in data.batches(4, data.texts(4 * 60, 33)):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    monitor.stopped = True


if __name__ == "__main__":
    main()
