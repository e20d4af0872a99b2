from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from stepscope import (
    BottleneckProfile,
    BottleneckProfiler,
    BottleneckProfilerConfig,
    BottleneckType,
    NoResultsError,
    ProfilingSession,
    UsageError,
)
from stepscope.session import extensions

WORK = BottleneckType.CPU_COMPUTATION


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def of_memory(found: Iterable[BottleneckProfile]) -> list[BottleneckProfile]:
    return [one for one in found if one.operation_name == "high_memory_usage"]


def test_from_start_to_stop_and_again() -> None:
    profiler = BottleneckProfiler()
    ids = []
    for runs in (1, 2):
        ids.append(profiler.start_profiling_session("again"))
        for _ in range(runs):
            with profiler.profile_operation("nap", BottleneckType.I_O_OPERATION):
                time.sleep(0.02)
        session = profiler.stop_profiling_session()
        assert not profiler.is_profiling
        assert session.operations["nap"].calls == runs, "of this session alone"
        assert session.duration is not None
        assert 0.02 * runs <= session.duration < 5
        assert profiler.current_session == session
    assert len(set(ids)) == 2, "even in the same second"


def test_the_wrong_order_is_refused() -> None:
    profiler = BottleneckProfiler()
    with pytest.raises(UsageError, match=r"start_profiling_session\(\) first"):
        profiler.stop_profiling_session()
    with pytest.raises(NoResultsError, match="Nothing was profiled yet"):
        profiler.get_bottleneck_summary()
    with pytest.raises(NoResultsError):
        profiler.generate_optimization_report()
    assert profiler.current_session is None
    assert profiler.bottlenecks == []
    assert profiler.performance_metrics == {}
    profiler.start_profiling_session("once")
    with pytest.raises(UsageError, match="A session goes on"):
        profiler.start_profiling_session("twice")
    with pytest.raises(UsageError, match="has a BottleneckType, not 'cpu'"):
        profiler.profile_operation("x", "cpu")  # type: ignore[arg-type]
    profiler.stop_profiling_session()
    for name in ("", "a/b", 3):
        with pytest.raises(UsageError, match="without slashes"):
            profiler.start_profiling_session(name)  # type: ignore[arg-type]


def test_the_outer_operation_is_not_blamed_for_the_inner_one() -> None:
    profiler = BottleneckProfiler()
    gc.collect()  # so that no collection falls into the outer operation: it would be blamed for it
    profiler.start_profiling_session("nested")
    with profiler.profile_operation("outer", BottleneckType.DATA_LOADING):
        for _ in range(4):
            with profiler.profile_operation("inner", BottleneckType.register("tokenising")):
                burn(0.2)
    session = profiler.stop_profiling_session()
    found = {one.operation_name: one for one in session.bottlenecks}
    assert found["inner"].bottleneck_type is BottleneckType.TOKENISING
    assert found["inner"].frequency == 4
    assert found["inner"].share is not None
    assert found["inner"].share > 0.8
    assert "outer" not in found
    assert (session.operations["outer"].execution_time or 0) >= 0.8


def test_a_threshold_of_memory_is_seen_while_the_session_goes_on() -> None:
    low = BottleneckProfilerConfig(memory_threshold=0.001, sampling_interval=0.02)
    profiler = BottleneckProfiler(low)
    profiler.start_profiling_session("full")
    deadline = time.monotonic() + 20
    live: list[BottleneckProfile] = []
    while not live and time.monotonic() < deadline:
        time.sleep(0.05)
        live = of_memory(profiler.bottlenecks)
    assert profiler.is_profiling
    session = profiler.stop_profiling_session()
    for (found,) in (live, of_memory(session.bottlenecks)):
        assert found.bottleneck_type is BottleneckType.MEMORY_ALLOCATION
        assert 0 < found.severity <= 1
        assert found.suggestions
    assert session.memory_profile
    assert all(0 < percent <= 100 for percent in session.memory_profile.values())
    assert session.gpu_profile == {} or all(v >= 0 for v in session.gpu_profile.values())


