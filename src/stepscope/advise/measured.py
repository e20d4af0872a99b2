"""The loader as it was measured from inside, from the figures that a finding carries."""

from __future__ import annotations

from stepscope.advise.simulate import BatchWork, Loader, fitted
from stepscope.model.finding import Finding

__all__ = ["measured_loader"]

_NEEDED = ("worker_cpu_ms", "cpu_count", "workers", "step_ms", "input_ms", "batches_per_step")
_LONGEST = 200  # batches until a slow one comes round


def measured_loader(finding: Finding) -> Loader | None:
    """Beside as much other load as explains the rate that was measured. None: the pipeline was
    not looked into."""
    m = finding.measures
    if any(name not in m for name in _NEEDED) or not m["batches_per_step"]:
        return None
    ranks = m.get("ranks", 1.0)
    batch_s = m["step_ms"] / 1e3 / m["batches_per_step"]
    input_s = m["input_ms"] / 1e3 / m["batches_per_step"]
    receive_s = m.get("unpickle_ms", 0.0) / 1e3
    main_s = batch_s - input_s
    main_cpu_s = main_s  # one CPU, where it was not measured
    if "program_cpu_cores" in m:
        main_cpu_s = m["program_cpu_cores"] * batch_s / ranks - receive_s
        main_cpu_s -= m["worker_cpu_ms"] / 1e3 if m["workers"] == 0 else 0.0
    loader = Loader(
        made=_batches(finding),
        main_s=main_s,
        main_cpu_s=max(0.0, main_cpu_s),
        cores=m["cpu_count"] / ranks,
        send_s=m.get("serialise_ms", 0.0) / 1e3,
        receive_s=receive_s,
        prefetch=max(1, int(m.get("prefetch_factor", 2.0))),
    )
    return fitted(loader, int(m["workers"]), 1.0 / batch_s)


def _batches(finding: Finding) -> list[BatchWork]:
    """Batches with the measured mean and, where a few samples take much of the time, with such
    samples in every n-th of them."""
    m = finding.measures
    mean = BatchWork(m["worker_cpu_ms"] / 1e3, m.get("worker_blocked_ms", 0.0) / 1e3)
    tail, median = m.get("tail_share", 0.0), m.get("sample_p50_ms", 0.0)
    slow_s = m.get("sample_p99_ms", 0.0) / 1e3
    if slow_s <= 4e-3 * median:
        slow_s = m.get("sample_max_ms", 0.0) / 1e3
    tail_s = tail * sum(mean)
    if slow_s <= 0 or not tail_s:
        return [mean]
    every = min(_LONGEST, max(1, round(slow_s / tail_s)))
    usual = BatchWork(mean.cpu_s * (1 - tail), mean.blocked_s * (1 - tail))
    extra = tail * every  # of a mean batch
    slow = BatchWork(usual.cpu_s + extra * mean.cpu_s, usual.blocked_s + extra * mean.blocked_s)
    return [slow, *[usual] * (every - 1)]
