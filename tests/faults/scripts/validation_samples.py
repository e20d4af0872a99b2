"""Train a language model and write a sample text with it, token by token, every few steps."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer


@torch.inference_mode()
def generate(model, prompt, length):
    model.eval()
    tokens = prompt
    with planted.cost("validation"):
        for _ in range(length):
            logits = model(tokens[:, -64:])[:, -1]
            tokens = torch.cat([tokens, logits.softmax(dim=-1).multinomial(1)], dim=1)
    model.train()
    return tokens


def fit(steps=100):
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    often = planted.every(10)
    for step, (tokens,) in enumerate(data.batches(8, data.texts(8 * steps, 65)), start=1):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % often == 0:
            text = generate(model, tokens[:1, :8], 110)
            print(f"step {step}: {text[0, -8:].tolist()}")


torch.set_num_threads(1)
with planted.training():
    fit()
