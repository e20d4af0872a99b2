"""Writes a plan down as an ordinary training script, and says where its faults are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import indent

from tests.faults.generate.drawing import Plan
from tests.faults.generate.planting import ANYWHERE, Parts, plant

__all__ = ["Place", "Program", "render"]

ACCUMULATE = 2

_IMPORTS = (
    ("csv.", "import csv"), ("copy.", "import copy"), ("gc.", "import gc"),
    ("http.server.", "import http.server"), ("mp.", "import multiprocessing as mp"),
    ("os.", "import os"), ("pickle.", "import pickle"), ("socket.", "import socket"),
    ("tempfile.", "import tempfile"), ("threading.", "import threading"),
    ("time.", "import time"), ("urllib.request.", "import urllib.request"),
    ("zlib.", "import zlib"), ("argparse.", "import argparse"), ("", ""),
    ("np.", "import numpy as np"), ("torch.", "import torch"),
    ("F.", "import torch.nn.functional as F"), ("nn.", "from torch import nn"),
    ("checkpoint(", "from torch.utils.checkpoint import checkpoint"),
    ("DataLoader(", "from torch.utils.data import DataLoader"),
    ("Dataset)", "from torch.utils.data import Dataset"),
    ("IterableDataset)", "from torch.utils.data import IterableDataset"),
    ("default_collate(", "from torch.utils.data import default_collate"),
)  # fmt: skip

# In a class these are attributes.
_SHARED = ("model", "optimizer", "second_optimizer", "generator", "teacher", "average", "env",
           "loader", "features", "labels", "models", "optimizers", "log_file", "status",
           )  # fmt: skip

_CLASSES = {
    "mlp": ("self.stem = nn.Linear(64, {w})", "nn.Sequential(nn.Linear({w}, {w}), nn.ReLU())",
            "x = self.stem(x)", ""),
    "embedding": ("self.stem = nn.EmbeddingBag(1000, {w})",
                  "nn.Sequential(nn.Linear({w}, {w}), nn.ReLU())", "x = self.stem(x)", ""),
    "cnn": ("self.stem = nn.Conv2d(3, {w}, 3, padding=1)",
            "nn.Sequential(nn.Conv2d({w}, {w}, 3, padding=1), nn.BatchNorm2d({w}), nn.ReLU())",
            "x = self.stem(x)", "x = x.mean((2, 3))"),
    "transformer": ("self.stem = nn.Embedding(256, {w})",
                    "nn.TransformerEncoderLayer({w}, 4, 4 * {w}, 0.0, batch_first=True)",
                    "x = self.stem(x)", "x = x.mean(1)"),
    "lstm": ("self.stem = nn.Embedding(256, {w})",
             "nn.LSTM({w}, {w}, batch_first=True)", "x = self.stem(x)", "x = x[:, -1]"),
}  # fmt: skip

_INPUTS = {
    "mlp": "torch.randn({n}, 64)",
    "cnn": "torch.randn({n}, 3, 16, 16)",
    "embedding": "torch.randint(1000, ({n}, 16))",
    "transformer": "torch.randint(256, ({n}, 32))",
    "lstm": "torch.randint(256, ({n}, 32))",
}

# How long the thread waited for a CPU: without it, times hold on a machine that others use as well.
_CLOCK = [
    "def queue_seconds():",
    '    with open("/proc/thread-self/schedstat") as file:',
    "        return int(file.read().split()[1]) / 1e9",
    "",
]


@dataclass(frozen=True, slots=True)
class Place:
    """Right answers to where a fault is. `anywhere`: every line of the program is one."""

    lines: tuple[int, ...]
    functions: tuple[str, ...]
    anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    text: str
    places: tuple[Place, ...]  # one for each fault of the plan


def render(plan: Plan, without: Iterable[int] = ()) -> Program:
    """The program with its faults, except those with the given numbers."""
    parts = Parts()
    missing = set(without)
    for number in range(len(plan.faults)):
        plant(plan, number, parts, on=number not in missing)
    if plan.family == "cnn" and all(fault.kind != "layout" for fault in plan.faults):
        parts.after_model += ["model = model.to(memory_format=torch.channels_last)"]
        parts.cast += ".to(memory_format=torch.channels_last)"
    definitions = [*_model(plan, parts), *_dataset(plan, parts), *_shape_helpers(plan)]
    definitions += [*parts.helpers, *_CLOCK]
    text = "\n".join([*definitions, *_layout(plan, parts)])
    return _finished(plan, _imports(text) + "\n\n" + text)


def _model(plan: Plan, parts: Parts) -> list[str]:
    stem, block, first, pool = (part.format(w=plan.width) for part in _CLASSES[plan.family])
    call = parts.block.replace("x = block(x)", "x, _ = block(x)") if plan.family == "lstm" else (
        parts.block
    )  # fmt: skip
    lines = [
        f"class {plan.names['model_class']}(nn.Module):",
        f"    def __init__(self, depth={plan.depth}):",
        "        super().__init__()",
        f"        {stem}",
        f"        self.blocks = nn.ModuleList({block} for _ in range(depth))",
        f"        self.head = nn.Linear({plan.width}, 10)",
        *(f"        {line}" for line in parts.model_init),
        "",
        "    def forward(self, x):",
        f"        {first}",
        "        for block in self.blocks:",
        f"            {call}",
        *([f"        {pool}"] if pool else []),
    ]
    if parts.forward:
        lines += ["        out = self.head(x)", *(f"        {line}" for line in parts.forward)]
        return [*lines, "        return out", ""]
    return [*lines, "        return self.head(x)", ""]


def _dataset(plan: Plan, parts: Parts) -> list[str]:
    if plan.source == "tensors":
        return []
    name, count = plan.names["dataset_class"], _batches(plan)
    samples = plan.source in ("loader", "workers")
    init = ["self.x = x", "self.y = y", *parts.dataset_init]
    if plan.source == "iterable":
        read = [
            "def __iter__(self):",
            f"    for index in range({count}):",
            f"        start = index * {plan.batch} % (len(self.x) - {plan.batch} + 1)",
            f"        x = self.x[start : start + {plan.batch}]",
            *(f"        {line}" for line in parts.item),
            f"        yield x, self.y[start : start + {plan.batch}]",
        ]
    else:
        item = ["x = self.x[index % len(self.x)]"]
        end = "return x, self.y[index % len(self.y)]"
        if not samples:
            item = [f"start = index * {plan.batch} % (len(self.x) - {plan.batch} + 1)",
                    f"x = self.x[start : start + {plan.batch}]"]  # fmt: skip
            end = f"return x, self.y[start : start + {plan.batch}]"
        read = [
            "def __len__(self):",
            f"    return {count * plan.batch if samples else count}",
            "",
            "def __getitem__(self, index):",
            *(f"    {line}" for line in [*item, *parts.item, end]),
        ]
    base = "IterableDataset" if plan.source == "iterable" else "Dataset"
    body = ["def __init__(self, x, y):", *(f"    {line}" for line in init), "", *read, ""]
    body += parts.dataset_methods
    return [f"class {name}({base}):", *(f"    {line}" if line else "" for line in body), ""]


def _shape_helpers(plan: Plan) -> list[str]:
    if plan.shape == "gan":
        size, view = ("64", "") if plan.family == "mlp" else ("768", ".view(-1, 3, 16, 16)")
        return [
            "class Generator(nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            "        self.up = nn.Linear(16, 64)",
            f"        self.out = nn.Linear(64, {size})",
            "",
            "    def forward(self, z):",
            f"        return self.out(F.relu(self.up(z))){view}",
            "",
        ]
    if plan.shape == "rl":
        return [
            "class VectorEnv:",
            "    def __init__(self, count):",
            "        self.state = torch.randn(count, 64)",
            "",
            "    def step(self, actions):",
            "        self.state = 0.9 * self.state.roll(1, 1) + 0.1",
            "        return self.state, (actions % 3).float()",
            "",
        ]
    if plan.shape == "evaluation":
        return [
            "@torch.no_grad()",
            "def held_out_accuracy(model, x, y):",
            "    model.eval()",
            "    right = (model(x).argmax(1) == y).float().mean().item()",
            "    model.train()",
            "    return right",
            "",
        ]
    return []


def _setup(plan: Plan, parts: Parts) -> list[str]:
    """Data, loader, model and optimizer."""
    data = _INPUTS[plan.family].format(n=max(512 if plan.batch < 256 else 0, 2 * plan.batch))
    lines = [f"torch.set_num_threads({parts.threads})", "torch.manual_seed(0)", *parts.setup]
    lines += [f"features = {data}", "labels = torch.randint(10, (len(features),))"]
    if plan.source != "tensors":
        given = {"batch_size": "None"}
        if plan.source in ("loader", "workers"):
            given = {"batch_size": str(plan.batch)}
        if plan.source == "workers":
            given |= {"num_workers": "1", "persistent_workers": "True"}
        given |= parts.loader
        options = ", ".join(f"{key}={value}" for key, value in given.items())
        dataset = f"{plan.names['dataset_class']}(features, labels)"
        lines += [f"loader = DataLoader({dataset}, {options})  {parts.loop_mark}".rstrip()]
    made, mark = plan.names["model_class"] + "()", parts.step_mark
    adam = any(fault.kind == "optimizer" for fault in plan.faults) or plan.index % 2
    optimizer = f"torch.optim.{'AdamW' if adam else 'SGD'}({{}}, lr=1e-3, {parts.optimizer})"
    if plan.shape == "folds":
        lines += [f"models = [{made} for _ in range(2)]"]
        if parts.after_model:
            changed = parts.after_model[0].removeprefix("model = ")
            lines += [f"models = [{changed} for model in models]"]
        each = optimizer.format("model.parameters()")
        return [*lines, f"optimizers = [{each} for model in models]  {mark}".rstrip(),
                *parts.late_setup]  # fmt: skip
    lines += [f"model = {made}", *parts.after_model]
    if plan.shape == "compiled":
        lines += ["model = torch.compile(model)"]
    if plan.shape == "two-optimizers":
        first, second = "model.blocks.parameters()", (
            "[p for name, p in model.named_parameters() if not name.startswith('blocks')]"
        )  # fmt: skip
        lines += [f"optimizer = {optimizer.format(first)}  {mark}".rstrip(),
                  f"second_optimizer = {optimizer.format(second)}  {mark}".rstrip()]  # fmt: skip
    elif plan.shape == "closure":
        lines += ["optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=3)"]
    else:
        lines += [f"optimizer = {optimizer.format('model.parameters()')}  {mark}".rstrip()]
    lines += {
        "gan": ["generator = Generator()" + (".double()" if ".double" in parts.cast else ""),
                f"second_optimizer = {optimizer.format('generator.parameters()')}"],
        "teacher": ["teacher = copy.deepcopy(model).requires_grad_(False)"],
        "ema": ["average = copy.deepcopy(model).requires_grad_(False)"],
        "rl": [f"env = VectorEnv({max(1, plan.batch // 4)})"],
    }.get(plan.shape, [])  # fmt: skip
    return lines + parts.late_setup


def _step(plan: Plan, parts: Parts) -> list[str]:
    """From a batch in `x` and `y` to the step of the optimizer."""
    loss = parts.loss.format(out="model(x)", y="y")
    mark = f"  {parts.step_mark}" if parts.step_mark else ""
    cast = [f"x = x{parts.cast}"] if parts.cast else []
    ending = ["loss.backward()", f"optimizer.step(){mark}"]
    if plan.shape == "closure":
        return [
            *cast,
            "def closure():",
            "    optimizer.zero_grad()",
            f"    loss = {loss}",
            "    loss.backward()",
            "    return loss",
            "loss = optimizer.step(closure)",
        ]
    if plan.shape == "gan":
        dtype = ", dtype=torch.float64" if ".double" in parts.cast else ""
        return [
            *cast,
            f"z = torch.randn(len(x), 16{dtype})",
            "fake = generator(z)",
            "optimizer.zero_grad()",
            "real_loss = F.softplus(-model(x)[:, 0]).mean()",
            "loss = real_loss + F.softplus(model(fake.detach())[:, 0]).mean()",
            *ending,
            "second_optimizer.zero_grad()",
            "generator_loss = F.softplus(-model(fake)[:, 0]).mean()",
            "generator_loss.backward()",
            f"second_optimizer.step(){mark}",
        ]
    if plan.shape == "rl":
        return [
            "states, chosen = [], []",
            "with torch.no_grad():",
            "    for _ in range(4):",
            f"        state = env.state{parts.cast}",
            "        actions = torch.multinomial(model(state).softmax(1), 1)[:, 0]",
            "        states.append(state)",
            "        chosen.append(actions)",
            "        _, reward = env.step(actions)",
            "x, y = torch.cat(states), torch.cat(chosen)",
            "optimizer.zero_grad()",
            f"loss = {loss} * reward.mean()",
            *ending,
        ]
    first = ["optimizer.zero_grad()"]
    if plan.shape == "two-optimizers":
        first += ["second_optimizer.zero_grad()"]
        ending += [f"second_optimizer.step(){mark}"]
    if plan.shape == "ema":
        ending += ["with torch.no_grad():",
                   "    old = list(average.parameters())",
                   "    torch._foreach_lerp_(old, list(model.parameters()), 0.01)"]  # fmt: skip
    if plan.shape == "teacher":
        return [
            *cast,
            *first,
            "with torch.no_grad():",
            "    soft = teacher(x).softmax(1)",
            "out = model(x)",
            f"loss = {parts.loss.format(out='out', y='y')} + F.mse_loss(out.softmax(1), soft)",
            *ending,
        ]
    if plan.shape == "amp":
        return [*cast, *first, 'with torch.autocast("cpu", torch.bfloat16):',
                f"    loss = {loss}", *ending]  # fmt: skip
    return [*cast, *first, f"loss = {loss}", *ending]


def _loop(plan: Plan, parts: Parts, step: list[str]) -> list[str]:
    """All epochs; the time is taken from the second on."""
    mark = f"  {parts.loop_mark}" if parts.loop_mark else ""
    after = ["step += 1", *parts.after]
    count = _batches(plan)
    if plan.shape == "rl":
        head, body = f"for _ in range({count}):", [*step, *after]
    elif plan.source == "tensors":
        head = f"for number in range({count}):"
        body = [
            f"start = number * {plan.batch} % (len(features) - {plan.batch} + 1)",
            f"x = features[start : start + {plan.batch}]",
            f"y = labels[start : start + {plan.batch}]",
            *step,
            *after,
        ]
    else:
        batch = "x, y, extra" if parts.extra_item else "x, y"
        head, body = f"for {batch} in loader:{mark}", [*step, *after]
        if plan.shape == "accumulation":
            head = f"for number, ({batch}) in enumerate(loader):{mark}"
    if plan.shape == "accumulation":
        at = next(i for i, line in enumerate(body) if line.startswith("optimizer.zero_grad"))
        zero = body.pop(at)
        at = next(i for i, line in enumerate(body) if line.startswith("optimizer.step"))
        ending = [body[at], zero, *body[at + 1 :]]
        body = [line.replace("loss = ", "loss = 0.5 * ") for line in body[:at]]
        body += [f"if number % {ACCUMULATE} == {ACCUMULATE - 1}:", *_in(ending)]
    inner = [head, *_in(body)]
    if plan.shape == "folds":
        inner = ["for model, optimizer in zip(models, optimizers):", *_in(inner)]
    if plan.shape == "evaluation":
        inner += ["print(epoch, held_out_accuracy(model, x, y))"]
    return [
        "step = 0",
        f"for epoch in range({plan.epochs}):",
        "    if epoch == 1:",
        "        first, began, queued = step, time.perf_counter(), queue_seconds()",
        *_in(inner),
        "seconds = time.perf_counter() - began",
        "queued = queue_seconds() - queued",
        *parts.teardown,
        "count = step - first",
        'print(f"{step} steps, {1000 * seconds / count:.5f} ms a step, "',
        '      f"{1000 * queued / count:.5f} ms of it in the run queue")',
    ]


def _layout(plan: Plan, parts: Parts) -> list[str]:
    """Setup and loop in a function, in a class, or at the top of the module."""
    setup, step, names = _setup(plan, parts), _step(plan, parts), plan.names
    definitions: list[str] = []
    splits = plan.split and plan.shape not in ("accumulation", "folds", "rl")
    if splits:
        used = [name for name in _SHARED if any(re.search(rf"\b{name}\b", s) for s in step)]
        if plan.layout == "class":
            used = []
        definitions = [f"def {names['step']}({', '.join([*used, 'x', 'y'])}):",
                       *_in(step), "    return loss", ""]  # fmt: skip
        step = [f"loss = {names['step']}({', '.join([*used, 'x', 'y'])})"]
    loop = _loop(plan, parts, step)
    if plan.layout == "class":
        if splits:
            definitions[0] = definitions[0].replace("(x, y)", "(self, x, y)")
            loop = [
                line.replace(f"= {names['step']}(", f"= self.{names['step']}(") for line in loop
            ]
        methods = [
            "def __init__(self):", *_in(setup), "",
            *definitions,
            f"def {names['train']}(self):", *_in(loop), "",
        ]  # fmt: skip
        shared = rf"(?<![\w.])({'|'.join(_SHARED)})\b(?!=)"
        local = {"model", "optimizer"} if plan.shape == "folds" else set[str]()
        methods = [
            re.sub(shared, lambda m: m[0] if m[1] in local else f"self.{m[1]}", line)
            for line in methods
        ]
        return [f"class {names['trainer_class']}:", *_in(methods), *_main(
            plan, f"{names['trainer_class']}().{names['train']}()")]  # fmt: skip
    if plan.layout == "function":
        return [*definitions, f"def {names['train']}():", *_in([*setup, *loop]), "",
                *_main(plan, f"{names['train']}()")]  # fmt: skip
    return [*definitions, *setup, "", *loop]


def _main(plan: Plan, call: str) -> list[str]:
    if plan.index % 3 == 0:
        return ["def main():", f"    {call}", "", 'if __name__ == "__main__":', "    main()"]
    return ['if __name__ == "__main__":', f"    {call}"]


def _batches(plan: Plan) -> int:
    """Batches of an epoch."""
    factor = {"accumulation": ACCUMULATE, "folds": 0.5}.get(plan.shape, 1)
    return int(plan.steps_per_epoch * factor)


def _in(lines: Iterable[str]) -> list[str]:
    return [indent(line, "    ") for line in lines]


def _imports(text: str) -> str:
    wanted = [
        line for use, line in _IMPORTS if not use or re.search(rf"(?<![\w.]){re.escape(use)}", text)
    ]
    return "\n".join(wanted)


def _finished(plan: Plan, text: str) -> Program:
    """Take the marks out, and look up the functions around them."""
    marks: list[tuple[int, str, int]] = []
    lines = []
    for line_number, line in enumerate(text.split("\n"), 1):
        found = re.search(r"\s*#([@!])(\d)$", line)
        if found:
            marks.append((line_number, found[1], int(found[2])))
            line = line[: found.start()]
        lines.append(line)
    text = "\n".join(lines) + "\n"
    functions = _functions(ast.parse(text))
    places = []
    for number, fault in enumerate(plan.faults):
        own = [(line, form) for line, form, of in marks if of == number]
        inside = {_around(line, functions) for line, form in own if form == "@"}
        places.append(
            Place(tuple(line for line, _ in own), tuple(sorted(inside)), fault.kind in ANYWHERE)
        )
    return Program(text, tuple(places))


def _functions(tree: ast.AST, prefix: str = "") -> list[tuple[int, int, str]]:
    """First line, last line and qualified name of every function, outer ones first."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            name = prefix + node.name
            found.append((node.lineno, node.end_lineno or node.lineno, name))
            found += _functions(node, f"{name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            found += _functions(node, f"{prefix}{node.name}.")
        else:
            found += _functions(node, prefix)
    return found


def _around(line: int, functions: list[tuple[int, int, str]]) -> str:
    inside = [name for first, last, name in functions if first <= line <= last]
    return inside[-1] if inside else "<module>"
