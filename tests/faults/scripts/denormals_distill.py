"""
Distil confident teachers into a small student, by the distance of the roots of their outputs.

What a confident teacher gives the words it rules out is denormal: below 1.2e-38, where CPUs take
many times longer for a square root.
"""

import planted
import torch
from lab import data
from torch import nn

words = 4096
teachers = 3


def outputs_of_teachers(count, ruled_out):
    """Probabilities (teacher, count, words); the last `ruled_out` words have next to none."""
    logits = torch.randn(teachers, count, words)
    logits[..., words - ruled_out :] -= 92.0
    return logits.softmax(dim=-1)


def distance(student, taught):
    """Hellinger's, to each of the teachers."""
    root = student.softmax(dim=-1).sqrt()
    return sum((root - teacher.sqrt()).square().sum(dim=-1).mean() for teacher in taught)


torch.set_num_threads(1)
features, _ = data.vectors(64 * 8)
taught = outputs_of_teachers(len(features), planted.amount(4000))
student = nn.Sequential(nn.Linear(256, 128), nn.GELU(), nn.Linear(128, words))
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
with planted.training():
    for epoch in range(12):
        for start in range(0, len(features), 64):
            batch = slice(start, start + 64)
            loss = distance(student(features[batch]), taught[:, batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: distance {loss.item():.3f}")
