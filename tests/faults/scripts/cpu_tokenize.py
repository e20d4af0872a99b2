"""Train a classifier on reviews that one loader worker tokenizes with regular expressions."""

import re
import time

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader, Dataset

words = [
    "good",
    "bad",
    "fine",
    "awful",
    "lovely",
    "dull",
    "bright",
    "slow",
    "quick",
    "the",
    "a",
    "it",
    "was",
    "is",
    "very",
    "not",
    "film",
]


class Tokenizer:
    pattern = re.compile(r"(?:[a-z]+(?:'[a-z]+)?)|\d+(?:\.\d+)?|[^\sa-z\d]")

    def __init__(self, passes):
        self.passes = passes

    def encode(self, text, length=64):
        ids = [hash(token) % 256 for token in self.pattern.findall(text[:400].lower())]
        for _ in range(self.passes):  # merges, until none is left
            ids = [hash(token) % 256 for token in self.pattern.findall(text.lower())]
        return torch.tensor((ids + [0] * length)[:length])


class Reviews(Dataset):
    def __init__(self, count, tokenizer):
        self.count, self.tokenizer = count, tokenizer

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        text = " ".join(words[(index * 7 + place * place) % len(words)] for place in range(160))
        return self.tokenizer.encode(text), index % 2


def train(loader):
    model = Transformer(classify=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data_time, end = 0.0, time.perf_counter()
    for tokens, labels in loader:
        data_time += time.perf_counter() - end
        loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
    planted.charge("input-cpu", data_time)
    print(f"{data_time:.1f} s of waiting for data")


if __name__ == "__main__":
    torch.set_num_threads(1)
    reviews = Reviews(8 * 100, Tokenizer(planted.amount(150)))
    with planted.training():
        train(DataLoader(reviews, batch_size=8, num_workers=1))
