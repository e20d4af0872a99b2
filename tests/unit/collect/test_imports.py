from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stepscope.collect.imports import when_imported


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import from; what was imported from it is forgotten."""
    before, finders = set(sys.modules), list(sys.meta_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]
    sys.meta_path[:] = finders


def test_the_call_comes_after_the_module_has_run(folder: Path) -> None:
    (folder / "aa_one.py").write_text("early = 1\nlate = 2\n")
    seen: list[int] = []
    when_imported("aa_one", lambda module: seen.append(module.late))
    assert seen == []

    import aa_one  # type: ignore[import-not-found]

    assert seen == [2]
    assert type(aa_one.__loader__).__name__ == "SourceFileLoader"
    assert aa_one.__spec__.loader is aa_one.__loader__
    assert "exec_module" not in vars(aa_one.__loader__)


def test_a_module_that_is_there_already_is_told_at_once() -> None:
    seen: list[ModuleType] = []

    when_imported("sys", seen.append)

    assert seen == [sys]


def test_submodules_are_told(folder: Path) -> None:
    (folder / "aa_pkg").mkdir()
    (folder / "aa_pkg" / "__init__.py").touch()
    (folder / "aa_pkg" / "inner.py").touch()
    seen: list[ModuleType] = []
    when_imported("aa_pkg.inner", seen.append)

    importlib.import_module("aa_pkg")
    assert seen == []
    importlib.import_module("aa_pkg.inner")

    assert [module.__name__ for module in seen] == ["aa_pkg.inner"]


def test_an_error_in_the_call_does_not_reach_the_import(folder: Path) -> None:
    (folder / "aa_two.py").write_text("x = 1")
    errors: list[str] = []

    def raises(_: ModuleType) -> None:
        raise ValueError("ours")

    when_imported("aa_two", raises, lambda where, error: errors.append(f"{where}: {error}"))

    assert importlib.import_module("aa_two").x == 1
    assert errors == ["after the import of aa_two: ours"]


def test_a_module_that_fails_is_told_when_it_succeeds(folder: Path) -> None:
    source = folder / "aa_three.py"
    source.write_text("raise OSError('not today')")
    seen: list[ModuleType] = []
    when_imported("aa_three", seen.append)
    with pytest.raises(OSError, match="not today"):
        importlib.import_module("aa_three")
    assert seen == []

    source.write_text("x = 'a longer source, so that no cached bytecode fits'")
    importlib.invalidate_caches()
    importlib.import_module("aa_three")

    assert len(seen) == 1


def test_find_spec_tells_nobody_and_loads_as_usual(folder: Path) -> None:
    (folder / "aa_four.py").write_text("x = 4")
    seen: list[ModuleType] = []
    when_imported("aa_four", seen.append)

    spec = importlib.util.find_spec("aa_four")
    assert seen == []
    assert spec is not None
    assert spec.origin == str(folder / "aa_four.py")

    assert importlib.import_module("aa_four").x == 4
    assert len(seen) == 1


def test_reload_works_and_tells_nobody_twice(folder: Path) -> None:
    (folder / "aa_five.py").write_text("x = 5")
    seen: list[ModuleType] = []
    when_imported("aa_five", seen.append)
    module = importlib.import_module("aa_five")

    assert importlib.reload(module).x == 5
    assert len(seen) == 1


def test_namespace_packages_and_absent_modules_stay_what_they_are(folder: Path) -> None:
    (folder / "aa_space").mkdir()
    (folder / "aa_space" / "leaf.py").write_text("x = 6")
    when_imported("aa_space", lambda _: None)
    when_imported("aa_nowhere", lambda _: None)

    assert importlib.import_module("aa_space.leaf").x == 6
    with pytest.raises(ModuleNotFoundError, match="No module named 'aa_nowhere'"):
        importlib.import_module("aa_nowhere")


def test_a_loader_shared_by_many_modules_tells_only_of_the_one(folder: Path) -> None:
    archive = folder / "aa.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("aa_zipped.py", "x = 7")
        file.writestr("aa_other.py", "x = 8")
    sys.path.insert(0, str(archive))
    seen: list[str] = []
    when_imported("aa_zipped", lambda module: seen.append(module.__name__))
    importlib.util.find_spec("aa_zipped")

    assert importlib.import_module("aa_other").x == 8
    assert seen == []
    assert importlib.import_module("aa_zipped").x == 7
    assert seen == ["aa_zipped"]
    sys.path.remove(str(archive))


def test_another_hook_that_asks_everybody_does_not_go_round_in_circles(folder: Path) -> None:
    (folder / "aa_six.py").write_text("x = 6")

    class Asks:
        def find_spec(self, name: str, path: object = None, target: object = None) -> object:
            others: list[Any] = [f for f in sys.meta_path if f is not asks]
            found = (finder.find_spec(name, None) for finder in others)
            return next((spec for spec in found if spec is not None), None)

    asks: Any = Asks()
    seen: list[ModuleType] = []
    when_imported("aa_six", seen.append)
    sys.meta_path.insert(0, asks)
    when_imported("aa_seven", seen.append)

    assert importlib.import_module("aa_six").x == 6
    assert len(seen) == 1


def test_threads_that_import_at_once_lead_to_one_call(folder: Path) -> None:
    (folder / "aa_eight.py").write_text("import time; time.sleep(0.05)")
    seen: list[ModuleType] = []
    when_imported("aa_eight", seen.append)
    threads = [
        threading.Thread(target=importlib.import_module, args=("aa_eight",)) for _ in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 1
