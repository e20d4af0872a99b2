from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from stepscope.analyze import hot_lines, stack_phases, stacks
from stepscope.analyze.fold import LoopFold
from stepscope.analyze.loop import Loop
from stepscope.analyze.stacks import StackFold, user_location
from stepscope.analyze.user_code import is_users
from stepscope.collect import chain
from stepscope.model import names
from stepscope.model.details import OTHER_THREADS, SLOW_BATCHES, FlameNode, PhaseStacks
from stepscope.model.event import EventType, Flag
from stepscope.model.own_code import OWN_FILE, WRAPPER
from stepscope.model.phases import Phase
from stepscope.model.process import ProcessInfo
from tests.unit.analyze.made import MS, THREAD, Event, batch, mark, span

TORCH = "/env/lib/python3.11/site-packages/torch/nn/modules/module.py"
STDLIB = "/usr/lib/python3.11/threading.py"
TRAIN = "/home/me/train.py"
DATA = "/home/me/data.py"

MAIN = ProcessInfo(THREAD, 1, 0, 1, "here", "program", (), "3.11", "native", 0, 1)
WORKER = replace(MAIN, pid=200, parent_pid=THREAD, unix_ns=2)
Seen = tuple[str, int, str]  # file, line, function


class Numbers:
    """The stacks of one process, named as a sampler does it."""

    def __init__(self) -> None:
        self.known: dict[tuple[Seen, ...], int] = {}
        self.frames: list[Event] = []

    def of(self, chain: Sequence[Seen]) -> int:
        """Outermost first."""
        caller = 0
        for depth in range(1, len(chain) + 1):
            key = tuple(chain[:depth])
            if key not in self.known:
                self.known[key] = len(self.known) + 1
                file, line, function = chain[depth - 1]
                text = f"{caller}\t{line}\t{function}\t{file}"
                self.frames.append(mark(names.STACK_FRAME, 0, self.known[key], text))
            caller = self.known[key]
        return caller


def seen(
    at: float, stack: int, tag: str = "", ms: float = 1.0, native: bool = False, track: int = THREAD
) -> Event:
    event: Event = {
        "type": int(EventType.SAMPLE),
        "name": names.STACK,
        "time_ns": round(at * MS),
        "arg": stack,
        "value": ms * MS,
        "track": track,
        "flags": int(Flag.NATIVE) if native else 0,
    }
    return event | {"text": tag} if tag else event


def step(start: float) -> list[Event]:
    """10 ms: 4 of input, 3 of forward, 2 of backward, 1 of the optimizer."""
    return [
        span(names.INPUT_NEXT, start, start + 4, arg=1),
        span(names.FORWARD, start + 4, start + 7, arg=2, value=1.0),
        span(names.BACKWARD, start + 7, start + 9),
        span(names.OPTIMIZER_STEP, start + 9, start + 10, arg=3),
    ]


def folded(events: Sequence[Event], *more: tuple[ProcessInfo, Sequence[Event]]) -> Any:
    """The stacks by (where, phase), and the loop that they belong to."""
    fold, loop = StackFold(), LoopFold(0, THREAD, 0)
    for process, some in ((MAIN, events), *more):
        made = batch(some)
        fold.update(process, made)
        if process is MAIN:
            loop.update(made)
    found = loop.get()
    assert isinstance(found, Loop)
    return {(one.where, one.phase): one for one in fold.get([found])}


def lines(stacks: PhaseStacks) -> list[tuple[str, float]]:
    return [(line.location.function or "", round(line.share, 3)) for line in stacks.lines]


