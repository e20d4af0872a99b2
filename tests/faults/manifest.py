"""What is wrong with each script, where, and how what it costs is known."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CASES", "SCRIPTS", "Case", "Fault", "Truth"]

SCRIPTS = Path(__file__).parent / "scripts"


class Truth(enum.Enum):
    """How the true share is had."""

    SCRIPT = "script"  # the script times the fault, or the wait it causes, in its own loop
    GC = "gc"  # the garbage collector's own callbacks
    CPU = "cpu"  # CPU time of the training thread with and without the fault
    WALL = "wall"  # wall clock of the loop with and without the fault


@dataclass(frozen=True, slots=True)
class Fault:
    """`places`: "file:function", each a right answer to where it is (cause, or where it costs)."""

    kind: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    script: str
    faults: tuple[Fault, ...]
    truth: Truth = Truth.SCRIPT
    strength: float = 1.0
    quick: bool = False
    needs_bfloat16: bool = False
    level: str = "basic"

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(fault.kind for fault in self.faults)

    @property
    def path(self) -> Path:
        return SCRIPTS / f"{self.script}.py"


def _healthy(script: str, *, quick: bool = False) -> Case:
    return Case(script, (), quick=quick)


def _case(
    script: str,
    kind: str,
    *places: str,
    truth: Truth = Truth.SCRIPT,
    strength: float = 1.0,
    quick: bool = False,
    needs_bfloat16: bool = False,
    level: str = "basic",
) -> Case:
    """`places`: functions of the script, or "lab/file.py:function"."""
    fault = Fault(kind, tuple(_place(script, place) for place in places))
    return Case(script, (fault,), truth, strength, quick, needs_bfloat16, level)


def _two(script: str, **places: str) -> Case:
    return Case(
        script,
        tuple(
            Fault(kind.replace("_", "-"), (_place(script, place),))
            for kind, place in places.items()
        ),
    )


def _place(script: str, place: str) -> str:
    return place if ":" in place else f"{script}.py:{place}"


CASES: tuple[Case, ...] = (
    _healthy("healthy_mlp", quick=True),
    _healthy("healthy_conv"),
    _healthy("healthy_transformer"),
    _healthy("healthy_workers"),
    _healthy("healthy_evaluation"),
    _healthy("healthy_checkpoints"),
    _healthy("healthy_accumulation"),
    _healthy("healthy_gan"),
    _healthy("healthy_stream"),
    _healthy("healthy_recompute"),
    _case("cpu_augment", "input-cpu", "Photos.jitter", quick=True),
    _case("cpu_tokenize", "input-cpu", "Tokenizer.encode", strength=0.7),
    _case("cpu_transforms", "input-cpu", "lab/transforms.py:Elastic.__call__", strength=0.6),
    _case("cpu_csv_stream", "input-cpu", "Rows.parse", strength=0.3),
    _case("cpu_unzip", "input-cpu", "Shards.__getitem__"),
    _case("io_records", "input-io", "Records.load", strength=0.7),
    _case("io_files", "input-io", "read_cold"),
    _case("io_feature_cache", "input-io", "Cache.put"),
    _case("net_store", "input-network", "lab/serve.py:get", "Store.__getitem__", strength=0.8),
    _case("net_http", "input-network", "Bucket.download", strength=0.5),
    _case("net_stream", "input-network", "lab/serve.py:get", "Stream.receive"),
    _case("collate_padding", "input-collate", "make_collate.<locals>.collate", strength=0.5),
    _case("collate_cat", "input-collate", "join"),
    _case("collate_graphs", "input-collate", "Collator.__call__"),
    _case("ipc_numpy", "input-ipc", "train", "as_numpy", "Volumes.__getitem__"),
    _case("ipc_tensors", "input-ipc", "play", "Episodes.__getitem__", strength=0.6),
    _case("startup_epochs", "input-worker-startup", "train", "read_vocabulary"),
    _case("startup_spawn", "input-worker-startup", "main", "loaders"),
    _case("skew_documents", "input-skew", "clean"),
    _case("skew_retries", "input-skew", "Archive.repair"),
    _case("host_batches", "host-overhead", "<module>", "lab/models.py:Mlp.forward",
          truth=Truth.CPU),
    _case("host_cells", "host-overhead", "Gates.cell", "Gates.forward", "<module>",
          truth=Truth.CPU, strength=0.5),
    _case("host_heads", "host-overhead", "LoopedBlock.attend", "LoopedBlock.forward", "<module>",
          truth=Truth.CPU, strength=0.5),
    _case("precision_numpy", "precision", "<module>", "build", "Casting.forward",
          truth=Truth.CPU),
    _case("precision_default", "precision", "lab/config.py:reproducible", "main",
          "lab/models.py:Block.forward", "lab/models.py:Transformer.forward", truth=Truth.CPU),
    _case("precision_float32", "precision", "<module>", "lab/models.py:Mlp.forward",
          truth=Truth.CPU, needs_bfloat16=True, level="detailed"),
    _case("denormals_distill", "denormals", "distance", truth=Truth.CPU),
    _case("denormals_spectrum", "denormals", "LogPower.forward", truth=Truth.CPU),
    _case("layout_nchw", "layout", "<module>", "stage", truth=Truth.CPU),
    _case("layout_permute", "layout", "Block.forward", truth=Truth.CPU),
    _case("recompute_blocks", "recompute", "Frugal.forward", "<module>", truth=Truth.CPU,
          quick=True),
    _case("recompute_segments", "recompute", "Deep.forward", "train", truth=Truth.CPU),
    _case("recompute_encoder", "recompute", "Encoder.run", "Encoder.forward", "main",
          truth=Truth.CPU),
    _case("recompute_stages", "recompute", "Stages.features", "Stages.forward", "<module>",
          truth=Truth.CPU),
    _case("optimizer_adapters", "optimizer", "<module>", truth=Truth.CPU),
    _case("optimizer_handwritten", "optimizer", "Lamb.update", "Lamb.step", "main",
          truth=Truth.CPU),
    _case("python_scores", "python-in-loop", "f1_scores", strength=0.6),
    _case("python_callback", "python-in-loop", "lab/callbacks.py:HardSamples.on_step_end"),
    _case("python_curriculum", "python-in-loop", "main.<locals>.smooth", strength=0.3, quick=True),
    _case("logging_csv", "logging-io", "log"),
    _case("logging_board", "logging-io", "lab/board.py:Board.weights", strength=0.5),
    _case("logging_debug", "logging-io", "describe", "SafeHandler.flush"),
    _case("save_often", "checkpoint-save", "save_checkpoint", strength=0.5, quick=True),
    _case("save_pickle", "checkpoint-save", "BestKeeper.dump"),
    _case("validation_often", "validation", "evaluate", quick=True),
    _case("validation_samples", "validation", "generate", strength=0.6),
    _case("gc_collect", "gc", "free_memory", strength=0.5),
    _case("gc_graph", "gc", "Tidy.__exit__", truth=Truth.GC),
    _case("gil_monitor", "gil", "Monitor.summarise", "Monitor.run", truth=Truth.WALL),
    _case("gil_replay", "gil", "play", "play.<locals>.<listcomp>", truth=Truth.WALL),
    _case("threads_many", "oversubscription", "<module>", "train", truth=Truth.WALL),
    _case("threads_actors", "oversubscription", "learn", "start_actors", "play", "<module>",
          truth=Truth.WALL),
    _two("two_input_and_log", input_cpu="Notes.clean", logging_io="write_log"),
    _two("two_validation_and_save", validation="Experiment.validate",
         checkpoint_save="Experiment.save"),
    _two("two_collate_and_python", input_collate="pad", python_in_loop="count_tokens"),
)  # fmt: skip
