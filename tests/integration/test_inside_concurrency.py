"""Many threads, tasks, forks and names at once: nothing is mixed, lost or stuck."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.integration.inside import told_by

pytestmark = pytest.mark.timed

CORES = pytest.mark.parametrize("core", ["native", "python"])
STRESS_S = float(os.environ.get("STEPSCOPE_STRESS_S", "5"))


@CORES
def test_32_threads_are_counted_exactly_while_others_read(core: str) -> None:
    told = told_by(
        """
        profiler = PerformanceProfiler()
        go, done, errors, reads = threading.Barrier(33), threading.Event(), [], [0]

        def work(number):
            go.wait()
            for run in range(200):
                with profiler.profile("shared"), profiler.profile(f"thread {number}"):
                    if run % 50 == 0:
                        with profiler.profile(f"thread {number} run {run}"):
                            time.sleep(0.001)

        def read():
            try:
                while not done.is_set():
                    for name in profiler.get_timing_breakdown():
                        profiler.get_metrics(name)
                        profiler.has_results()
                        reads[0] += 1
            except Exception as error:
                errors.append(repr(error))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
        reader = threading.Thread(target=read)
        for thread in (*threads, reader):
            thread.start()
        go.wait()
        for thread in threads:
            thread.join()
        done.set()
        reader.join()
        tell(errors=errors, reads=reads[0], shared=profiler.get_metrics("shared").calls,
             own=[profiler.get_metrics(f"thread {n}").calls for n in range(32)],
             names=len(profiler.get_timing_breakdown()))
        """,
        STEPSCOPE_CORE=core,
    )
    assert told["errors"] == []
    assert told["reads"] > 0
    assert told["shared"] == 32 * 200
    assert told["own"] == [200] * 32
    assert told["names"] == 1 + 32 + 32 * 4


@CORES
def test_200_tasks_get_their_own_times(core: str) -> None:
    told = told_by(
        """
        import asyncio
        profiler = PerformanceProfiler()

        async def work(number):
            known = 0.0
            for _ in range(3):
                began = time.perf_counter()
                with profiler.profile(f"task {number}"), profiler.profile("all"):
                    await asyncio.sleep(0.02 + 0.001 * number)
                known += time.perf_counter() - began
            return known

        async def main():
            return await asyncio.gather(*(work(number) for number in range(200)))

        known = asyncio.run(main())
        found = [profiler.get_metrics(f"task {number}") for number in range(200)]
        tell(known=known, found=[m.execution_time for m in found], calls=[m.calls for m in found],
             all=profiler.get_metrics("all").calls)
        """,
        STEPSCOPE_CORE=core,
    )
    assert told["calls"] == [3] * 200
    assert told["all"] == 600
    for number, (found, known) in enumerate(zip(told["found"], told["known"], strict=True)):
        assert 3 * (0.02 + 0.001 * number) <= found <= known
    # What a task took besides its own sleep is little of what another one slept.
    assert sum(told["found"]) >= 0.95 * sum(told["known"]) - 0.2


@CORES
def test_a_forked_child_measures_its_own(core: str) -> None:
    told = told_by(
        """
        profiler = PerformanceProfiler()
        for _ in range(5):
            with profiler.profile("shared"):
                burn(0.01)
        with profiler.profile("open"):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                for _ in range(3):
                    with profiler.profile("shared"):
                        burn(0.1)
                with profiler.profile("new"):
                    pass
                shared = profiler.get_metrics("shared")
                os.write(write, json.dumps({
                    "calls": shared.calls, "cpu": shared.cpu_time, "wall": shared.execution_time,
                    "peak": shared.peak_ram_mb, "new": profiler.get_metrics("new").calls,
                    "names": list(profiler.get_timing_breakdown()),
                }).encode())
                os._exit(0)
            status = os.waitpid(child, 0)[1]
        shared = profiler.get_metrics("shared")
        tell(child=json.loads(os.read(read, 9999)), status=status, calls=shared.calls,
             cpu=shared.cpu_time, open=profiler.get_metrics("open").calls)
        """,
        STEPSCOPE_CORE=core,
    )
    child = told.pop("child")
    assert told["status"] == 0
    assert (told["calls"], told["open"]) == (5, 1)
    assert told["cpu"] < 0.2
    assert (child["calls"], child["new"]) == (3, 1)
    assert child["names"] == ["shared", "new"]
    assert 0.3 <= child["cpu"] < 0.6
    assert child["wall"] >= 0.3
    assert child["peak"] > 1


def test_forks_in_the_middle_of_everything_do_not_get_stuck() -> None:
    told = told_by(
        """
        import warnings
        warnings.simplefilter("ignore")
        profiler = PerformanceProfiler()
        stop = threading.Event()

        def work(number):
            run = 0
            while not stop.is_set():
                run += 1
                with profiler.profile(f"thread {number} {run % 100}"):
                    time.sleep(0.0001)  # lets the others have the GIL

        def read():
            while not stop.is_set():
                profiler.get_metrics()
                time.sleep(0.001)

        with profiler.profile("first"):
            pass
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in (*threads, reader := threading.Thread(target=read)):
            thread.start()
        codes = []
        for number in range(20):
            child = os.fork()
            if child == 0:
                import faulthandler
                faulthandler.dump_traceback_later(20, exit=True)
                for _ in range(10):
                    with profiler.profile("in the child"):
                        pass
                with profiler.profile(f"new in the child {number}"):
                    pass
                right = profiler.get_metrics("in the child").calls == 10
                os._exit(0 if right else 3)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        for thread in (*threads, reader):
            thread.join()
        tell(codes=codes)
        """
    )
    assert told["codes"] == [0] * 20


def test_a_flood_of_names_stays_bounded_and_loses_no_run() -> None:
    told = told_by(
        """
        profiler = PerformanceProfiler()
        def rss():
            return int(open("/proc/self/statm").read().split()[1]) * 4096 / MB
        for number in range(10_000):
            with profiler.profile(f"name {number}"):
                pass
        profiler.get_metrics("name 0")
        before = rss()
        for number in range(10_000, 60_000):
            with profiler.profile(f"name {number}"):
                pass
        grown = rss() - before
        names = list(profiler.get_timing_breakdown())
        found = [profiler.get_metrics(name) for name in names[::1000]]
        tell(names=len(names), calls=[m.calls for m in found], grown=grown, last=names[-1],
             shortest=[m.shortest_time for m in found],
             others=profiler.get_metrics("(other operations)").calls)
        """
    )
    assert told["names"] == 10_001
    assert told["calls"] == [1] * 10 + [50_000]
    assert min(told["shortest"]) > 0, "all totals were recorded"
    assert told["last"] == "(other operations)"
    assert told["others"] == 50_000
    assert told["grown"] < 4, "50,000 names that were kept would take 8 MB"


@pytest.mark.slow
@pytest.mark.timeout(STRESS_S * 3 + 120)
def test_everything_at_once_for_a_while() -> None:
    """As long as STEPSCOPE_STRESS_S says; 60 s with `make stress`."""
    told: Any = told_by(
        f"""
        import asyncio, random, faulthandler
        end = time.monotonic() + {STRESS_S}
        profiler = PerformanceProfiler(memory_interval=0.05)
        others = [PerformanceProfiler(memory_interval=0.1, detailed_memory=True) for _ in range(3)]
        counts, errors, codes = {{}}, [], []

        def guarded(work, *args):
            try:
                work(*args)
            except BaseException as error:
                errors.append(repr(error))

        def work(number):
            done = failed = 0
            while time.monotonic() < end:
                with profiler.profile(f"thread {{number}}"), others[number % 3].profile("other"):
                    done += 1
                    if done % 100 == 0:
                        time.sleep(0.001)
                try:
                    with profiler.profile(f"failing {{number}}"):
                        failed += 1
                        raise KeyError(number)
                except KeyError:
                    pass
            counts[f"thread {{number}}"], counts[f"failing {{number}}"] = done, failed

        async def task(number):
            done = 0
            while time.monotonic() < end:
                with profiler.profile(f"task {{number}}"):
                    done += 1
                    await asyncio.sleep(random.random() / 50)
            counts[f"task {{number}}"] = done

        async def tasks():
            await asyncio.gather(*(task(number) for number in range(200)))

        def read():
            while time.monotonic() < end:
                for name in list(profiler.get_timing_breakdown())[:20]:
                    profiler.get_metrics(name)
                with profile_context("context") as context:
                    context.current_metrics
                time.sleep(0.05)

        def fork():
            while time.monotonic() < end:
                child = os.fork()
                if child == 0:
                    faulthandler.dump_traceback_later(30, exit=True)
                    with profiler.profile("in the child"):
                        pass
                    os._exit(0 if profiler.get_metrics("in the child").calls == 1 else 3)
                codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                time.sleep(0.2)

        jobs = [(work, n) for n in range(32)] + [(read,), (fork,), (lambda: asyncio.run(tasks()),)]
        threads = [threading.Thread(target=guarded, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = {{name: profiler.get_metrics(name) for name in counts}}
        tell(errors=errors, codes=codes,
             wrong=[n for n in counts if counts[n] != found[n].calls],
             unfailed=[n for n in counts if n[0] == "f" and found[n].failed_calls != counts[n]],
             other=sum(one.get_metrics("other").calls for one in others),
             threads=sum(counts[f"thread {{n}}"] for n in range(32)), names=len(counts))
        """,
        timeout=STRESS_S * 3 + 100,
    )
    assert told["errors"] == []
    assert told["codes"]
    assert set(told["codes"]) == {0}
    assert (told["wrong"], told["unfailed"]) == ([], [])
    assert told["names"] == 264
    assert told["other"] == told["threads"]