@pytest.mark.parametrize(
    ("file", "function", "users"),
    [
        (TRAIN, "main", True),
        ("train.py", "main", True),
        (TORCH, "Module._call_impl", False),
        (STDLIB, "Thread.run", False),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "f", False),
        ("/root/.pyenv/versions/3.12.1/lib/python3.12/json/decoder.py", "f", False),
        ("/opt/python311.zip/json.py", "f", True),  # nobody can tell
        ("C:\\Python311\\Lib\\json\\decoder.py", "f", False),
        (chain.__file__, "spanned", False),
        (OWN_FILE, "", False),
        (TRAIN, WRAPPER, False),  # it has the file of what it wraps
        ("/home/me/stepscope/train.py", "main", True),
        ("/home/me/library/python/train.py", "main", True),
        ("<frozen importlib._bootstrap>", "_load", False),
        ("<string>", "main", True),
        ("<string>", "__create_fn__.<locals>.__init__", False),
        ("<stdin>", "<module>", True),
        ("/tmp/ipykernel_12/34.py", "<module>", True),
        ("/tmp/torchinductor_me/ab/cab.py", "call", False),
        (f"/scratch/cache/ab/cab{'q7' * 24}z.py", "call", False),
        ("/scratch/cache/ab/cab.py", "call", True),
        ("<eval_with_key>.3", "forward", False),
        ("", "?", False),
    ],
)
def test_whose_code_a_file_is(file: str, function: str, users: bool) -> None:
    assert is_users(file, function) is users


def test_text_that_a_library_compiled_is_the_users_only_where_the_program_is_text() -> None:
    numbers = Numbers()
    made = numbers.of([(TRAIN, 10, "main"), (TORCH, 20, "cache"), ("<string>", 6, "cached")])
    typed = numbers.of([("<string>", 3, "<module>"), (TORCH, 30, "call"), ("<string>", 9, "own")])
    samples = [seen(5.5, made), seen(5.6, made), seen(5.7, typed)]
    found = folded([*numbers.frames, *step(0), *samples])
    (only,) = found.values()
    assert lines(only) == [("main", 0.667), ("own", 0.333)]


def test_samples_belong_to_the_phase_of_the_spans_around_them() -> None:
    numbers = Numbers()
    main = numbers.of([(TRAIN, 10, "main")])
    events = [event for at in range(0, 40, 10) for event in step(at)]
    samples = [seen(at + 0.5, main) for at in range(40)]
    found = folded([*numbers.frames, *events, *samples])
    assert {phase: one.samples for (_, phase), one in found.items()} == {
        Phase.INPUT_WAIT: 16,
        Phase.FORWARD: 12,
        Phase.BACKWARD: 8,
        Phase.OPTIMIZER: 4,
    }
    assert found["main", Phase.FORWARD].ms == pytest.approx(12.0)


def test_gaps_are_python_between_and_a_tag_decides_where_the_span_was_lost() -> None:
    numbers = Numbers()
    main = numbers.of([(TRAIN, 10, "main")])
    events = [event for at in (0, 20, 40) for event in step(at)]
    samples = [seen(15, main), seen(16, main, names.TRANSFORM), seen(17, main, names.SAVE)]
    found = folded([*numbers.frames, *events, *samples])
    assert {phase: one.samples for (_, phase), one in found.items()} == {
        Phase.PYTHON_BETWEEN: 1,
        Phase.INPUT_WAIT: 1,
        Phase.CHECKPOINT_SAVE: 1,
    }


def test_collections_are_gc_and_what_runs_inside_the_input_is_input() -> None:
    numbers = Numbers()
    main = numbers.of([(TRAIN, 10, "main")])
    events = [span(names.GC, 5, 6), span(names.TRANSFER, 1, 2), *step(0), *step(10)]
    samples = [seen(1.5, main, names.TRANSFER), seen(5.5, main, names.FORWARD)]
    found = folded([*numbers.frames, *events, *samples])
    assert {phase for _, phase in found} == {Phase.INPUT_WAIT, Phase.GC}


