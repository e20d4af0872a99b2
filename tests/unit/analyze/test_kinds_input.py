from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyze.loop import Loop
from stepscope.analyze.resources import ProcessUse, Resources
from stepscope.model import names
from stepscope.model.details import SLOW_BATCHES, SlowSample, StageTime
from stepscope.model.phases import Phase
from tests.unit.analyze.made import Event, backward, exhausted, forward, iter_, loop, mark, next_
from tests.unit.analyze.made import optimizer as optimizer_span
from tests.unit.analyze.made_evidence import (
    dataset,
    found,
    line,
    node,
    pipeline,
    stacks,
    stage,
    trained,
)

WAIT = 100.0
HALF = 100 / 200  # 100 ms of wait in steps of 200


def test_workers_that_compute_are_input_cpu_in_the_users_line() -> None:
    details = pipeline(2, dataset(396, 392), stage("collate", 4), stage("serialise", 2))
    dear = line("aug.py", 41, "augment", 0.8)
    details = replace(details, stacks=(stacks(names.SAMPLE, dear, where="worker"),))
    kinds = found(trained(2, wait=WAIT), details)
    assert list(kinds) == ["input-cpu", "compute"]
    verdict = kinds["input-cpu"]
    # 392 of 402 ms of a worker's batch are computing samples; alone, the rest would keep up.
    assert verdict.share == pytest.approx(HALF, abs=0.005)
    assert (verdict.location.file, verdict.location.line) == ("aug.py", 41)
    assert verdict.confidence > 0.9
    assert verdict.evidence[1] == (
        "A batch takes a worker 402 ms: 396 ms for its samples, 4.0 ms to collate, 2.0 ms to send."
    )
    assert "80 % of it lies in augment, aug.py:41." in verdict.evidence


def test_waiting_for_a_cpu_counts_as_computing() -> None:
    kinds = found(trained(2, wait=WAIT), pipeline(2, dataset(400, 200, queue=200)))
    assert "input-io" not in kinds
    assert kinds["input-cpu"].measures["worker_cpu_ms"] == 200


def test_blocked_workers_that_read_a_disk_are_input_io() -> None:
    details = pipeline(2, dataset(400, 20), read_bytes_per_batch=8e6, read_chars_per_batch=8e6)
    kinds = found(trained(2, wait=WAIT), details)
    verdict = kinds["input-io"]
    assert list(kinds) == ["input-io", "compute"]
    assert verdict.share == pytest.approx(HALF, abs=0.005)
    assert verdict.evidence[2] == "Making a batch is blocked 380 ms and reads 8.0 MB from a disk."
    assert verdict.confidence > 0.9


def test_blocked_workers_that_read_no_disk_are_input_network() -> None:
    details = pipeline(2, dataset(400, 20), read_bytes_per_batch=0.0, read_chars_per_batch=4e3)
    alone = found(trained(2, wait=WAIT), details)["input-network"]
    assert alone.share == pytest.approx(HALF, abs=0.005)
    assert alone.missing
    received = Resources(net_received_bytes_per_s=2e7)
    sure = found(trained(2, wait=WAIT), details, received)["input-network"]
    assert sure.confidence > 1.5 * alone.confidence
    assert not sure.missing


def test_functions_that_talk_to_a_network_are_evidence_for_it() -> None:
    inner = node("download", "data.py", 1000, node("readinto", "/lib/python3.11/socket.py", 900))
    flame = stacks(names.SAMPLE, line("data.py", 7, "download", 1.0), where="worker", flame=inner)
    details = pipeline(2, dataset(400, 20), read_bytes_per_batch=0.0)
    verdict = found(trained(2, wait=WAIT), replace(details, stacks=(flame,)))["input-network"]
    assert verdict.confidence > 0.85
    assert "90 % of that time lies in functions that talk to a network." in verdict.evidence
    assert verdict.location.function == "download"


