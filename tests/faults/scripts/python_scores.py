"""Train a classifier and score every batch in plain Python: precision, recall, F1 per class."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp


def f1_scores(predicted, actual, classes=10):
    scores = []
    for wanted in range(classes):
        hits = misses = alarms = 0
        for guess, truth in zip(predicted, actual, strict=True):
            if guess == wanted and truth == wanted:
                hits += 1
            elif truth == wanted:
                misses += 1
            elif guess == wanted:
                alarms += 1
        scores.append(2 * hits / max(1, 2 * hits + misses + alarms))
    return scores


def report(logits, labels, rounds):
    with planted.cost("python-in-loop"):
        predicted, actual = logits.argmax(dim=1).tolist(), labels.tolist()
        scores = [0.0]
        for _ in range(rounds):  # bootstrap: the spread of the score
            scores = f1_scores(predicted, actual)
        return sum(scores) / len(scores)


torch.set_num_threads(1)
features, labels = data.vectors(256 * 180)
model = Mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
rounds = planted.amount(90, least=8)
with planted.training():
    for x, y in data.batches(256, features, labels):
        with mixed():
            logits = model(x)
            loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rounds:
            score = report(logits, y, rounds)
