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
                key = step % 64 * 1000 + place
                self.history[key] = 0.5 * self.history.get(key, 0.0) + loss
            ranked = sorted(self.history, key=lambda key: -round(self.history[key], 3))
            self.hardest = ranked[: self.most]
