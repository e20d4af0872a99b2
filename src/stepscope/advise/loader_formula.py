"""Worker counts from averages over the processes: where the pipeline was not looked into."""

from __future__ import annotations

from stepscope.advise.gain import decidable
from stepscope.advise.throughput import LoaderCosts, best_workers, throughput
from stepscope.model.finding import Finding, Recommendation

__all__ = ["IPC_BOUND_S", "ITERABLE_RISK", "MOST_WORKERS", "WORTH_IT", "workers_by_formula"]

# Sending a batch to the training process was not measured. At best it costs nothing; the slowest
# form on record, numpy arrays out of collate, took 8.2 ms for 3 MB.
IPC_BOUND_S = 0.0082
# How far the model was off where workers really burn CPU beside other load.
_MODEL_ERROR = 0.3
WORTH_IT = 1.03
MOST_WORKERS = 16
ITERABLE_RISK = "The dataset is iterable: workers repeat each other's samples unless it shards."


def workers_by_formula(finding: Finding) -> Recommendation | None:
    """Workers, where the model of throughput says they help; None: each batch has to cost less."""
    measures = finding.measures
    costs = _costs(finding)
    if costs is None:
        return _workers_unquantified(finding) if not measures.get("workers") else None
    now = _per_second_now(finding)
    limit = max(1, int(2 * costs.cores)) if finding.kind == "input-cpu" else MOST_WORKERS
    workers = best_workers(costs, limit)
    high = throughput(costs, workers) / now
    if high < WORTH_IT or workers == measures.get("workers"):
        return None
    low = throughput(_at_worst(finding, costs), workers) / now / (1 + _MODEL_ERROR)
    if low < 1:
        return None  # it may lose: batches so quick that sending them eats up the gain, say
    return Recommendation(
        title=f"Let {workers} worker{'s' * (workers > 1)} prepare batches while the model computes",
        action=f"DataLoader(..., num_workers={workers}, persistent_workers=True)",
        expected_speedup=decidable((low, high)),
        risk=ITERABLE_RISK if measures.get("iterable") else "",
    )


def _costs(finding: Finding) -> LoaderCosts | None:
    """What a batch costs by what was measured; None: too little was."""
    m = finding.measures
    needed = ("busy_share", "cpu_count", "workers")
    if not m.get("batches_per_step") or any(name not in m for name in needed):
        return None
    ranks = m.get("ranks", 1.0)
    batch_s = m["step_ms"] / 1e3 / m["batches_per_step"]
    input_s = m["input_ms"] / 1e3 / m["batches_per_step"]
    main_s = batch_s - input_s
    main_cpu_s = main_s  # at best: one CPU, where it was not measured
    if "program_cpu_cores" in m:
        main_cpu_s = m["program_cpu_cores"] * batch_s / ranks
    if m["workers"] == 0:
        cpu_s, blocked_s = input_s * m["busy_share"], input_s * (1 - m["busy_share"])
        main_cpu_s -= cpu_s if "program_cpu_cores" in m else 0.0
    else:
        cpu_s = m.get("children_cpu_cores", 0.0) * batch_s / ranks
        blocked_s = m["workers"] * batch_s * (1 - m["busy_share"])
    return LoaderCosts(
        worker_cpu_s=cpu_s,
        worker_blocked_s=blocked_s,
        main_s=main_s,
        main_cpu_s=max(0.0, main_cpu_s),
        cores=m["cpu_count"] / ranks,
    )


def _at_worst(finding: Finding, costs: LoaderCosts) -> LoaderCosts:
    """The same with what was not measured at its worst: sending batches, and CPUs in use."""
    worst = costs._replace(serialise_s=IPC_BOUND_S / 2, unpickle_s=IPC_BOUND_S / 2)
    if "program_cpu_cores" in finding.measures:
        return worst
    return worst._replace(main_cpu_s=costs.cores * costs.main_s)


def _per_second_now(finding: Finding) -> float:
    return finding.measures["batches_per_step"] / finding.measures["step_ms"] * 1e3


def _workers_unquantified(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Let workers prepare batches while the model computes",
        action="DataLoader(..., num_workers=2, persistent_workers=True), then measure again",
        risk=ITERABLE_RISK if finding.measures.get("iterable") else "",
    )
