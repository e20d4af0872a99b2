"""Train on small graphs; a collator class fills their adjacency matrices edge by edge."""

import itertools

import planted
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

nodes = 48


class Graphs(Dataset):
    def __init__(self, count, edges):
        self.count = count
        self.edges = torch.randint(nodes, (32, edges, 2)).tolist()
        self.features = torch.randn(32, nodes, 128)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.edges[index % 32], self.features[index % 32], index % 2


class Collator:
    def __init__(self, normalise=True):
        self.normalise = normalise

    def __call__(self, samples):
        graphs = torch.eye(nodes).repeat(len(samples), 1, 1)
        with planted.cost("input-collate"):
            for graph, (edges, _, _) in zip(graphs, samples, strict=True):
                for source, target in edges:
                    graph[source, target] = 1.0
        if self.normalise:
            graphs = graphs / graphs.sum(dim=2, keepdim=True)
        features = torch.stack([features for _, features, _ in samples])
        return graphs, features, torch.tensor([label for *_, label in samples])


class GraphNet(nn.Module):
    def __init__(self, width=320):
        super().__init__()
        sizes = [128, width, width, width]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.head = nn.Linear(width, 2)

    def forward(self, graphs, x):
        for layer in self.layers:
            x = F.relu(graphs @ layer(x))
        return self.head(x.mean(dim=1))


torch.set_num_threads(1)
model = GraphNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(Graphs(16 * 100, planted.amount(280)), batch_size=16, collate_fn=Collator())
with planted.training():
    for graphs, features, labels in loader:
        loss = F.cross_entropy(model(graphs, features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
