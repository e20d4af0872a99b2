"""Train on notes that are cleaned in Python, and log each step as if the disk were free."""

import json
import os
import tempfile
import unicodedata
from contextlib import ExitStack
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab.models import Transformer
from torch.utils.data import DataLoader, Dataset

note = "Ärztlicher Befund: Größe 1,82 m, Gewicht 80 kg; Naïve Façade — “über” 37,5 °C. "


class Notes(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.clean(planted.amount(70)), index % 2

    def clean(self, repeats):
        with planted.cost("input-cpu"):
            kept = [0]
            for _ in range(repeats):
                plain = unicodedata.normalize("NFKD", note * 2)
                kept = [ord(c) % 256 for c in plain if not unicodedata.combining(c)]
        return torch.tensor((kept * 64)[:64])


def write_log(file, step, tokens, loss, lines):
    with planted.cost("logging-io"):
        for place in range(lines):
            entry = {"step": step, "loss": loss, "tokens": tokens[place % len(tokens)].tolist()}
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())


torch.set_num_threads(1)
model = Transformer(classify=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Notes(8 * 100), batch_size=8)
with (
    tempfile.TemporaryDirectory(dir=os.environ.get("FAULT_DISK")) as folder,
    (Path(folder) / "log.jsonl").open("w") as file,
    ExitStack() as stack,
):
    lines = planted.times(lambda: write_log(file, 0, torch.zeros(1, 64), 0.0, 1), 0.011)
    stack.enter_context(planted.training())
    for step, (tokens, labels) in enumerate(loader):
        loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        write_log(file, step, tokens, loss.item(), lines)
