from __future__ import annotations

import pytest

from stepscope.analyze.user_code import named_function


@pytest.mark.parametrize(
    ("function", "named"),
    [
        ("main", "main"),
        ("Photos.jitter", "Photos.jitter"),
        ("main.<locals>.smooth", "main.<locals>.smooth"),
        ("Notes.clean.<locals>.<listcomp>", "Notes.clean"),
        ("distance.<locals>.<genexpr>", "distance"),
        ("f.<locals>.<dictcomp>", "f"),
        ("f.<locals>.<setcomp>", "f"),
        ("HardSamples.on_step_end.<locals>.<lambda>", "HardSamples.on_step_end"),
        ("f.<locals>.<lambda>.<locals>.<listcomp>", "f"),
        ("f.<locals>.<lambda>.<locals>.named", "f.<locals>.<lambda>.<locals>.named"),
        ("Net.<lambda>", "Net"),
        ("Files.batches.<generator>", "Files.batches"),
        ("<lambda>", "<module>"),
        ("<listcomp>.<locals>.<lambda>", "<module>"),
        ("<module>", "<module>"),
        ("", ""),
    ],
)
def test_comprehensions_and_lambdas_belong_to_the_function_they_stand_in(
    function: str, named: str
) -> None:
    assert named_function(function) == named