def test_forwards_without_gradients_and_their_loader_are_evaluation() -> None:
    numbers = Numbers()
    main = numbers.of([(TRAIN, 10, "main")])
    evaluation = [
        span(names.INPUT_ITER, 20, 21, arg=9),
        span(names.INPUT_NEXT, 21, 23, arg=9),
        span(names.FORWARD, 23, 28, arg=2, value=0.0),
        span(names.INPUT_NEXT, 28, 29, arg=9, flags=int(Flag.FAILED)),
    ]
    events = [*step(0), *step(10), *evaluation, *step(30), *step(40)]
    samples = [seen(22, main, names.INPUT_NEXT), seen(25, main, names.FORWARD), seen(28.5, main)]
    found = folded([*numbers.frames, *events, *samples])
    assert {phase: one.samples for (_, phase), one in found.items()} == {Phase.EVALUATION: 3}


def test_the_loss_is_forward_where_it_ran_and_python_between_where_it_waited() -> None:
    numbers = Numbers()
    main = numbers.of([(TRAIN, 10, "main")])

    def step_with_loss(at: float, cpu: float, ran: float) -> list[Event]:
        return [
            span(names.FORWARD, at, at + 2, arg=2, value=1.0, cpu=(cpu, cpu + 2)),
            span(names.BACKWARD, at + 6, at + 8, cpu=(cpu + 2 + ran, cpu + 4 + ran)),
            span(names.OPTIMIZER_STEP, at + 8, at + 9, arg=3, cpu=(cpu + 4 + ran, cpu + 5 + ran)),
        ]

    events = [*step_with_loss(0, 0, 4), *step_with_loss(10, 10, 0.2), *step_with_loss(20, 20, 4)]
    found = folded([*numbers.frames, *events, seen(4, main), seen(14, main), seen(15, main)])
    assert found["main", Phase.FORWARD].samples == 1
    assert found["main", Phase.PYTHON_BETWEEN].samples == 2


def test_what_lies_before_and_after_the_loop_is_left_out() -> None:
    numbers = Numbers()
    main = numbers.of([(TRAIN, 10, "main")])
    warm_up = [span(names.FORWARD, 10, 20, arg=2, value=0.0)]
    events = [*warm_up, *(event for at in range(1000, 1050, 10) for event in step(at))]
    samples = [seen(at, main) for at in (12, 500, 1005, 1045, 1051, 3000)]
    found = folded([*numbers.frames, *events, *samples])
    assert sum(one.samples for one in found.values()) == 2


def test_names_may_come_after_the_samples_that_use_them_and_in_other_batches() -> None:
    numbers, fold, loop = Numbers(), StackFold(), LoopFold(0, THREAD, 0)
    main = numbers.of([(TRAIN, 10, "main"), (TRAIN, 20, "helper")])
    spans = batch([*step(0), *step(10)])
    fold.update(MAIN, batch([seen(5, main), seen(15, main)]))
    fold.update(MAIN, spans)
    fold.update(MAIN, batch(numbers.frames))
    loop.update(spans)
    (forward,) = fold.get([loop.get()])  # type: ignore[list-item]
    assert lines(forward) == [("helper", 1.0)]


def test_a_name_that_never_comes_holds_nothing_up_for_long() -> None:
    numbers, fold = Numbers(), StackFold()
    main = numbers.of([(TRAIN, 10, "main")])
    events = [event for at in range(0, 10_000, 10) for event in step(at)]
    samples = [seen(5, 77), *(seen(at + 5, main) for at in range(10, 10_000, 10))]
    loop = LoopFold(0, THREAD, 0)
    for at in range(0, len(samples), 10):
        made = batch([*numbers.frames, *events[4 * at : 4 * at + 40], *samples[at : at + 10]])
        fold.update(MAIN, made)
        loop.update(made)
    (forward,) = fold.get([loop.get()])  # type: ignore[list-item]
    assert forward.samples > 900
    function, share = lines(forward)[0]
    assert function == "main"
    assert share == pytest.approx(1.0, abs=0.01)


