"""
The text of each fault: what it puts into which part of a program.

A line that ends in `#@` is the place of the fault, and so is the function around it. A line that
ends in `#!` is a right answer only as a line (a call of the function that is slow). The marks are
taken out before the program is written (rendering.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from tests.faults.generate.drawing import Fault, Plan

__all__ = ["ANYWHERE", "Parts", "plant"]

# The whole program is slower, and no line of it more than the others.
ANYWHERE = {"precision", "oversubscription", "layout"}
# Estimated costs on one quiet core.
PYTHON_MS = 6e-5  # a pass through a short loop
FSYNC_MS = 1.0
COLLECT_MS = 40.0
COLD_READ_BYTES_PER_MS = 1e6
DENORMAL_MS = 1.9e-5  # root of one
PIPE_MS_PER_MB = 1.0


@dataclass
class Parts:
    """What faults add to a program, by where it goes. Texts are lists of lines."""

    helpers: list[str] = field(default_factory=list)  # functions and classes of the module
    setup: list[str] = field(default_factory=list)  # before the model is built
    late_setup: list[str] = field(default_factory=list)  # before the loop
    dataset_init: list[str] = field(default_factory=list)
    dataset_methods: list[str] = field(default_factory=list)
    item: list[str] = field(default_factory=list)  # in __getitem__, with `x` and `index`
    model_init: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)  # with the logits in `out`
    block: str = "x = block(x)"
    optimizer: str = "fused=True"
    loader: dict[str, str] = field(default_factory=dict)  # arguments of the DataLoader
    extra_item: bool = False  # batches have a third part
    cast: str = ""  # what is called on x in the step
    after_model: list[str] = field(default_factory=list)
    loss: str = "F.cross_entropy({out}, {y})"
    after: list[str] = field(default_factory=list)  # after a step, with `step` and `loss`
    teardown: list[str] = field(default_factory=list)
    threads: str = "1"
    loop_mark: str = ""
    step_mark: str = ""


def plant(plan: Plan, number: int, parts: Parts, *, on: bool) -> None:
    """Add fault `number` of the plan, or what a healthy program has in its place."""
    fault, own, default = plan.faults[number], Parts(), Parts()
    _PLANTERS[fault.kind](plan, fault, own, on)
    for name in (one.name for one in fields(Parts)):
        value = getattr(own, name)
        if isinstance(value, list):
            getattr(parts, name).extend(_numbered(line, number) for line in value)
        elif isinstance(value, dict):
            getattr(parts, name).update(value)
        elif value != getattr(default, name):
            setattr(parts, name, _numbered(value, number) if isinstance(value, str) else value)


def _numbered(line: str, number: int) -> str:
    return line + str(number) if line.endswith(("#@", "#!")) else line


def _input_cpu(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    name, call_ms = plan.names["transform"], _call_ms(plan, fault)
    parts.item += [f"x = self.{name}(x)  #!"]
    if fault.variant == "python":
        parts.dataset_methods += [
            f"def {name}(self, x):",
            "    code = 0",
            f"    for k in range({_count(call_ms / PYTHON_MS)}):  #@",
            "        code = (code * 31 + k) % 1009  #@",
            "    return x if code else x.clone()",
        ]
    elif fault.variant == "torch":
        parts.dataset_methods += [
            f"def {name}(self, x):",
            f"    for shift in range({_count(call_ms / 0.008)}):  #@",
            "        x = x.roll(shift % 3 - 1, -1)  #@",
            "    return x",
        ]
    else:
        parts.dataset_init += ["self.packed = zlib.compress(bytes(range(256)) * 40)"]
        parts.dataset_methods += [
            f"def {name}(self, x):",
            f"    for _ in range({_count(call_ms / 0.012)}):  #@",
            "        raw = zlib.decompress(self.packed)  #@",
            "    return x if raw else x.clone()",
        ]


def _input_io(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    name, call_ms = plan.names["transform"], _call_ms(plan, fault)
    per_sample = plan.source in ("loader", "workers")
    parts.dataset_init += ["self.folder = tempfile.TemporaryDirectory()"]
    parts.item += [f"x = self.{name}(x, index)  #!"]
    if fault.variant == "cache" and not per_sample:
        parts.dataset_methods += [
            f"def {name}(self, x, index):",
            f"    for part in range({_count(call_ms / FSYNC_MS)}):",
            '        path = os.path.join(self.folder.name, f"{index}-{part}.npy")',
            '        with open(path, "wb") as file:  #@',
            "            np.save(file, x.numpy())  #@",
            "            file.flush()  #@",
            "            os.fsync(file.fileno())  #@",
            "    return x",
        ]
        return
    count = max(1, round(call_ms * COLD_READ_BYTES_PER_MS / (1 << 20)))
    size = max(1 << 14, min(1 << 20, int(call_ms * COLD_READ_BYTES_PER_MS / count)))
    parts.dataset_init += [
        "self.files = []",
        "for number in range(24):",
        '    self.files.append(os.path.join(self.folder.name, f"{number}.bin"))',
        '    with open(self.files[-1], "wb") as file:',
        "        file.write(os.urandom(1 << 20))",
        "        file.flush()",
        "        os.fsync(file.fileno())",
    ]
    parts.dataset_methods += [
        f"def {name}(self, x, index):",
        f"    for part in range({count}):",
        "        file = os.open(self.files[(index + 7 * part) % 24], os.O_RDONLY)  #@",
        "        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)  #@",
        f"        raw = os.read(file, {size})  #@",
        "        os.close(file)  #@",
        "    return x if raw else x.clone()",
    ]


def _input_network(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    name, call_ms = plan.names["transform"], _call_ms(plan, fault)
    parts.item += [f"x = self.{name}(x, index)  #!"]
    if fault.variant == "http" and call_ms > 3:
        parts.helpers += [
            "class Handler(http.server.BaseHTTPRequestHandler):",
            "    def do_GET(self):",
            f"        time.sleep({max(0.0, call_ms - 2) / 1000:.6f})",
            "        self.send_response(200)",
            '        self.send_header("Content-Length", "4096")',
            "        self.end_headers()",
            "        self.wfile.write(bytes(4096))",
            "",
            "    def log_message(self, *args):",
            "        pass",
            "",
        ]
        parts.dataset_init += [
            'server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)',
            'self.url = f"http://127.0.0.1:{server.server_port}"',
            "mp.Process(target=server.serve_forever, daemon=True).start()",
        ]
        parts.dataset_methods += [
            f"def {name}(self, x, index):",
            '    with urllib.request.urlopen(f"{self.url}/{index}") as answer:  #@',
            "        raw = answer.read()  #@",
            "    return x if raw else x.clone()",
        ]
        return
    parts.helpers += [
        "def answer(connection):",
        "    while connection.recv(16):",
        f"        time.sleep({max(0.0, call_ms - 0.15) / 1000:.6f})",
        "        connection.sendall(bytes(1024))",
        "",
        "def serve(server):",
        "    while True:",
        "        connection, _ = server.accept()",
        "        threading.Thread(target=answer, args=(connection,), daemon=True).start()",
        "",
    ]
    parts.dataset_init += [
        'server = socket.create_server(("127.0.0.1", 0))',
        "mp.Process(target=serve, args=(server,), daemon=True).start()",
        "self.address, self.connection = server.getsockname(), None",
    ]
    parts.dataset_methods += [
        f"def {name}(self, x, index):",
        "    if self.connection is None:",
        "        self.connection = socket.create_connection(self.address)",
        '    self.connection.sendall(b"%16d" % index)  #@',
        "    raw = self.connection.recv(1024)  #@",
        "    return x if raw else x.clone()",
    ]


def _input_collate(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    sample_ms = _batch_ms(plan, fault) / plan.batch
    parts.loader["collate_fn"] = "collate"
    if fault.variant == "padding":
        parts.helpers += [
            "def collate(samples):",
            "    rows = []",
            "    for x, _ in samples:",
            "        values = []",
            f"        for k in range({_count(sample_ms / PYTHON_MS)}):  #@",
            "            values.append(k % 7)  #@",
            "        rows.append(x)",
            "    return torch.stack(rows), torch.tensor([int(y) for _, y in samples])",
            "",
        ]
    else:
        parts.helpers += [
            "def collate(samples):",
            "    xs = torch.stack([x for x, _ in samples])",
            "    for x, _ in samples:",
            f"        for _ in range({_count(sample_ms / 0.01)}):  #@",
            "            x = torch.cat([x[:1], x[1:]])  #@",
            "    return xs, torch.tensor([int(y) for _, y in samples])",
            "",
        ]


def _input_ipc(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    parts.extra_item = True
    batch_ms = plan.step_ms * fault.gain
    if fault.variant == "numpy":
        size = _count(batch_ms / PIPE_MS_PER_MB) << 18 if on else 16
        parts.helpers += [
            f"features = np.random.rand({size}).astype(np.float32)",
            "",
            "def collate(samples):",
            "    x, y = default_collate(samples)",
            "    return x, y, features  #@",
            "",
        ]
    else:
        count = min(150, _count(batch_ms / 0.15)) if on else 1
        parts.helpers += [
            "def collate(samples):",
            "    x, y = default_collate(samples)",
            f"    return x, y, [torch.zeros(2048) for _ in range({count})]  #@",
            "",
        ]
    parts.loader["collate_fn"] = "collate"
    parts.loop_mark = "#@"


def _input_worker_startup(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if fault.variant == "vocabulary":
        parts.helpers += [
            "vocabulary = {}",
            "",
            "def init_worker(worker):",
            "    for k in range(200_000):  #@",
            '        vocabulary[f"word{k}"] = k  #@',
            "",
        ]
        parts.loader["worker_init_fn"] = "init_worker"
    if on:
        parts.loader["persistent_workers"] = "False"
        parts.loop_mark = "#@"


def _input_skew(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    name = plan.names["transform"]
    rare = max(40, 3 * plan.batch)
    slow_ms = plan.extra_ms(fault) * rare / plan.batch
    parts.item += [f"if index % {rare} == 7:", f"    x = self.{name}(x)  #!"]
    parts.dataset_methods += [
        f"def {name}(self, x):",
        "    seen = {}",
        f"    for k in range({_count(slow_ms / PYTHON_MS)}):  #@",
        "        seen[k % 97] = k  #@",
        "    return x if seen else x.clone()",
    ]


def _python_in_loop(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    name, extra = plan.names["helper"], plan.extra_ms(fault)
    if fault.variant == "inline":
        parts.after += [
            "hits = 0",
            f"for k in range({_count(extra / PYTHON_MS)}):  #@",
            "    hits += k % 7 == step % 7  #@",
        ]
        return
    bodies = {
        "scores": [
            "    counts = {}",
            f"    for k in range({_count(extra / PYTHON_MS)}):  #@",
            "        counts[k % 10] = k  #@",
            "    return len(counts) + step",
        ],
        "sleep": [f"    time.sleep({extra / 1000:.6f})  #@", "    return step"],
        "history": [
            f"    values = [(k * 7919 + step) % 1009 for k in range({_count(extra / 2e-4)})]  #@",
            "    values.sort()  #@",
            "    return values[len(values) // 2]",
        ],
    }
    parts.helpers += [f"def {name}(step):", *bodies[fault.variant], ""]
    parts.after += [f"{name}(step)  #!"]


def _logging_io(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    name, extra = plan.names["second_helper"], plan.extra_ms(fault)
    parts.late_setup += ['log_file = open("train_log.csv", "w")']
    if fault.variant == "csv":
        rows, every = _count(extra / FSYNC_MS), max(1, round(FSYNC_MS / extra))
        parts.helpers += [
            f"def {name}(file, step, loss):",
            "    writer = csv.writer(file)",
            f"    for part in range({rows}):  #@",
            "        writer.writerow([step, part, float(loss)])  #@",
            "        file.flush()  #@",
            "        os.fsync(file.fileno())  #@",
            "",
        ]
        parts.after += _every(every, plan, f"{name}(log_file, step, loss)  #!")
        return
    parts.helpers += [
        f"def {name}(file, step, loss):",
        f"    for part in range({_count(extra / 0.004)}):  #@",
        '        print(f"{step} {part} loss {float(loss):.4f}", file=file, flush=True)  #@',
        "",
    ]
    parts.after += [f"{name}(log_file, step, loss)  #!"]


def _checkpoint_save(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    parameters = {"cnn": 9}.get(plan.family, 1) * plan.width * (plan.width * plan.depth + 64)
    if plan.family in ("transformer", "lstm"):
        parameters = 8 * plan.width * plan.width * plan.depth + 256 * plan.width
    save_ms = 1.5 + parameters * 12 / 4e5
    if fault.variant == "state":
        body = ['    state = {"model": model.state_dict(), "step": step}',
                '    torch.save(state, "checkpoint.pt")  #@']  # fmt: skip
    else:
        body = ['    with open("checkpoint.pkl", "wb") as file:  #@',
                "        pickle.dump(model.state_dict(), file)  #@"]  # fmt: skip
    parts.helpers += ["def save_checkpoint(model, step):", *body, ""]
    every = max(1, round(save_ms / plan.extra_ms(fault)))
    parts.after += _every(every, plan, "save_checkpoint(model, step)  #!")


def _validation(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    name, wanted = plan.names["evaluate"], (fault.gain - 1) / 0.35
    batches = max(2, math.ceil(wanted))
    parts.helpers += [
        f"def {name}(model, x, y):",
        "    model.eval()",
        "    correct = 0",
        "    with torch.no_grad():",
        f"        for _ in range({batches}):  #@",
        "            correct += (model(x).argmax(1) == y).sum().item()  #@",
        "    model.train()",
        f"    return correct / ({batches} * len(y))",
        "",
    ]
    parts.after += _every(round(batches / wanted), plan, f"accuracy = {name}(model, x, y)  #!")


def _gc(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    every = max(1, round(COLLECT_MS / plan.extra_ms(fault)))
    if fault.variant == "helper":
        parts.helpers += ["def free_memory():", "    gc.collect()  #@", ""]
    call = "free_memory()  #!" if fault.variant == "helper" else "gc.collect()  #@"
    parts.after += _every(every, plan, call)


def _gil(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    busy = min(0.95, 1 - 1 / fault.gain)
    parts.helpers += [
        "class StatusThread(threading.Thread):",
        "    def __init__(self):",
        "        super().__init__(daemon=True)",
        "        self.summary, self.running = {}, True",
        "",
        "    def run(self):",
        "        while self.running:",
        f"            until = time.perf_counter() + {0.02 * busy:.4f}",
        "            while time.perf_counter() < until:  #@",
        "                for k in range(200):  #@",
        "                    self.summary[k % 50] = k  #@",
        f"            time.sleep({0.02 * (1 - busy):.4f})",
        "",
    ]
    parts.late_setup += ["status = StatusThread()", "status.start()"]
    parts.teardown += ["status.running = False"]


def _oversubscription(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    parts.threads = "4 * os.cpu_count()" if on else "os.cpu_count()"


def _precision(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        return
    if fault.variant == "default":
        parts.setup += ["torch.set_default_dtype(torch.float64)"]
    else:
        parts.after_model += ["model = model.double()"]
    parts.cast = "" if plan.family == "transformer" else ".double()"


def _denormals(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    size, value = _count(plan.extra_ms(fault) / DENORMAL_MS), "1e-40" if on else "1e-4"
    parts.model_init += [f'self.register_buffer("power", torch.full(({size},), {value}))']
    parts.forward += ["out = out + torch.sqrt(self.power).mean()  #@"]


def _layout(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if not on:
        parts.after_model += ["model = model.to(memory_format=torch.channels_last)"]
        parts.cast = ".to(memory_format=torch.channels_last)"


def _recompute(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    if on:
        parts.block = "x = checkpoint(block, x, use_reentrant=False)  #@"
        parts.step_mark = "#!"


def _optimizer(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    count = max(20, min(400, _count(plan.extra_ms(fault) / 0.03)))
    scales = f"nn.Parameter(torch.zeros(10)) for _ in range({count})"
    parts.model_init += [f"self.scales = nn.ParameterList({scales})"]
    parts.forward += ["out = out + torch.stack(tuple(self.scales)).mean(0)"]
    if on:
        parts.optimizer = "foreach=False"
        parts.step_mark = "#@"


def _host_overhead(plan: Plan, fault: Fault, parts: Parts, on: bool) -> None:
    calls = plan.extra_ms(fault) / 0.04
    if fault.variant == "terms" or calls > plan.batch:
        count = _count(plan.extra_ms(fault) / 0.012)
        parts.model_init += [f"self.terms = nn.Parameter(torch.zeros({count}, 10))"]
        parts.forward += (
            ["for term in self.terms:", "    out = out + term  #@"]
            if on
            else ["out = out + self.terms.sum(0)"]
        )
    elif on:
        size = _count(plan.batch / max(1.0, calls))
        parts.helpers += [
            "def sample_loss(out, y):",
            "    losses = []",
            f"    for part, target in zip(out.split({size}), y.split({size})):",
            '        losses.append(F.cross_entropy(part, target, reduction="sum"))  #@',
            "    return torch.stack(losses).sum() / len(y)",
            "",
        ]
        parts.loss = "sample_loss({out}, {y})"


_PLANTERS: Mapping[str, Callable[[Plan, Fault, Parts, bool], None]] = {
    "input-cpu": _input_cpu,
    "input-io": _input_io,
    "input-network": _input_network,
    "input-collate": _input_collate,
    "input-ipc": _input_ipc,
    "input-worker-startup": _input_worker_startup,
    "input-skew": _input_skew,
    "python-in-loop": _python_in_loop,
    "logging-io": _logging_io,
    "checkpoint-save": _checkpoint_save,
    "validation": _validation,
    "gc": _gc,
    "gil": _gil,
    "oversubscription": _oversubscription,
    "precision": _precision,
    "denormals": _denormals,
    "layout": _layout,
    "recompute": _recompute,
    "optimizer": _optimizer,
    "host-overhead": _host_overhead,
}


def _count(amount: float) -> int:
    return max(1, round(amount))


def _every(steps: int, plan: Plan, call: str) -> list[str]:
    """Often enough that a run has several."""
    steps = min(steps, max(1, plan.steps_per_epoch // 2))
    return [call] if steps <= 1 else [f"if step % {steps} == 0:", f"    {call}"]


def _batch_ms(plan: Plan, fault: Fault) -> float:
    """How long loading a batch has to take for the fault to cost what was drawn."""
    # A worker loads while the model trains, so that its first `step_ms` cost nothing.
    return plan.step_ms * fault.gain if plan.source == "workers" else plan.extra_ms(fault)


def _call_ms(plan: Plan, fault: Fault) -> float:
    """The same for one call of __getitem__."""
    per_batch = plan.batch if plan.source in ("loader", "workers") else 1
    return _batch_ms(plan, fault) / per_batch
