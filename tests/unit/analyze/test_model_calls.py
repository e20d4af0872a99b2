from __future__ import annotations

from stepscope.analyze.model_calls import by_caller
from stepscope.model.details import FlameNode
from stepscope.model.finding import Location
from tests.unit.analyze.made_evidence import node

MODULE = "/env/lib/python3.11/site-packages/torch/nn/modules/module.py"
LINEAR = "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py"


def called(ms: float) -> FlameNode:
    """The model, as torch calls it: its own forward is the user's code too."""
    linear = node("Linear.forward", LINEAR, ms / 2)
    inner = node("Module._call_impl", MODULE, ms / 2, linear)
    return node("Module._call_impl", MODULE, ms, node("Net.forward", "net.py", ms, inner))


def test_the_time_of_the_model_belongs_to_the_line_that_calls_it() -> None:
    flame = node("evaluation", "", 10, node("evaluate", "train.py", 10, called(8)))
    assert by_caller(flame) == {Location("train.py", 1, "evaluate"): 10}


def test_the_innermost_function_above_the_model_calls_it() -> None:
    generate = node("generate", "text.py", 6, called(6))
    flame = node("evaluation", "", 10, node("main", "train.py", 10, generate, called(4)))
    assert by_caller(flame) == {
        Location("text.py", 1, "generate"): 6,
        Location("train.py", 1, "main"): 4,
    }


def test_a_comprehension_that_calls_the_model_is_the_function_around_it() -> None:
    every = node("main.<locals>.<listcomp>", "train.py", 9, called(9))
    flame = node("evaluation", "", 10, node("main", "train.py", 10, every))
    assert by_caller(flame) == {Location("train.py", 1, "main"): 10}


def test_what_calls_no_model_counts_for_the_innermost_function() -> None:
    backward = node("backward", "/env/lib/python3.11/site-packages/torch/_tensor.py", 7)
    flame = node("backward", "", 10, node("train", "train.py", 7, backward), node("?", "", 3))
    assert by_caller(flame) == {Location("train.py", 1, "train"): 7}


def test_a_model_that_no_line_of_the_users_calls_has_no_caller() -> None:
    assert by_caller(node("forward", "", 5, called(5))) == {}
