"""What to change about the computation. Figures that were measured elsewhere give a range only."""

from __future__ import annotations

from stepscope.advise.gain import at, between
from stepscope.model.finding import Finding, Recommendation

__all__ = [
    "compute",
    "cpu_bound",
    "denormals",
    "host_overhead",
    "layout",
    "optimizer",
    "precision",
    "recompute",
]

_FLUSHING_HELPS = 0.5  # of what denormals cost, from which on it is the shorter way


def compute(_: Finding) -> Recommendation:
    return Recommendation(
        title="Only cheaper computation makes this faster",
        action="Try torch.compile(model), a larger batch or lower precision, and measure each",
        risk="A larger batch and lower precision can change what the model learns.",
    )


def cpu_bound(finding: Finding) -> Recommendation:
    cores = finding.measures.get("cpu_cores", 0.0)
    action = "Find the hottest lines with PerformanceProfiler(enable_line_profiling=True)"
    if cores <= 1.5:
        action += ", or use more CPUs: threads, worker processes, whole tensors instead of loops"
    return Recommendation(title="Compute less, or on more CPUs", action=action)


def optimizer(finding: Finding) -> Recommendation:
    known = finding.measures.get("one_by_one")
    if known == 0.0:
        return Recommendation(
            title="Update the parameters less often",
            action="Accumulate gradients over two batches before each optimizer.step()",
            expected_speedup=between(finding, 0.5, 0.5),  # every other update is saved
            risk="The effective batch is larger, which can change what the model learns.",
        )
    left = finding.measures.get("fused_ratio")
    saved = None if left is None else max(0.0, 1.0 - left)
    return Recommendation(
        title="Let the optimizer update all parameters at once",
        action="Construct it with fused=True, or foreach=True where that is not supported",
        expected_speedup=between(finding, saved, saved) if saved is not None else None,
        risk="Rounding may differ in the last bits.",
    )


def precision(finding: Finding) -> Recommendation:
    if finding.measures.get("bfloat16"):
        return Recommendation(
            title="Compute in bfloat16",
            action="with torch.autocast(device_type, dtype=torch.bfloat16): around the forward",
            expected_speedup=_measured(finding),
            risk="Rounding is coarser: compare the losses.",
        )
    return Recommendation(
        title="Compute in single precision",
        action="model.float() and inputs.float(); look for numpy arrays, which are float64",
        expected_speedup=_measured(finding),
        risk="Rounding is coarser: compare the losses.",
    )


def _measured(finding: Finding) -> tuple[float, float] | None:
    """Of what was run again after training: what it saved there. None: it was not run again."""
    return between(finding, 1.0) if "ratio" in finding.measures else None


def denormals(finding: Finding) -> Recommendation:
    left, flushed = finding.measures.get("ratio", 0.0), finding.measures.get("flush_ratio", 1.0)
    helps = (1.0 - flushed) / (1.0 - left) if left < 1.0 else 0.0  # of what they cost
    if helps >= _FLUSHING_HELPS:
        return Recommendation(
            title="Treat numbers that are too small as zero",
            action="torch.set_flush_denormal(True) before the loop, in each process",
            expected_speedup=between(finding, min(1.0, helps), min(1.0, helps)),
            risk="Results change where such numbers matter.",
        )
    return Recommendation(
        title="Keep numbers from becoming that small",
        action=f"clamp(min=1e-30) or scale what is computed{at(finding.location)}; the kernels do"
        " not heed torch.set_flush_denormal here",
        expected_speedup=_measured(finding),
        risk="Results change where such numbers matter.",
    )


def layout(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Store images pixel by pixel",
        action="model.to(memory_format=torch.channels_last), and the same for the inputs",
        expected_speedup=_measured(finding),
        risk="Operators without such a kernel convert back and forth.",
    )


def recompute(finding: Finding) -> Recommendation:
    measures = finding.measures
    removable = measures.get("removable_ms")
    plan = "`stepscope plan COMMAND --memory SIZE` finds the cheapest blocks for a size of memory"
    if removable is None:
        return Recommendation(
            title="Checkpoint only what memory asks for",
            action="Leave torch.utils.checkpoint to the largest blocks"
            f"{at(finding.location)}; {plan}",
            risk="It takes more memory: the activations of the other blocks are kept.",
        )
    if not removable:
        return Recommendation(
            title="Plan which blocks to checkpoint",
            action=f"Memory asks for it, but perhaps not for all of it: {plan}",
            risk="None of the results: recomputing changes none of them.",
        )
    part = min(1.0, removable / measures["recompute_ms"])
    some = measures["removable_layers"] < measures["layers"]
    which = f"{measures['removable_layers']:.0f} of the layers" if some else "all of these layers"
    return Recommendation(
        title="Keep activations instead of recomputing them",
        action=f"Remove torch.utils.checkpoint from {which}{at(finding.location)}; {plan}",
        expected_speedup=between(finding, part, part),
        risk="It takes more memory: the activations of these layers are kept.",
    )


def host_overhead(finding: Finding) -> Recommendation:
    compiled = finding.measures.get("compiled") == 1.0
    what = "Find its graph breaks (TORCH_LOGS=graph_breaks)" if compiled else "torch.compile(model)"
    return Recommendation(
        title="Give each operator more to do",
        action=f"{what}; a larger batch; whole tensors in place of Python loops"
        + at(finding.location),
        risk="A larger batch can change what the model learns.",
    )