def test_a_long_run_gives_the_same_as_a_short_one_and_keeps_no_samples() -> None:
    numbers, fold, loop = Numbers(), StackFold(), LoopFold(0, THREAD, 0)
    main = numbers.of([(TRAIN, 10, "main")])
    fold.update(MAIN, batch(numbers.frames))
    for second in range(60):
        at = second * 1000
        spans = [event for start in range(at, at + 1000, 10) for event in step(start)]
        samples = [seen(start + 5.5, main) for start in range(at, at + 1000, 10)]
        made = batch([*spans, *samples])
        fold.update(MAIN, made)
        loop.update(made)
    found = loop.get()
    assert found is not None
    (forward,) = fold.get([found])
    assert (forward.phase, forward.samples) == (Phase.FORWARD, 6000)
    (thread,) = next(iter(fold._processes.values())).threads.values()
    assert len(thread._samples) <= 400
    assert len(thread._rows) <= 1600


def test_a_loop_that_never_ends_a_step_is_settled_when_too_much_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stack_phases, "SAMPLES", 200)
    numbers, fold, loop = Numbers(), StackFold(), LoopFold(0, THREAD, 0)
    main = numbers.of([(TRAIN, 10, "main")])
    fold.update(MAIN, batch(numbers.frames))
    for second in range(20):  # inference
        at = second * 1000
        spans = [
            event
            for start in range(at, at + 1000, 10)
            for event in (
                span(names.INPUT_NEXT, start, start + 4, arg=1),
                span(names.FORWARD, start + 4, start + 9, arg=2),
            )
        ]
        made = batch([*spans, *(seen(start + 5, main) for start in range(at, at + 1000, 10))])
        fold.update(MAIN, made)
        loop.update(made)
    found = loop.get()
    assert found is not None
    (forward,) = fold.get([found])
    assert (forward.phase, forward.samples) == (Phase.FORWARD, 2000)
    (thread,) = next(iter(fold._processes.values())).threads.values()
    assert len(thread._samples) <= 400


def test_a_stack_counts_for_the_innermost_line_that_is_the_users() -> None:
    numbers = Numbers()
    outer, inner = (TRAIN, 10, "main"), (TRAIN, 30, "Net.forward")
    library = numbers.of([outer, (TORCH, 5, "call"), inner, (TORCH, 99, "linear")])
    own = numbers.of([outer, (TORCH, 5, "call"), inner])
    nobodys = numbers.of([(TORCH, 7, "thread")])
    samples = [
        *(seen(4.1 + at / 10, library, native=True) for at in range(6)),
        *(seen(5.1 + at / 10, own) for at in range(3)),
        seen(6.5, nobodys),
    ]
    found = folded([*numbers.frames, *step(0), *step(10), *samples])
    first, last = found["main", Phase.FORWARD].lines
    found_at = (first.location.file, first.location.line, first.location.function)
    assert found_at == inner
    assert (first.share, first.self_share) == (pytest.approx(0.9), pytest.approx(0.3))
    assert first.native_share == pytest.approx(6 / 9)
    assert first.samples == 9
    assert (last.location.file, last.share) == ("", pytest.approx(0.1))


def test_a_comprehension_is_a_line_of_the_function_that_it_stands_in() -> None:
    numbers = Numbers()
    outer = (DATA, 8, "clean")
    own = numbers.of([outer])
    inner = numbers.of([outer, (DATA, 9, "clean.<locals>.<listcomp>")])
    same = numbers.of([outer, (DATA, 8, "clean.<locals>.<lambda>")])
    samples = [seen(4.5, own, ms=2), seen(5, inner, ms=5), seen(6, same, ms=3)]
    found = folded([*numbers.frames, *step(0), *step(10), *samples])
    hot = found["main", Phase.FORWARD].lines
    assert [(one.location.line, one.location.function) for one in hot] == [
        (8, "clean"),
        (9, "clean"),
    ]
    assert [one.share for one in hot] == [pytest.approx(0.5), pytest.approx(0.5)]