def test_a_slow_collate_is_input_collate() -> None:
    details = pipeline(2, dataset(30, 30), stage("collate", 370))
    dear = stacks(names.COLLATE, line("pad.py", 9, "pad", 0.9), where="worker")
    kinds = found(trained(2, wait=WAIT), replace(details, stacks=(dear,)))
    assert kinds["input-collate"].share == pytest.approx(HALF, abs=0.005)
    assert kinds["input-collate"].location.function == "pad"
    assert list(kinds) == ["input-collate", "compute"]


def test_sending_and_receiving_are_input_ipc() -> None:
    details = pipeline(
        1, dataset(40, 40), stage("serialise", 60, "feeder"),
        stage("deserialise", 50, "main"), bytes_per_batch=6e6,
    )  # fmt: skip
    kinds = found(trained(1, wait=WAIT), details)
    # Half of the wait the training thread receives; of the other half three fifths are sending.
    assert kinds["input-ipc"].share == pytest.approx(HALF * (0.5 + 0.5 * 0.6), abs=0.005)
    assert kinds["input-cpu"].share == pytest.approx(HALF * 0.2, abs=0.005)
    assert "Sending a batch of 6.0 MB takes 60 ms, receiving it 50 ms." in (
        kinds["input-ipc"].evidence
    )


def test_a_busy_pin_thread_is_input_ipc() -> None:
    pin = StageTime("pin", "pin", 190, 190, utilisation=0.95)
    kinds = found(trained(2, wait=WAIT), pipeline(2, dataset(40, 40), pin))
    assert list(kinds) == ["input-ipc", "compute"]


def test_each_cause_has_what_the_wait_is_shorter_without_it_and_those_before_it() -> None:
    details = pipeline(2, dataset(280, 150), stage("collate", 120), read_bytes_per_batch=1e7)
    kinds = found(trained(2, wait=WAIT), details)
    # Two workers may take 200 ms for a batch while training computes for 100; they take 400.
    # Without 150 ms of computing 250 are left; without 130 of reading as well they keep up.
    assert kinds["input-cpu"].share == pytest.approx(HALF * 150 / 200, abs=0.005)
    assert kinds["input-io"].share == pytest.approx(HALF * 50 / 200, abs=0.005)
    assert "input-collate" not in kinds


def test_a_slow_collate_has_all_of_a_wait_that_its_samples_alone_would_not_cause() -> None:
    details = pipeline(2, dataset(180, 180), stage("collate", 220))
    kinds = found(trained(2, wait=WAIT), details)
    # Without collating, two workers take 90 ms for a batch, and training 100.
    assert list(kinds) == ["input-collate", "compute"]
    assert kinds["input-collate"].share == pytest.approx(HALF, abs=0.005)


def test_slow_samples_that_hold_up_idle_workers_are_input_skew() -> None:
    more = {
        "tail_share": 0.5, "samples": 800, "worker_idle_share": 0.6,
        "sample_ms": {"p50": 2.0, "p95": 3.0, "p99": 200.0, "max": 400.0},
        "slow_samples": (SlowSample(17, 400.0, 0), SlowSample(203, 390.0, 1)),
    }  # fmt: skip
    # On average 4 workers would keep up: 100 ms of work a batch, 25 ms at a time.
    kinds = found(trained(4, wait=WAIT), pipeline(4, dataset(100, 100), **more))
    assert next(iter(kinds)) == "input-skew"
    assert kinds["input-skew"].share == pytest.approx(HALF, abs=0.01)
    assert "The slowest samples by index: 17 (400 ms), 203 (390 ms)." in (
        kinds["input-skew"].evidence
    )
    even = more | {"tail_share": 0.02}
    assert "input-skew" not in found(trained(4, wait=WAIT), pipeline(4, dataset(100, 100), **even))


def test_without_workers_a_tail_costs_what_it_takes_beyond_the_median() -> None:
    times = {"p50": 1.0, "p95": 1.5, "p99": 20.0, "max": 30.0}
    details = pipeline(0, dataset(100, 100), tail_share=0.6, samples=800, sample_ms=times)
    kinds = found(trained(0, wait=WAIT), details)
    assert kinds["input-skew"].share == pytest.approx(HALF * 0.6 * 0.95, abs=0.01)
    assert kinds["input-cpu"].share == pytest.approx(HALF * (1 - 0.57), abs=0.01)


