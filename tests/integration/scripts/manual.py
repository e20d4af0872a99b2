"""Gradient descent by hand: no module, no optimizer, no loader."""

import torch

torch.set_num_threads(1)
torch.manual_seed(0)
weight = torch.randn(16, 1, requires_grad=True)
for _ in range(15):
    x = torch.randn(8, 16)
    loss = (x @ weight - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.01 * weight.grad
        weight.grad = None
    print(repr(loss.item()))