def test_the_flame_is_pruned_and_shows_who_called_whom() -> None:
    numbers = Numbers()
    hot = numbers.of([(TRAIN, 1, "main"), (TRAIN, 5, "hot")])
    other = numbers.of([(TRAIN, 2, "main"), (TRAIN, 9, "other")])
    rare = numbers.of([(TRAIN, 1, "main"), (TRAIN, 7, "rare")])
    samples = [seen(4.5, hot, ms=700), seen(5, other, ms=297), seen(6, rare, ms=3)]
    found = folded([*numbers.frames, *step(0), *step(10), *samples])
    root = found["main", Phase.FORWARD].flame
    assert (root.name, root.ms) == ("forward", pytest.approx(1000))
    (main,) = root.children
    assert (main.name, main.line, main.ms) == ("main", 1, pytest.approx(1000))
    assert [(one.name, round(one.ms)) for one in main.children] == [("hot", 700), ("other", 297)]


def test_the_flame_has_no_more_nodes_and_levels_than_can_be_shown() -> None:
    numbers = Numbers()
    chains = [[(TRAIN, 1, f"f{number}_{depth}") for depth in range(80)] for number in range(20)]
    samples = [
        seen(4.1 + number / 100, numbers.of(chain), ms=50 + number)
        for number, chain in enumerate(chains)
    ]
    found = folded([*numbers.frames, *step(0), *step(10), *samples])
    root = found["main", Phase.FORWARD].flame

    def count(node: FlameNode) -> int:
        return 1 + sum(map(count, node.children))

    def depth(node: FlameNode) -> int:
        return 1 + max(map(depth, node.children), default=0)

    assert 400 < count(root) <= hot_lines.FLAME_NODES
    assert depth(root) == 1 + hot_lines.FLAME_DEPTH


def worker_events(at: float, count: int = 10) -> list[Event]:
    numbers = Numbers()
    parents = [(TRAIN, 10, "main"), (STDLIB, 1, "BaseProcess._bootstrap")]
    item = numbers.of([*parents, (TORCH, 3, "_worker_loop"), (DATA, 8, "Images.__getitem__")])
    idle = numbers.of([*parents, (TORCH, 2, "_worker_loop")])
    return [
        *numbers.frames,
        *(seen(at + n, item, names.SAMPLE, track=WORKER.pid) for n in range(count)),
        seen(at + count, idle, names.WORKER_IDLE, ms=2.0, track=WORKER.pid),
        seen(at + count, idle, "", ms=50.0, track=201),  # a thread that waits for something
    ]


def test_workers_are_told_by_their_spans_without_the_frames_of_their_parent() -> None:
    events = [event for at in range(0, 1000, 10) for event in step(at)]
    found = folded(events, (WORKER, worker_events(500)))
    assert {key: one.samples for key, one in found.items()} == {
        ("worker", names.SAMPLE): 10,
        ("worker", names.WORKER_IDLE): 1,
    }
    assert lines(found["worker", names.SAMPLE]) == [("Images.__getitem__", 1.0)]
    assert lines(found["worker", names.WORKER_IDLE]) == [("", 1.0)]
    assert found["worker", names.SAMPLE].flame.children[0].name == "BaseProcess._bootstrap"


def test_workers_that_were_started_anew_are_added_up() -> None:
    events = [event for at in range(0, 1000, 10) for event in step(at)]
    others = [replace(WORKER, pid=300 + n, unix_ns=n) for n in range(100)]
    found = folded(events, *((one, worker_events(400 + n)) for n, one in enumerate(others)))
    (images,) = found["worker", names.SAMPLE].lines
    assert (images.location.function, images.samples) == ("Images.__getitem__", 1000)


def test_what_workers_do_after_the_loop_and_what_strangers_do_is_left_out() -> None:
    events = [event for at in range(0, 1000, 10) for event in step(at)]
    stranger = replace(WORKER, pid=300, parent_pid=5)
    numbers = Numbers()
    main = numbers.of([(TRAIN, 10, "main")])
    strange = [*numbers.frames, seen(500, main, track=300)]
    found = folded(events, (WORKER, worker_events(5000)), (stranger, strange))
    assert found == {}


def test_a_worker_of_a_server_of_forks_is_known_by_its_spans() -> None:
    events = [event for at in range(0, 1000, 10) for event in step(at)]
    found = folded(events, (replace(WORKER, parent_pid=77), worker_events(500)))
    assert ("worker", names.SAMPLE) in found


