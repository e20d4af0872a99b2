from __future__ import annotations

import os
from pathlib import Path

from stepscope.launch.environment import child_environment

RUN, STATUS = Path("/runs/a"), Path("/status")


def made(**before: str) -> dict[str, str]:
    return child_environment(before, RUN, STATUS)


def test_the_bootstrap_is_first_and_the_users_own_path_behind_it() -> None:
    first, *rest = made(PYTHONPATH=f"/a{os.pathsep}/b")["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "sitecustomize.py").is_file()
    assert rest == ["/a", "/b"]


def test_an_empty_path_does_not_become_the_current_folder() -> None:
    for environment in (made(), made(PYTHONPATH="")):
        assert not environment["PYTHONPATH"].endswith(os.pathsep)
        assert len(environment["PYTHONPATH"].split(os.pathsep)) == 1


def test_a_run_within_a_run_names_the_bootstrap_once() -> None:
    inner = made(**made())
    assert inner["PYTHONPATH"].count("bootstrap") == 1


def test_the_child_is_told_where_and_how_to_record() -> None:
    environment = made(HOME="/home/me")
    assert environment["HOME"] == "/home/me"
    assert environment["STEPSCOPE_RUN"] == "/runs/a"
    assert environment["STEPSCOPE_STATUS"] == "/status"
    assert (Path(environment["STEPSCOPE_PACKAGE"]) / "stepscope").is_dir()
