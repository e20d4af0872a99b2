"""Train on texts of different length, padded in a closure, token by token."""

import random

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader


def make_collate(length, rounds):
    def collate(samples):
        longest = torch.zeros(len(samples), length, dtype=torch.long)
        with planted.cost("input-collate"):
            for _ in range(rounds):
                rows = []
                for text, _ in samples:
                    row = [0] * length
                    for place, token in enumerate(text):
                        row[place] = token
                    rows.append(row)
                longest = torch.tensor(rows)
        return longest, torch.tensor([label for _, label in samples])

    return collate


def read_texts(count):
    random.seed(3)
    return [
        ([random.randrange(256) for _ in range(random.randrange(16, 64))], number % 2)
        for number in range(count)
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    collate = make_collate(64, planted.amount(260))
    model = Transformer(classify=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with planted.training():
        for tokens, labels in DataLoader(read_texts(8 * 110), 8, collate_fn=collate):
            loss = F.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