def test_other_threads_count_while_they_run_python_within_the_loop() -> None:
    numbers = Numbers()
    main = numbers.of([(TRAIN, 10, "main")])
    thread = [(STDLIB, 1, "Thread.run")]
    play = numbers.of([*thread, (DATA, 8, "play"), (DATA, 9, "play.<locals>.<listcomp>")])
    rest = numbers.of([*thread, (DATA, 12, "play")])
    events = [event for at in range(0, 1000, 10) for event in step(at)]
    samples = [
        seen(5, main),
        *(seen(100 + at, play, track=201) for at in range(30)),
        *(seen(200 + at, rest, native=True, track=201) for at in range(60)),  # it sleeps
        seen(300, rest, ms=10, track=202),
        *(seen(5000 + at, rest, track=202) for at in range(90)),  # the loop is over
    ]
    found = folded([*numbers.frames, *events, *samples])
    others = found["thread", OTHER_THREADS]
    assert lines(others) == [("play", 0.75), ("play", 0.25)]
    assert (others.ms, others.samples) == (pytest.approx(40), 31)
    assert found["main", Phase.FORWARD].samples == 1


def test_a_thread_that_computes_without_training_is_one_of_the_others() -> None:
    numbers = Numbers()
    main, act = numbers.of([(TRAIN, 10, "main")]), numbers.of([(DATA, 8, "act")])
    events = [event for at in range(0, 1000, 10) for event in step(at)]
    acting = [span(names.FORWARD, at, at + 5, arg=9, track=201) for at in range(0, 1000, 10)]
    samples = [seen(505, main), seen(506, act, track=201)]
    found = folded([*numbers.frames, *events, *acting, *samples])
    assert lines(found["thread", OTHER_THREADS]) == [("act", 1.0)]
    assert lines(found["main", Phase.FORWARD]) == [("main", 1.0)]


def test_what_workers_do_in_slow_batches_is_told_apart() -> None:
    events = [event for at in range(0, 1000, 10) for event in step(at)]
    numbers = Numbers()
    loop_ = (TORCH, 3, "_worker_loop")
    load, repair = numbers.of([loop_, (DATA, 8, "load")]), numbers.of([loop_, (DATA, 20, "repair")])
    fetches = [span(names.WORKER_FETCH, at, at + 10, track=WORKER.pid) for at in range(0, 800, 10)]
    fetches.append(span(names.WORKER_FETCH, 800, 850, track=WORKER.pid))
    samples = [seen(at + 5, load, names.WORKER_FETCH, track=WORKER.pid) for at in range(0, 800, 10)]
    slow = [(805, load), *((at, repair) for at in range(815, 850, 10))]
    samples += [seen(at, stack, names.WORKER_FETCH, track=WORKER.pid) for at, stack in slow]
    found = folded(events, (WORKER, [*numbers.frames, *fetches, *samples]))
    assert lines(found["worker", SLOW_BATCHES]) == [("repair", 0.8), ("load", 0.2)]
    assert lines(found["worker", names.WORKER_FETCH])[0][0] == "load"


def test_windows_of_a_long_run_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = StackFold()
    for second in range(0, 5000, 50):
        fold.update(WORKER, batch(worker_events(second * 1000.0)))
    windows = fold._workers[THREAD]
    assert len(windows._windows) <= 64
    total = sum(times[0] for _, times in windows.between(0, 6_000_000 * MS))
    assert total == 100 * 12 * MS  # 10 samples and an idle one of 2 ms, 100 times


