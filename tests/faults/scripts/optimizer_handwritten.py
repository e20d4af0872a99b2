"""Train with an optimizer of our own: the update rule in plain tensor operations."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer


class Lamb(torch.optim.Optimizer):
    """Adam with a trust ratio, with running averages kept for several horizons."""

    def __init__(self, parameters, lr, horizons):
        super().__init__(parameters, {"lr": lr})
        self.horizons = [0.9 + 0.09 * number / horizons for number in range(horizons)]

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.update(parameter, group["lr"])

    def update(self, parameter, lr):
        state = self.state[parameter]
        total = torch.zeros_like(parameter)
        for beta in self.horizons:
            mean, square = state.setdefault(
                beta, (torch.zeros_like(parameter), torch.zeros_like(parameter))
            )
            mean.copy_(mean * beta + parameter.grad * (1 - beta))
            square.copy_(square * beta + parameter.grad**2 * (1 - beta))
            total = total + mean / (square.sqrt() + 1e-6)
        ratio = parameter.norm() / (total.norm() + 1e-6)
        parameter.copy_(parameter - lr * ratio.clamp(max=1.0) * total)


def main():
    torch.set_num_threads(1)
    model = Transformer(depth=3)
    if planted.off:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    else:
        optimizer = Lamb(model.parameters(), 1e-3, horizons=planted.amount(8))
    with planted.training():
        for (tokens,) in data.batches(4, data.texts(4 * 110, 65)):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
