"""Train for several epochs on reviews that are cut into tokens, by Python, each time."""

import random
import re
import zlib

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader, Dataset

length, vocabulary = 64, 256
words = ["the", "a", "it", "was", "very", "not", "film", "plot", "good", "awful", "lovely", "dull"]
pattern = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+(?:\.\d+)?|[^\sa-z\d]")


def encode(text):
    """The first tokens of a text; how many others it has of each goes with the first."""
    ids = [zlib.crc32(token.encode()) % vocabulary for token in pattern.findall(text.lower())]
    counts = [0] * vocabulary
    for token in ids:
        counts[token] += 1
    return torch.tensor([counts.index(max(counts)), *ids[: length - 1]])


class Reviews(Dataset):
    def __init__(self, count):
        chance = random.Random(3)
        self.texts = [" ".join(chance.choices(words, k=5000)) for _ in range(count)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return encode(self.texts[index]), index % 2


def train(loader, epochs=8):
    model = Transformer(classify=2, length=length, width=48)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for tokens, labels in loader:
            loss = F.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    reviews = Reviews(16 * 20)
    with planted.training():
        train(DataLoader(reviews, batch_size=16, shuffle=True))
