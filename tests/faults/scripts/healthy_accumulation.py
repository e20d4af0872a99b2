"""Train with gradient accumulation: four small batches make one step."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer

torch.set_num_threads(1)
accumulate = 4
model = Transformer(classify=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
texts = data.texts(8 * 200)
labels = (texts[:, -1] > texts[:, 0]).long()

with planted.training():
    running = torch.zeros(())
    for number, (tokens, y) in enumerate(data.batches(8, texts, labels), start=1):
        loss = F.cross_entropy(model(tokens), y) / accumulate
        loss.backward()
        running += loss.detach()
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
        if number % 80 == 0:
            print(f"batch {number}: loss {running.item() * accumulate / 80:.3f}")
            running.zero_()
