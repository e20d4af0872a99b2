"""Loaders that are made by factories, subclasses and in loops."""

from __future__ import annotations

from tests.unit.tune.patch.cases_calls import FULL, WORKERS
from tests.unit.tune.patch.programs import Case

__all__ = ["FACTORIES"]

FACTORIES = [
    Case(
        "a factory's default",
        """\
from torch.utils.data import DataLoader
def make(data, workers=0):
    return DataLoader(data, num_workers=workers)
make([1])
""",
        wants=WORKERS,
        contains="""\
def make(data, workers=2):
    return DataLoader(data, num_workers=workers)
""",
    ),
    Case(
        "a factory whose callers agree",
        """\
from torch.utils.data import DataLoader
def make(data, workers):
    return DataLoader(data, num_workers=workers)
make([1], 0)
make([2], workers=0)
""",
        wants=WORKERS,
        contains="""\
make([1], 2)
make([2], workers=2)
""",
        note="every loader that make makes",
    ),
    Case(
        "a factory whose callers differ",
        """\
from torch.utils.data import DataLoader
def make(data, workers=0):
    return DataLoader(data, num_workers=workers)
make([1], 4)
make([2])
""",
        refused="make is called with different values of workers",
    ),
    Case(
        "a factory that is told by options",
        """\
from torch.utils.data import DataLoader
class Args:
    workers = 0
def make(data, n):
    return DataLoader(data, num_workers=n)
make([1], Args.workers)
""",
        wants=WORKERS,
        note="num_workers was n",
    ),
    Case(
        "partial",
        """\
from functools import partial
from torch.utils.data import DataLoader
make = partial(DataLoader, batch_size=2, num_workers=0)
loader = make([1])
""",
        wants=WORKERS,
        contains="loader = make([1], num_workers=2)\n",
    ),
    Case(
        "partial with the argument in its place",
        """\
import functools
from torch.utils.data import DataLoader
make = functools.partial(DataLoader, [1], 2, None, None, None, 0)
loader = make()
""",
        refused="where the constructor is wrapped",
    ),
    Case(
        "partial with some arguments in their places",
        """\
import functools
from torch.utils.data import DataLoader
make = functools.partial(DataLoader, [1], 2)
loader = make(None, None, None, 0)
""",
        wants=WORKERS,
        contains="make(None, None, None, 2)",
    ),
    Case(
        "a subclass",
        """\
from torch.utils.data import DataLoader
class Mine(DataLoader):
    def __init__(self, data):
        super().__init__(data, 2, num_workers=0)
Mine([1])
""",
        wants=WORKERS,
        contains="super().__init__(data, 2, num_workers=2)",
    ),
    Case(
        "a subclass with a mixin and self",
        """\
from torch.utils.data import DataLoader
class Mixin: pass
class Mine(Mixin, DataLoader[int]):
    def __init__(self, data):
        DataLoader.__init__(self, data, 2, None, None, None, 0)
Mine([1])
""",
        wants=WORKERS,
        contains="(self, data, 2, None, None, None, 2)",
    ),
    Case(
        "a subclass without a constructor",
        """\
from torch.utils.data import DataLoader
class Mine(DataLoader):
    pass
Mine([1])
""",
        wants=WORKERS,
        contains="Mine([1], num_workers=2)",
    ),
    Case(
        "an unknown name",
        """\
from torch.utils.data import DataLoader
makers = {'a': DataLoader}
loader = makers['a']([1])
""",
        refused="no call of DataLoader by its name",
    ),
    Case(
        "comments and a comma at the end",
        """\
from torch.utils.data import DataLoader
loader = DataLoader(  # for training
    [1],
    # four of them
    batch_size=4,  # small
    # no more
)  # done
""",
        wants=FULL,
        settings=FULL,
        contains="""\
    batch_size=4,  # small
    # no more
    num_workers=2,
    prefetch_factor=4,
    persistent_workers=True,
)  # done
""",
    ),
    Case(
        "one a line without a comma at the end",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1],
                    batch_size=4  # small
                    )
""",
        wants=WORKERS,
        contains="""\
batch_size=4,  # small
                    num_workers=2
                    )
""",
    ),
    Case(
        "several a line",
        """\
from torch.utils.data import DataLoader
loader = DataLoader(
    [1], batch_size=4, shuffle=True  # all
)
""",
        wants=WORKERS,
        contains="""\
    [1], batch_size=4, shuffle=True, num_workers=2  # all
)
""",
    ),
    Case(
        "a nested function",
        """\
from torch.utils.data import DataLoader
def outer():
    n = 0
    def inner():
        return DataLoader([1], num_workers=n)
    return inner()
outer()
""",
        wants=WORKERS,
        contains="    n = 2\n",
    ),
    Case(
        "either of two loaders",
        """\
from torch.utils.data import DataLoader
if len('ab') == 2:
    loader = DataLoader([1], num_workers=0)
else:
    loader = DataLoader([1], num_workers=0)
""",
        wants=WORKERS,
        contains="""\
num_workers=2)
else:
    loader = DataLoader([1], num_workers=0)
""",
    ),
    Case(
        "a list of loaders",
        """\
from torch.utils.data import DataLoader
loaders = [
    DataLoader(data, batch_size=1)
    for data in ([1], [2])
]
""",
        wants=WORKERS,
    ),
    Case(
        "a walrus in a loop",
        """\
from torch.utils.data import DataLoader
for x in (loader := DataLoader([1], 1)):
    print(x)
""",
        wants=WORKERS,
    ),
    Case(
        "a decorator and types",
        """\
from __future__ import annotations
import functools
from torch.utils.data import DataLoader
@functools.lru_cache(maxsize=None)
def make(n: int = 0) -> DataLoader[int]:
    loader: DataLoader[int] = DataLoader([1], num_workers=n)
    return loader
make()
""",
        wants=WORKERS,
        contains="num_workers=2)",
    ),
    Case(
        "a value that is used elsewhere",
        """\
from torch.utils.data import DataLoader

loader = DataLoader([1], num_workers=(n := 1))
print(n)
""",
        refused="num_workers is given at train.py:3 by := and used elsewhere",
    ),
    Case(
        "two loaders on a line",
        """\
from torch.utils.data import DataLoader
a, b = DataLoader([1]), DataLoader([2])
""",
        refused="several loaders are made at train.py:2",
    ),
    Case(
        "a loader in a call",
        """\
from torch.utils.data import DataLoader
pairs = list(zip(DataLoader([1], num_workers=0), range(3)))
print(pairs)
""",
        wants=WORKERS,
    ),
    Case(
        "a lambda",
        """\
from torch.utils.data import DataLoader
make = lambda data, n=0: DataLoader(data, num_workers=n)
make([1])
""",
        wants=WORKERS,
    ),
    Case(
        "no workers any more",
        """\
from torch.utils.data import DataLoader
loader = DataLoader([1], num_workers=4, prefetch_factor=2, persistent_workers=True, timeout=5)
""",
        wants={
            "num_workers": 0,
            "prefetch_factor": None,
            "persistent_workers": False,
            "timeout": 0,
        },
        settings={"num_workers": 0},
    ),
]
