"""The scripts that are tuned: what each is an example of, and where its hand-fixed twin is.

The sizes of the scripts in originals/ were chosen before any of them was tuned; how is in
docs/howto/benchmarks.md.
"""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(1, str(FOLDER.parent))  # for the manifest of the corpus

from tests.faults.manifest import CASES as CORPUS  # noqa: E402
from tests.faults.manifest import SCRIPTS  # noqa: E402

__all__ = ["FOLDER", "HEALTHY", "PAIRS", "SCRIPTS", "Kind", "Pair", "Script"]

ORIGINALS, TWINS = FOLDER / "originals", FOLDER / "twins"
_STRENGTHS = {case.script: case.strength for case in CORPUS}


class Kind(enum.StrEnum):
    """What the specifications promise gains for."""

    LOADING = "loading"
    PREPROCESSING = "preprocessing"
    TRAINING = "training"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Script:
    """A program of the corpus, or one that was made in the same way."""

    path: Path
    strength: float = 1.0

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True, slots=True)
class Pair:
    """A script with a fault, and the same training with the fault fixed by hand.

    allow: what `stepscope tune` may alter besides. tolerance: how far the losses of the two may
    lie apart, as a share: what the fix itself does to them.
    """

    original: Script
    kind: Kind
    allow: tuple[str, ...] = ()
    tolerance: float = 1e-3

    @property
    def name(self) -> str:
        return self.original.name

    @property
    def twin(self) -> Script:
        return Script(TWINS / f"{self.name}.py", self.original.strength)


def _corpus(name: str) -> Script:
    return Script(SCRIPTS / f"{name}.py", _STRENGTHS[name])


def _own(name: str) -> Script:
    return Script(ORIGINALS / f"{name}.py")


PAIRS: tuple[Pair, ...] = (
    Pair(_corpus("net_store"), Kind.LOADING),
    Pair(_corpus("net_http"), Kind.LOADING),
    Pair(_corpus("ipc_numpy"), Kind.LOADING),
    Pair(_corpus("ipc_tensors"), Kind.LOADING),
    Pair(_corpus("startup_epochs"), Kind.LOADING),
    Pair(_own("index_tensors"), Kind.LOADING),
    Pair(_own("decode_again"), Kind.PREPROCESSING),
    Pair(_own("tokenize_again"), Kind.PREPROCESSING),
    Pair(_corpus("gc_collect"), Kind.TRAINING),
    Pair(_corpus("gc_graph"), Kind.TRAINING),
    Pair(_corpus("recompute_blocks"), Kind.TRAINING),
    Pair(_corpus("recompute_segments"), Kind.TRAINING),
    Pair(_corpus("save_often"), Kind.TRAINING),
    Pair(_own("logging_rows"), Kind.TRAINING),
    Pair(_corpus("layout_nchw"), Kind.TRAINING, tolerance=5e-3),  # other kernels round otherwise
    Pair(_corpus("optimizer_adapters"), Kind.TRAINING),
    Pair(_corpus("threads_many"), Kind.TRAINING),
    Pair(_corpus("precision_numpy"), Kind.TRAINING, allow=("precision",), tolerance=0.05),
    Pair(_own("memory_blocks"), Kind.MEMORY),
)
HEALTHY: tuple[Script, ...] = tuple(
    Script(case.path, case.strength) for case in CORPUS if not case.faults
)
