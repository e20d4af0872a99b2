from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.errors import RunNotFoundError
from stepscope.session.run_groups import find_runs
from stepscope.store.rundir import write_meta


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for place, name in enumerate(("base-1", "base-2", "new-1")):
        (folder / name).mkdir(parents=True)
        write_meta(folder / name, {"name": name, "started_unix": float(place)})
    return folder


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def test_a_name_a_path_and_the_latest(runs: Path) -> None:
    assert names(find_runs(runs, "base-2")) == ["base-2"]
    assert names(find_runs(runs, str(runs / "base-1"))) == ["base-1"]
    assert names(find_runs(runs, "latest")) == ["new-1"]


def test_a_list_with_commas_names_each_run_once(runs: Path) -> None:
    assert names(find_runs(runs, "new-1, base-1,new-1")) == ["new-1", "base-1"]


def test_a_pattern_of_names_gives_the_oldest_first(runs: Path) -> None:
    assert names(find_runs(runs, "base-*")) == ["base-1", "base-2"]
    assert names(find_runs(runs, "*-1")) == ["base-1", "new-1"]


def test_a_pattern_of_paths(runs: Path) -> None:
    assert names(find_runs(Path("elsewhere"), f"{runs}/base-*")) == ["base-1", "base-2"]


def test_a_folder_of_runs_gives_all_in_it(runs: Path) -> None:
    assert names(find_runs(Path("elsewhere"), str(runs))) == ["base-1", "base-2", "new-1"]


@pytest.mark.parametrize("wanted", ["nothing", "nothing-*", "", ","])
def test_what_names_no_run_is_refused(runs: Path, wanted: str) -> None:
    with pytest.raises(RunNotFoundError, match="stepscope runs lists"):
        find_runs(runs, wanted)


def test_a_folder_without_runs_is_refused(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunNotFoundError, match="not a run"):
        find_runs(runs, str(tmp_path / "empty"))
