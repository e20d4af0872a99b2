"""Callbacks of a trainer: each is told when a step has ended."""

import planted


class Callback:
    def on_step_end(self, step, losses):
        pass


class HardSamples(Callback):
    """Keeps the losses of all samples, sorted, to find the ones that are hard to learn."""

    def __init__(self, most):
        self.most, self.history = most, {}

    def on_step_end(self, step, losses):
        with planted.cost("python-in-loop"):
            for place, loss in enumerate(losses):
                self.history[step % 64, place] = self.history.get((step, place), 0.0) + loss
            ranked = sorted(
                self.history.items(), key=lambda entry: (-round(entry[1], 3), entry[0][1])
            )
            self.hardest = [key for key, _ in ranked[: self.most]]