def test_without_workers_the_line_is_found_in_the_training_process() -> None:
    stack = stacks(Phase.INPUT_WAIT, line("data.py", 30, "decode", 0.9))
    details = replace(pipeline(0, dataset(100, 99)), stacks=(stack,))
    assert found(trained(0, wait=WAIT), details)["input-cpu"].location.function == "decode"


def started() -> Loop:
    """Five passes with two workers that take 500 ms to start, and 50 ms of wait in each step."""
    events: list[Event] = []
    at = 10.0
    for epoch in range(5):
        events += [iter_(at, at + 100, epoch), mark(names.LOADER, 1, epoch, '{"workers": 2}')]
        at += 100
        for number in range(8):
            wait = 400.0 if number == 0 else 50.0
            events += [next_(at, at + wait, epoch), forward(at + wait, at + wait + 20)]
            events += [backward(at + wait + 20, at + wait + 40)]
            events += [optimizer_span(at + wait + 40, at + wait + 50)]
            at += wait + 50
        events.append(exhausted(at, at + 1, epoch))
        at += 1
    return loop(events)


def test_starting_workers_is_named_beside_other_causes() -> None:
    kinds = found(started(), pipeline(2, dataset(200, 200)))
    startup, cpu = kinds["input-worker-startup"], kinds["input-cpu"]
    # 100 ms of iter(), and 400 less what a batch of two workers takes, of passes of 1251 ms.
    assert startup.share == pytest.approx(0.25, abs=0.03)
    assert startup.share + cpu.share == pytest.approx(5 * 850 / 6251, abs=0.02)


@pytest.mark.parametrize(("ms", "function"), [(2000.0, "read_vocabulary"), (1000.0, "train")])
def test_starting_workers_is_located_in_what_they_do_if_that_is_most_of_it(
    ms: float, function: str
) -> None:
    # They take some 1,600 ms to start, and there are two of them: 800 each are half of that.
    read = line("data.py", 26, "read_vocabulary", 0.9)
    start = replace(stacks(names.WORKER, read, where="worker"), ms=ms)
    waits = stacks(Phase.INPUT_WAIT, line("train.py", 39, "train", 1.0))
    details = replace(pipeline(2, dataset(200, 200)), stacks=(start, waits))
    assert found(started(), details)["input-worker-startup"].location.function == function


def test_slow_samples_are_located_in_slow_batches_or_else_where_samples_are_made() -> None:
    times = {"p50": 2.0, "p95": 4.0, "p99": 180.0, "max": 260.0}
    slow = pipeline(4, dataset(100, 100), sample_ms=times, tail_share=0.6)
    clean = stacks(names.WORKER_FETCH, line("data.py", 33, "clean", 0.9), where="worker")
    kinds = found(trained(4, wait=WAIT), replace(slow, stacks=(clean,)))
    assert kinds["input-skew"].location.function == "clean"
    held_up = stacks(SLOW_BATCHES, line("data.py", 50, "repair", 0.9), where="worker")
    kinds = found(trained(4, wait=WAIT), replace(slow, stacks=(clean, held_up)))
    assert kinds["input-skew"].location.function == "repair"


def test_input_that_keeps_up_is_no_finding() -> None:
    kinds = found(trained(2, wait=1.0), pipeline(2, dataset(150, 150), tail_share=0.5))
    assert list(kinds) == ["compute"]


def test_workers_with_too_many_threads_are_oversubscription_and_not_input() -> None:
    # Four workers on two CPUs: ten threads want a CPU, two have one.
    crowd = Resources(
        cpu_count=2,
        program=ProcessUse(1, cpu_cores=0.2, run_delay_cores=0.0),
        children=ProcessUse(4, cpu_cores=1.8, run_delay_cores=8.0),
    )
    kinds = found(trained(4, wait=WAIT), pipeline(4, dataset(400, 100, 300)), crowd)
    assert next(iter(kinds)) == "oversubscription"
    assert kinds["oversubscription"].share == pytest.approx(HALF * 8 / 9.8, abs=0.01)
    assert kinds["input-cpu"].share == pytest.approx(HALF * 1.8 / 9.8, abs=0.01)