def test_a_threshold_that_is_not_reached_is_no_bottleneck() -> None:
    high = BottleneckProfilerConfig(memory_threshold=1.0, bottleneck_threshold=1.0)
    profiler = BottleneckProfiler(high)
    profiler.start_profiling_session("quiet")
    time.sleep(0.1)
    assert profiler.stop_profiling_session().bottlenecks == ()
    assert profiler.get_bottleneck_summary()["most_severe"] is None


def test_what_is_switched_off_is_not_shown() -> None:
    off = BottleneckProfilerConfig(
        enable_real_time_monitoring=False,
        enable_memory_tracking=False,
        enable_gpu_tracking=False,
        enable_cpu_tracking=False,
        enable_io_tracking=False,
        memory_threshold=0.001,
    )
    profiler = BottleneckProfiler(off)
    profiler.start_profiling_session("off")
    session = profiler.stop_profiling_session()
    assert set(session.performance_metrics) == {"total_time", "cpu_time"}
    assert session.memory_profile == session.gpu_profile == {}
    assert "memory" not in " ".join(one.operation_name for one in session.bottlenecks)


def test_without_monitoring_memory_is_judged_at_the_end() -> None:
    config = BottleneckProfilerConfig(enable_real_time_monitoring=False, memory_threshold=0.001)
    profiler = BottleneckProfiler(config)
    profiler.start_profiling_session("end")
    time.sleep(0.05)
    session = profiler.stop_profiling_session()
    assert "memory-pressure" in [one.operation_name for one in session.bottlenecks]
    assert session.memory_profile == {}


def test_an_operation_without_a_session_begins_one() -> None:
    profiler = BottleneckProfiler()
    with profiler.profile_operation("alone", WORK):
        burn(0.02)
    session = profiler.stop_profiling_session()
    assert session.session_id.startswith("alone_")
    assert session.operations["alone"].calls == 1


def test_switched_off_it_does_nothing(tmp_path: Path) -> None:
    profiler = BottleneckProfiler(BottleneckProfilerConfig(enabled=False))
    assert profiler.start_profiling_session("no") == ""
    with profiler.profile_operation("x", WORK):
        pass
    assert not profiler.is_profiling
    with pytest.raises(NoResultsError, match="switched off"):
        profiler.generate_optimization_report(tmp_path)


def test_an_exception_passes_and_is_counted() -> None:
    profiler = BottleneckProfiler()
    profiler.start_profiling_session("fails")
    with pytest.raises(OSError, match="gone"), profiler.profile_operation("read", WORK):
        raise OSError("gone")
    assert profiler.stop_profiling_session().operations["read"].failed_calls == 1


def test_operations_in_threads_while_somebody_asks() -> None:
    profiler = BottleneckProfiler(BottleneckProfilerConfig(sampling_interval=0.01))
    profiler.start_profiling_session("threads")

    def work(name: str) -> None:
        for _ in range(50):
            with profiler.profile_operation(name, WORK), profiler.profile_operation("both", WORK):
                time.sleep(0.001)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        profiler.get_bottleneck_summary()
    for thread in threads:
        thread.join()
    session = profiler.stop_profiling_session()
    assert session.operations["both"].calls == 150
    assert all(one.share is None or one.share <= 1 for one in session.bottlenecks)


def test_the_summary_and_the_report_say_the_same(tmp_path: Path) -> None:
    profiler = BottleneckProfiler()
    profiler.start_profiling_session("whole")
    with profiler.profile_operation("sum", WORK):
        burn(0.05)
    profiler.stop_profiling_session()
    summary = profiler.get_bottleneck_summary()
    assert summary["total_bottlenecks"] == len(summary["bottlenecks"]) >= 1
    assert sum(summary["bottlenecks_by_type"].values()) == summary["total_bottlenecks"]
    assert summary["most_severe"] == summary["bottlenecks"][0]
    paths = profiler.generate_optimization_report(tmp_path)
    assert "- **sum**: Severity:" in paths.markdown.read_text("utf-8")
    assert paths.markdown.parent == tmp_path


def test_an_empty_session_reports_nothing() -> None:
    profiler = BottleneckProfiler(BottleneckProfilerConfig(enable_memory_tracking=False))
    for _ in range(3):
        profiler.start_profiling_session("empty")
        session = profiler.stop_profiling_session()
        assert (session.bottlenecks, session.verdict) == ((), "")


