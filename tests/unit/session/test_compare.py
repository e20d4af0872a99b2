from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from stepscope.cli import main
from stepscope.errors import UsageError
from stepscope.session.compare import compare_runs, read_figures
from tests.unit.session.made_folders import make_run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five runs before and after a slow-down of 10 %, and five that are like the first."""
    monkeypatch.chdir(tmp_path)
    noise = (1.0, 1.01, 0.99, 1.005, 0.995)
    for place, factor in enumerate(noise):
        make_run(tmp_path / "runs" / f"base-{place}", 10.0 * factor, place)
        make_run(tmp_path / "runs" / f"same-{place}", 10.0 / factor, 100 + place)
        make_run(tmp_path / "runs" / f"slow-{place}", 11.0 / factor, 200 + place)
    return tmp_path


def test_a_regression_exits_with_1_and_says_what(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "base-*", "slow-*"]) == 1
    said = capsys.readouterr().out
    assert "Regression: the new runs are worse, and that is no chance." in said
    assert "undisturbed step" in said


def test_runs_that_are_alike_exit_with_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "base-*", "same-*", "--strict"]) == 0
    assert "No change: a regression of 5 % is ruled out." in capsys.readouterr().out


def test_a_limit_above_the_slow_down_lets_it_pass(folder: Path) -> None:
    assert main(["compare", "base-*", "slow-*", "--fail-over", "30%"]) == 0


@pytest.mark.parametrize(("strict", "code"), [([], 0), (["--strict"], 3)])
def test_one_run_each_is_inconclusive(folder: Path, strict: list[str], code: int) -> None:
    assert main(["compare", "base-0", "slow-0", *strict]) == code


def test_groups_may_be_named_by_options(folder: Path) -> None:
    assert main(["compare", "--base", "base-*", "--new", "slow-*"]) == 1
    assert main(["compare", "--new", "slow-*", "base-*"]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ["base-0"],
        ["base-0", "base-1", "base-2"],
        ["base-*", "base-0"],
        ["base-0", "nothing"],
        ["base-0", "slow-0", "--fail-over", "much"],
        ["base-0", "slow-0", "--fail-over", "-3%"],
        ["base-*", "slow-*", "--junit", "no/such/folder/x.xml"],
    ],
)
def test_what_cannot_be_compared_is_a_mistake_in_the_call(folder: Path, wrong: list[str]) -> None:
    assert main(["compare", *wrong]) == 2


def test_a_run_in_both_groups_is_refused(folder: Path) -> None:
    run = folder / "runs" / "base-0"
    with pytest.raises(UsageError, match="base-0 is in both groups"):
        compare_runs([run], [run])


@pytest.mark.parametrize("limit", ["5%", "5 %", "5", "0.05"])
def test_a_limit_may_be_written_in_several_ways(
    folder: Path, limit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", "base-*", "slow-*", "--fail-over", limit, "--json"])
    assert json.loads(capsys.readouterr().out)["fail_over"] == pytest.approx(0.05)


def test_json_junit_and_markdown_say_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "base-*", "slow-*", "--json", "--junit", "out.xml"]) == 1
    assert json.loads(capsys.readouterr().out)["outcome"] == "regression"
    suite = Xml.parse(folder / "out.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.attrib["failures"] == "2"  # the undisturbed step, and the loop
    assert main(["compare", "base-*", "slow-*", "--markdown", "out.md"]) == 1
    assert (folder / "out.md").read_text().startswith("## Regression")
    capsys.readouterr()
    assert main(["compare", "base-*", "slow-*", "--markdown"]) == 1
    assert capsys.readouterr().out == (folder / "out.md").read_text()


def test_a_summary_of_before_there_were_fast_steps_is_made_anew_from_the_events(
    folder: Path,
) -> None:
    path = folder / "runs" / "base-0" / "summary.json"
    old = json.loads(path.read_text())
    del old["steps"]["fast_ms"]
    path.write_text(json.dumps(old))

    # This folder has no events: what they would tell is that there is no loop.
    assert read_figures(folder / "runs" / "base-0").remarks[0] == "no training loop was found in it"