def test_samples_that_waited_for_a_cpu_are_no_tail() -> None:
    times = {"p50": 2.0, "p95": 12.0, "p99": 180.0, "max": 260.0}
    details = pipeline(1, dataset(150, 20, queue=70), tail_share=0.4, samples=800, sample_ms=times)
    assert "input-skew" not in found(trained(1, wait=WAIT), details)


def test_slow_samples_too_short_to_hold_up_the_loop_are_no_skew() -> None:
    times = {"p50": 0.02, "p95": 0.2, "p99": 0.3, "max": 0.4}
    details = pipeline(
        2, dataset(0.7, 0.7), stage("serialise", 20), tail_share=0.3, samples=800, sample_ms=times
    )  # fmt: skip
    kinds = found(trained(2, wait=WAIT), details)
    assert next(iter(kinds)) == "input-ipc"
    assert "input-skew" not in kinds


def test_blocked_samples_that_write_to_a_disk_are_input_io() -> None:
    more = {"read_bytes_per_batch": 400.0, "read_chars_per_batch": 200.0}
    details = pipeline(0, dataset(100, 4), write_bytes_per_batch=5e7, **more)
    kinds = found(trained(0, wait=WAIT), details)
    assert list(kinds) == ["input-io", "compute"]
    assert kinds["input-io"].evidence[2] == (
        "Making a batch is blocked 96 ms and writes 50.0 MB to a disk."
    )


def test_a_download_that_is_written_to_a_disk_is_input_network() -> None:
    inner = node("download", "data.py", 1000, node("readinto", "/lib/python3.11/socket.py", 900))
    flame = stacks(names.SAMPLE, line("data.py", 7, "download", 1.0), where="worker", flame=inner)
    details = pipeline(1, dataset(200, 4), write_bytes_per_batch=5e7, read_bytes_per_batch=0.0)
    kinds = found(trained(1, wait=WAIT), replace(details, stacks=(flame,)))
    assert list(kinds) == ["input-network", "compute"]


def test_what_the_kernel_computes_to_read_a_disk_is_input_io() -> None:
    # 60 ms blocked, and 10 of the 40 ms of CPU are the kernel's, who moves 30 MB.
    reads = {"read_bytes_per_batch": 3e7, "read_chars_per_batch": 3e7}
    details = pipeline(0, dataset(100, 40), system_ms_per_batch=10.0, **reads)
    kinds = found(trained(0, wait=WAIT), details)
    assert kinds["input-io"].share == pytest.approx(HALF * 0.7, abs=0.005)
    assert kinds["input-cpu"].share == pytest.approx(HALF * 0.3, abs=0.005)
    # The kernel's figure is a rough one: close to all of it is all of it.
    details = pipeline(0, dataset(100, 40), system_ms_per_batch=25.0, **reads)
    assert list(found(trained(0, wait=WAIT), details)) == ["input-io", "compute"]


def test_system_time_beyond_what_a_disk_moves_is_computing() -> None:
    # 200 kB keep the kernel busy for 2 ms at most; the rest of its time is for memory, say.
    reads = {"read_bytes_per_batch": 2e5, "read_chars_per_batch": 2e5}
    details = pipeline(0, dataset(100, 70), system_ms_per_batch=60.0, **reads)
    kinds = found(trained(0, wait=WAIT), details)
    assert kinds["input-io"].share == pytest.approx(HALF * 0.32, abs=0.005)
    assert kinds["input-cpu"].share == pytest.approx(HALF * 0.68, abs=0.005)


def test_what_a_client_computes_while_it_mostly_waits_is_input_network() -> None:
    inner = node("urlopen", "/lib/python3.11/urllib/request.py", 95)
    flame = replace(stacks(Phase.INPUT_WAIT, flame=node("get", "data.py", 100, inner)), ms=100.0)
    details = pipeline(0, dataset(100, 30), read_bytes_per_batch=0.0)
    kinds = found(trained(0, wait=WAIT), replace(details, stacks=(flame,)))
    assert list(kinds) == ["input-network", "compute"]
    # Below a client that hands out samples lies the work on them as well.
    details = pipeline(0, dataset(100, 80), read_bytes_per_batch=0.0)
    kinds = found(trained(0, wait=WAIT), replace(details, stacks=(flame,)))
    assert kinds["input-cpu"].share == pytest.approx(HALF * 0.8, abs=0.005)


