"""What to change about the host's work around the computation."""

from __future__ import annotations

from stepscope.advise.gain import at, between
from stepscope.model.finding import Finding, Recommendation

__all__ = [
    "busy_machine",
    "checkpoint_save",
    "communication",
    "device_sync",
    "gc",
    "gil",
    "logging_io",
    "oversubscription",
    "python_in_loop",
    "swap",
    "transfer",
    "validation",
]


def validation(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Evaluate half as often, or on half the samples",
        action="Raise the interval between evaluations, or evaluate on a subset"
        + at(finding.location),
        expected_speedup=between(finding, 0.5),
        risk="Overfitting is noticed later.",
    )


def checkpoint_save(finding: Finding) -> Recommendation:
    steps = finding.measures.get("steps_per_save")
    seldom = f": every {2 * steps:,.0f} steps, not every {steps:,.0f}" if steps else ""
    return Recommendation(
        title="Save half as often, or in the background",
        action=f"Raise the interval between saves{at(finding.location)}{seldom};"
        " or use torch.distributed.checkpoint.async_save",
        expected_speedup=between(finding, 0.5),
        risk="More steps are lost when training is interrupted.",
    )


def gc(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Collect garbage at chosen steps only",
        action="gc.freeze(); gc.disable() before the loop, gc.collect() every few hundred steps",
        expected_speedup=between(finding, 1.0),
        risk="Garbage in cycles stays longer: watch the memory.",
    )


def transfer(finding: Finding) -> Recommendation:
    pinned = finding.measures.get("pin_memory") == 1.0
    pin = "" if pinned else "DataLoader(..., pin_memory=True) and "
    return Recommendation(
        title="Copy while the device computes",
        action=f"{pin}tensor.to(device, non_blocking=True){at(finding.location)}",
    )


def python_in_loop(finding: Finding) -> Recommendation:
    blocked = finding.measures.get("busy_share", 1.0) < 0.5
    place = at(finding.location)
    if finding.measures.get("environment_share", 0.0) >= 0.5:
        return _environments(finding)
    if finding.library.file is not None:
        action = (
            f"Look for a setting of the library that has {finding.library.function} do less, do it"
            f" every n steps or in other processes; it is called{place}"
        )
    elif place:
        action = f"Do the work{place} every n steps, batched, or in another process"
    elif blocked:
        action = (
            "Look for sleeps, writes, logging calls and locks between the phases;"
            " do them every n steps"
        )
    else:
        action = (
            "Look for per-step logging, metrics and conversions; do them every n steps, or batched"
        )
    return Recommendation(
        title="Move work out of the loop, or do it less often",
        action=action,
    )


def _environments(finding: Finding) -> Recommendation:
    """Reinforcement learning: their steps are work that training needs."""
    step = finding.library if finding.library.file is not None else finding.location
    return Recommendation(
        title="Step the environments in parallel",
        action=f"The time goes to stepping the environments{at(step)}: run them in processes of"
        " their own (a vectorised environment that is asynchronous), use more of them at a time, or"
        " make one step cheaper",
        expected_speedup=between(finding, 0.0),
        risk="More environments at a time change what a batch of experience is made of.",
    )


def logging_io(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Log every 10th step, and do not flush each time",
        action=f"if step % 10 == 0: around the writing{at(finding.location)};"
        " leave flush() and fsync() to the end",
        expected_speedup=between(finding, 0.9),  # nine of ten writes are saved
        risk="The log is coarser, and its last lines may be lost in a crash.",
    )


def device_sync(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Do not ask the GPU for a value in every step",
        action=f"Keep loss.detach() and call .item() every n steps{at(finding.location)}",
    )


def gil(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Move Python threads into a process of their own",
        action="Use multiprocessing, or DataLoader workers, for what threads do beside training",
        risk="What the threads share with training has to be sent to the other process.",
    )


def oversubscription(finding: Finding) -> Recommendation:
    cpus, ranks = finding.measures.get("cpu_count", 1.0), finding.measures.get("ranks", 1.0)
    return Recommendation(
        title="Use no more threads than there are CPUs",
        action=f"torch.set_num_threads({max(1, int(cpus // ranks))}), and fewer loader workers",
    )


def busy_machine(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Give training CPUs of its own",
        action="Stop the other programs, run elsewhere, or separate the two with taskset",
    )


def communication(finding: Finding) -> Recommendation:
    """Gradients are exchanged within backward; anything else is a collective of the program, or of
    a model that is split over ranks."""
    if finding.measures.get("backward_share", 0.0) >= finding.share / 2:
        action = (
            "Accumulate gradients over several batches under model.no_sync(), or exchange them in"
            " bfloat16 (a DDP communication hook) and in larger buckets (bucket_cap_mb)"
        )
        risk = "Accumulation makes the batch larger; bfloat16 rounds gradients."
    else:
        action = (
            f"Send fewer and larger tensors{at(finding.location)}, and start them early with"
            " async_op=True so that they overlap with computation"
        )
        risk = ""
    return Recommendation(
        title="Exchange less between ranks, or while they compute",
        action=action,
        risk=risk,
    )


def swap(finding: Finding) -> Recommendation:
    return Recommendation(
        title="Need less memory on the host",
        action="Use fewer workers and a smaller prefetch_factor, or cache less",
    )
