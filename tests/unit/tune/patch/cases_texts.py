"""Files with other line ends, encodings and indents."""

from __future__ import annotations

from tests.unit.tune.patch.cases_calls import WORKERS
from tests.unit.tune.patch.programs import Case

__all__ = ["TEXTS"]

IMPORT = "from torch.utils.data import DataLoader\n"
TEXTS = [
    Case(
        "tabs",
        IMPORT + "class Data:\n\tdef loader(self, n=0):\n"
        "\t\treturn DataLoader(\n\t\t\t[1],\n\t\t\tnum_workers=n,\n\t\t)\nData().loader()\n",
        wants=WORKERS,
        contains="\t\t\tnum_workers=2,\n\t\t)\n",
    ),
    Case(
        "line ends of Windows",
        (IMPORT + "loader = DataLoader(\n    [1],\n    batch_size=4,\n)\n").replace("\n", "\r\n"),
        wants=WORKERS,
        contains="    batch_size=4,\r\n    num_workers=2,\r\n)\r\n",
    ),
    Case(
        "no newline at the end", IMPORT + "loader = DataLoader([1], num_workers=0)", wants=WORKERS
    ),
    Case(
        "Latin-1",
        "# -*- coding: latin-1 -*-\nfrom torch.utils.data import DataLoader\n"
        "name = 'é'  # ü\nprint(len(name))\nloader = DataLoader([1])  # für\n".encode("latin-1"),
        wants=WORKERS,
    ),
    Case(
        "a byte order mark",
        ("\ufeff" + IMPORT + "loader = DataLoader([1])  # für → ∀\n").encode(),
        wants=WORKERS,
    ),
    Case(
        "a form feed and a line separator in a text",
        IMPORT + "\x0c\nname = 'a\u2028b'\nprint(len(name))\nloader = DataLoader([1])\n",
        wants=WORKERS,
    ),
]