def test_waiting_for_a_cpu_divides_as_the_time_between_does() -> None:
    # Other processes take the CPUs: of 40 ms 30 are the disk's and 10 computing.
    reads = {"read_bytes_per_batch": 3e7, "read_chars_per_batch": 3e7}
    kinds = found(trained(0, wait=WAIT), pipeline(0, dataset(100, 10, queue=60), **reads))
    assert kinds["input-io"].share == pytest.approx(HALF * 0.75, abs=0.005)
    computing = found(trained(0, wait=WAIT), pipeline(0, dataset(100, 40, queue=60), **reads))
    assert list(computing) == ["input-cpu", "compute"]


def test_receiving_that_waits_for_a_computing_worker_is_input_cpu() -> None:
    # The worker takes 195 of every 200 ms; meanwhile none of its threads hands over tensors.
    receive = StageTime("deserialise", "main", 95, 1)
    kinds = found(trained(1, wait=WAIT), pipeline(1, dataset(195, 194), receive))
    assert list(kinds) == ["input-cpu", "compute"]
    assert kinds["input-cpu"].share == pytest.approx(HALF, abs=0.005)


def test_receiving_that_waits_for_an_idle_worker_is_input_ipc() -> None:
    receive = StageTime("deserialise", "main", 95, 50)
    kinds = found(trained(1, wait=WAIT), pipeline(1, dataset(4, 4), receive))
    assert list(kinds) == ["input-ipc", "compute"]


def test_slow_samples_that_were_not_looked_at_are_found_by_their_batches() -> None:
    more = {
        "tail_share": 0.0, "sample_ms": {"p50": 0.1, "p95": 0.1, "p99": 0.1, "max": 3.0},
        "slow_batch_share": 0.9, "batch_ms": {"p50": 1.0, "p95": 2.0, "p99": 900.0, "max": 950.0},
    }  # fmt: skip
    receive = StageTime("deserialise", "main", 30, 5)
    kinds = found(trained(2, wait=WAIT), pipeline(2, dataset(60, 60), receive, **more))
    assert list(kinds) == ["input-skew", "compute"]
    skew = kinds["input-skew"]
    assert skew.share == pytest.approx(HALF, abs=0.005)
    assert (
        "90 % of the time for batches goes to those beyond 4 times the median of 1.0 ms; the"
        " slowest took 950 ms."
    ) in skew.evidence
    assert skew.measures["sample_max_ms"] == 950.0


def test_without_workers_causes_have_their_part_of_the_work() -> None:
    # 85 of 100 ms are computing; 15 ms of collating alone are 7 % of the loop.
    details = pipeline(0, dataset(85, 85), stage("collate", 15))
    kinds = found(trained(0, wait=WAIT), details)
    assert kinds["input-cpu"].share == pytest.approx(HALF * 0.85, abs=0.005)
    assert kinds["input-collate"].share == pytest.approx(HALF * 0.15, abs=0.005)


def test_starting_workers_once_is_no_cause_beside_a_large_one() -> None:
    events: list[Event] = [iter_(10, 20, 1), mark(names.LOADER, 11, 1, '{"workers": 1}')]
    at = 20.0
    for number in range(40):
        wait = 160.0 if number == 0 else 50.0
        events += [next_(at, at + wait, 1), forward(at + wait, at + wait + 20)]
        events += [backward(at + wait + 20, at + wait + 40)]
        events += [optimizer_span(at + wait + 40, at + wait + 50)]
        at += wait + 50
    kinds = found(loop(events), pipeline(1, dataset(100, 100)))
    assert list(kinds) == ["input-cpu", "compute"]
    # The start lies in the first step, which is warm-up: 39 times 50 of 100 ms are left.
    assert kinds["input-cpu"].share == pytest.approx(0.5, abs=0.001)
