"""Train on sets that are padded in Python, and count every predicted token in Python too."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer
from torch.utils.data import DataLoader


def pad(samples):
    with planted.cost("input-collate"):
        rows = [[0] * 64 for _ in samples]
        for _ in range(planted.amount(600)):
            for row, sample in zip(rows, samples, strict=True):
                for place, token in enumerate(sample):
                    row[place] = token
    return torch.tensor(rows)


def count_tokens(logits, counts):
    with planted.cost("python-in-loop"):
        for _ in range(planted.amount(75)):
            for row in logits.argmax(dim=2).tolist():
                for token in row:
                    counts[token] = counts.get(token, 0) + 1


def main():
    torch.set_num_threads(1)
    texts = data.texts(8 * 90).tolist()
    loader = DataLoader(texts, batch_size=8, shuffle=True, collate_fn=pad)
    model, counts = Transformer(), {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    with planted.training():
        for tokens in loader:
            logits = model(tokens)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            count_tokens(logits.detach(), counts)


main()
