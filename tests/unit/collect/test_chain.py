from __future__ import annotations

import cProfile
import inspect
from types import CodeType
from typing import Any

import pytest

from stepscope.collect.chain import Patches, hiding, spanned
from stepscope.model import names
from stepscope.model.event import Flag
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read


class Owner:
    @staticmethod
    def fixed(x: int) -> int:
        """Adds one."""
        return x + 1

    def method(self, x: int, *, y: int = 2) -> int:
        return x + y


class Heir(Owner):
    pass


def fails(_: object) -> int:
    raise KeyError("the program's own")


def broken(*_: object, **__: object) -> Any:
    raise RuntimeError("ours")


def test_a_wrapped_call_gives_what_the_original_gives(recorder: Recorder, read: Read) -> None:
    call = spanned(recorder, names.SAVE, Owner.method, arg=lambda self, x, y=2: x)

    assert call(Owner(), 3, y=4) == 7
    assert [(row.name, row.arg, row.flags) for row in read()] == [("save", 3, 0)]


def test_an_exception_of_the_program_passes_unchanged_and_marks_the_span(
    recorder: Recorder, read: Read
) -> None:
    with pytest.raises(KeyError, match="the program's own"):
        spanned(recorder, names.SAVE, fails)(1)

    assert [row.flags for row in read("save")] == [Flag.FAILED]


def test_an_error_of_ours_is_recorded_and_the_call_goes_on(recorder: Recorder, read: Read) -> None:
    call = spanned(recorder, names.SAVE, Owner.fixed, arg=broken, done=broken)

    assert call(1) == 2
    assert recorder.failures == {names.SAVE: 2}
    assert {row.text for row in read(names.HOOK_FAILED)} == {"save: RuntimeError: ours"}


def test_a_core_that_raises_on_every_call_changes_nothing(recorder: Recorder) -> None:
    recorder.begin = recorder.end = broken
    call = spanned(recorder, names.SAVE, Owner.fixed)

    assert [call(1), call(2)] == [2, 3]
    assert recorder.failures == {names.SAVE: 4}


def test_an_error_of_ours_does_not_replace_the_programs_own(recorder: Recorder) -> None:
    call = spanned(recorder, names.SAVE, fails, arg=broken, done=broken)

    with pytest.raises(KeyError) as caught:
        call(1)

    assert caught.value.__context__ is None


def test_a_call_without_interest_records_no_span(recorder: Recorder, read: Read) -> None:
    call = spanned(recorder, names.SAVE, Owner.fixed, arg=lambda x: None)

    assert call(1) == 2
    assert read() == []


def test_the_first_call_is_announced_once(recorder: Recorder) -> None:
    announced: list[int] = []
    call = spanned(recorder, names.SAVE, Owner.fixed, first=lambda: announced.append(1))

    call(1)
    call(1)

    assert announced == [1]


def test_what_dynamo_compiles_is_not_recorded(recorder: Recorder, read: Read) -> None:
    call = spanned(recorder, names.SAVE, Owner.fixed, compiling=lambda: True)

    assert call(1) == 2
    assert read() == []


def test_a_number_can_come_from_the_outcome(recorder: Recorder, read: Read) -> None:
    seen: list[Any] = []

    def outcome(*told: Any) -> int:
        seen.append(told)
        return 77

    owner = Owner()
    call = spanned(recorder, names.SAVE, Owner.method, outcome=outcome)

    assert call(owner, 1, y=5) == 6
    assert seen == [(6, (owner, 1), {"y": 5})]
    assert [row.arg for row in read()] == [77]


def test_a_call_that_raised_has_no_result_for_its_outcome(recorder: Recorder, read: Read) -> None:
    seen: list[Any] = []

    with pytest.raises(KeyError):
        spanned(recorder, names.SAVE, fails, outcome=lambda *told: seen.append(told[0]))(1)

    assert seen == [None]
    assert [row.flags for row in read()] == [Flag.FAILED]


def test_name_signature_and_attributes_stay_those_of_the_original(recorder: Recorder) -> None:
    call = spanned(recorder, names.SAVE, Owner.method)

    assert call.__name__ == "method"
    assert call.__qualname__ == "Owner.method"
    assert list(inspect.signature(call).parameters) == ["self", "x", "y"]


def test_patches_put_everything_back() -> None:
    before = dict(vars(Owner))
    patches = Patches()
    patches.replace(Owner, "fixed", lambda f: lambda x: f(x) * 10)
    patches.replace(Owner, "method", lambda f: lambda self, x: f(self, x) * 10)
    patches.replace(Owner, "absent", lambda f: f)
    assert (Owner.fixed(1), Owner().method(1)) == (20, 30)

    patches.undo()

    assert dict(vars(Owner)) == before


def test_an_inherited_method_is_put_back_by_taking_ours_away() -> None:
    patches = Patches()
    patches.replace(Heir, "method", lambda f: lambda self, x: 0)
    assert (Heir().method(1), Owner().method(1)) == (0, 3)

    patches.undo()

    assert "method" not in vars(Heir)
    assert Heir().method(1) == 3


def test_what_somebody_wrapped_around_ours_is_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    patches = Patches()
    patches.replace(Owner, "method", lambda f: f)
    theirs = Owner.method
    monkeypatch.setattr(Owner, "method", lambda self, x: theirs(self, x) + 100)

    patches.undo()

    assert Owner().method(1) == 103


def test_an_exception_leaves_a_hiding_wrapper_without_frames_of_ours() -> None:
    def wrapper(given: object) -> int:
        return fails(given)

    with pytest.raises(KeyError) as caught:
        hiding(fails, wrapper)(1)

    assert [entry.name for entry in caught.traceback][1:] == ["fails"]
    assert caught.traceback[1].frame.code.raw.co_qualname == "fails"


def test_a_profile_of_the_program_keeps_the_entry_of_a_wrapped_function(recorder: Recorder) -> None:
    def work() -> int:
        return sum(range(100))

    wrapped = spanned(recorder, "work", work)
    profile = cProfile.Profile()
    profile.runcall(wrapped)
    entries = [
        entry.code
        for entry in profile.getstats()
        if isinstance(entry.code, CodeType) and entry.code.co_name == "work"
    ]

    assert len(entries) == 2  # the original and our wrapper, which pstats must not merge
    assert len({(code.co_filename, code.co_firstlineno) for code in entries}) == 2