def test_a_change_of_the_settings_counts_from_the_next_session() -> None:
    profiler = BottleneckProfiler(BottleneckProfilerConfig(bottleneck_threshold=0.999))
    found = []
    for threshold in (0.001, 0.999):
        profiler.start_profiling_session("s")
        profiler.config.bottleneck_threshold = threshold
        with profiler.profile_operation("a", WORK):
            burn(0.02)
        time.sleep(0.02)
        session = profiler.stop_profiling_session()
        found.append([one for one in session.bottlenecks if one.operation_name == "a"])
    first, second = found
    assert not first
    assert second


def test_formats_and_plots_of_the_program_are_part_of_the_report(tmp_path: Path) -> None:
    profiler = BottleneckProfiler()
    profiler.start_profiling_session("s")
    session = profiler.stop_profiling_session()
    profiler.add_report_format("csv", lambda session: f"id\n{session.session_id}\n")
    profiler.add_report_format("broken", lambda session: str(1 / 0))
    profiler.add_plot("timeline", lambda session, figure: figure.subplots().plot([1, 2]))
    paths = profiler.generate_optimization_report(tmp_path)
    table, picture = paths.more
    assert table.read_text() == f"id\n{session.session_id}\n"
    assert table.name == f"{session.session_id}_report.csv"
    assert picture.name == f"{session.session_id}_timeline.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert paths.note == "The report format broken failed: ZeroDivisionError: division by zero."
    with pytest.raises(UsageError, match="without slashes"):
        profiler.add_plot("../up", lambda session, figure: None)
    with pytest.raises(UsageError, match="takes a ProfilingSession"):
        profiler.add_report_format("csv", "no function")  # type: ignore[arg-type]


def test_formats_and_plots_of_installed_packages_are_part_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages"
    info = package / "thrown_away-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thrown-away\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[stepscope.reports]\nxml = thrown_away:render\n"
        "[stepscope.plots]\nbars = thrown_away:draw\n"
    )
    (package / "thrown_away.py").write_text(
        "def render(session):\n    return f'<id>{session.session_id}</id>'\n"
        "def draw(session, figure):\n    figure.subplots().bar([1], [2])\n"
    )
    monkeypatch.syspath_prepend(package)
    extensions._installed.cache_clear()
    try:
        profiler = BottleneckProfiler()
        profiler.start_profiling_session("s")
        session = profiler.stop_profiling_session()
        paths = profiler.generate_optimization_report(tmp_path / "reports")
    finally:
        extensions._installed.cache_clear()
    page, picture = paths.more
    assert page.read_text() == f"<id>{session.session_id}</id>"
    assert picture.name == f"{session.session_id}_bars.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_basic_measures_and_judges_nothing() -> None:
    session, hooked = session_at("basic")
    assert session.operations["work"].calls == 1
    assert session.performance_metrics["cpu_time"]
    assert (session.bottlenecks, session.verdict, hooked) == ((), "", False)


def test_production_judges_operations_and_leaves_torch_alone() -> None:
    session, hooked = session_at("production")
    assert [one.operation_name for one in session.bottlenecks][:1] == ["work"]
    assert not hooked


def test_detailed_sees_torch_too() -> None:
    session, hooked = session_at("detailed")
    assert [one.operation_name for one in session.bottlenecks][:1] == ["work"]
    assert not [one for one in session.bottlenecks[0].evidence if "line" in one]
    assert hooked


def test_comprehensive_names_the_line_that_the_time_goes_to() -> None:
    session, _ = session_at("comprehensive")
    (work,) = (one for one in session.bottlenecks if one.operation_name == "work")
    assert any(one.startswith("Hottest line: levels.py:13 (burn)") for one in work.evidence)


def session_at(level: str) -> tuple[ProfilingSession, bool]:
    """A session in a process of its own: hooks that somebody wanted stay. And whether torch is
    hooked."""
    code = Path(__file__).parent / "levels.py"
    done = subprocess.run(
        [sys.executable, str(code), level], capture_output=True, check=True, timeout=120
    )
    found: tuple[ProfilingSession, bool] = pickle.loads(done.stdout)
    return found