def test_the_dearest_line_of_one_phase_or_of_several() -> None:
    numbers = Numbers()
    a, b = numbers.of([(TRAIN, 1, "a")]), numbers.of([(TRAIN, 2, "b")])
    events = [*numbers.frames, *step(0), *step(10)]
    samples = [seen(5, a, ms=6), seen(6, b, ms=4), seen(8, b, ms=10)]
    found = folded([*events, *samples]).values()
    one = user_location(found, Phase.FORWARD, "main")
    both = user_location(found, (Phase.FORWARD, Phase.BACKWARD), "main")
    assert one is not None
    assert both is not None
    assert one[0].function == "a"
    assert one[1] == pytest.approx(0.6)
    assert (both[0].function, both[0].line) == ("b", 2)
    assert both[1] == pytest.approx(0.7)
    assert user_location(found, Phase.GC, "main") is None
    assert user_location(found, Phase.FORWARD, "worker") is None


def test_processes_that_are_gone_are_forgotten_but_not_the_one_that_trains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stacks, "_PROCESSES", 4)
    fold = StackFold()
    fold.update(MAIN, batch([*step(0), *step(10)]))
    for number in range(10):
        fold.update(replace(WORKER, pid=300 + number), batch(worker_events(100 * number)))
    assert len(fold._processes) == 4
    assert (MAIN.pid, MAIN.unix_ns) in fold._processes


def test_the_last_minute_is_told_by_phase_and_time_where_somebody_watches() -> None:
    numbers = Numbers()
    work = numbers.of([(TRAIN, 5, "main"), (TRAIN, 9, "work")])
    slow = numbers.of([(TRAIN, 5, "main"), (TRAIN, 30, "slow")])
    events = [event for start in (0.0, 10.0, 20.0) for event in step(start)]
    events += [seen(5.5, work, names.FORWARD), seen(15.5, slow, names.FORWARD)]
    events += [seen(31.0, slow)]  # of a step that has not ended
    for watches in (True, False):
        fold = StackFold(keeps_recent=watches)
        fold.update(MAIN, batch([*numbers.frames, *sorted(events, key=lambda e: e["time_ns"])]))
        later = step(5000.0)
        fold.update(MAIN, batch(later))
        if watches:
            (forward,) = fold.since(THREAD, 0, round(12 * MS))
            assert forward.phase == "forward"
            assert [line.location.line for line in forward.lines] == [9]
            phases = {one.phase: one for one in fold.since(THREAD, round(12 * MS), round(99 * MS))}
            assert phases["forward"].lines[0].location.line == 30
            assert phases["python between"].lines[0].location.line == 30
        else:
            assert fold.since(THREAD, 0, round(12 * MS)) == ()
        assert fold.since(4711, 0, round(99 * MS)) == ()


def test_a_worker_that_runs_for_days_holds_no_samples() -> None:
    """GIVEN a worker with collections of its own, which look like spans of a loop
    WHEN it goes on and on THEN its time is counted, and nothing waits for the end of a step."""
    fold = StackFold()
    for at in range(0, 20_000, 10):
        collection = span(names.GC, at, at + 1, track=WORKER.pid)
        sample = seen(at + 2, 0, names.WORKER_FETCH, track=WORKER.pid)
        fold.update(WORKER, batch([collection, sample]))
    (process,) = fold._processes.values()
    assert (process.threads, process.early) == ({}, {})
    spent = fold._workers[THREAD].between(0, 1 << 62)
    assert sum(ns for _, (ns, _) in spent) == 2000 * MS


def test_frames_of_ours_are_in_no_flame_and_their_time_goes_to_what_called_them() -> None:
    numbers = Numbers()
    main, forward = (TRAIN, 3, "main"), (TRAIN, 9, "Net.forward")
    ours, wrapper = (OWN_FILE, 0, ""), (TORCH, 0, WRAPPER)
    events = step(0)
    for at, chain_ in ((4.5, (main, ours, forward)), (5.5, (main, wrapper, ours))):
        events.append(seen(at, numbers.of(chain_)))
    found = folded(numbers.frames + events + step(10))["main", Phase.FORWARD.value]

    assert lines(found) == [("main", 0.5), ("Net.forward", 0.5)]
    assert found.flame is not None
    (outermost,) = found.flame.children
    assert (outermost.name, outermost.ms) == ("main", 2.0)
    assert [(one.name, one.ms) for one in outermost.children] == [("Net.forward", 1.0)]
