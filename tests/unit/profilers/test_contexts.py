from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from stepscope import NoResultsError, ProfilingConfig, UsageError, profile_context, profile_function
from stepscope.model.own_code import is_ours
from stepscope.profilers import contexts

# Functions of one name that are defined in different tests are different operations.


def calls_of(function: Any) -> tuple[int, int]:
    """How often it was measured, and how often of these an exception left it."""
    metrics = function.get_metrics()
    return metrics.calls, metrics.failed_calls


class TestFunctions:
    def test_a_call_is_a_run_and_gives_what_the_function_gives(self) -> None:
        @profile_function()
        def add(a: int, b: int = 2) -> int:
            """Adds."""
            return a + b

        assert (add(1), add(1, b=4)) == (3, 5)
        assert (add.__name__, add.__doc__) == ("add", "Adds.")
        assert calls_of(add) == (2, 0)

    def test_an_exception_passes_and_is_counted(self) -> None:
        @profile_function()
        def fail() -> None:
            raise KeyError("x")

        with pytest.raises(KeyError):
            fail()
        assert calls_of(fail) == (1, 1)
        assert fail.get_metrics().is_partial  # type: ignore[attr-defined]

    @pytest.mark.parametrize("kind", ["plain", "generator", "coroutine"])
    def test_a_traceback_has_no_frames_of_the_decorator(self, kind: str) -> None:
        @profile_function()
        def plain() -> None:
            raise KeyError("x")

        @profile_function()
        def generator() -> Iterator[int]:
            yield 1
            raise KeyError("x")

        @profile_function()
        async def coroutine() -> None:
            raise KeyError("x")

        calls: dict[str, Callable[[], object]] = {
            "plain": plain,
            "generator": lambda: list(generator()),
            "coroutine": lambda: asyncio.run(coroutine()),
        }
        with pytest.raises(KeyError) as caught:
            calls[kind]()
        assert caught.traceback[-1].name == kind
        assert not [one for one in caught.traceback if is_ours(str(one.path))]

    def test_recursion_counts_every_call(self) -> None:
        @profile_function()
        def factorial(n: int) -> int:
            return 1 if n == 0 else n * factorial(n - 1)

        assert factorial(10) == 3_628_800
        assert calls_of(factorial) == (11, 0)

    def test_methods_of_every_kind(self) -> None:
        class Model:
            @profile_function()
            def method(self, x: int) -> tuple[Any, int]:
                return self, x

            @profile_function()
            @classmethod
            def of_class(cls) -> type:
                return cls

            @staticmethod
            @profile_function()
            def static(x: int) -> int:
                return x

            @profile_function()
            @staticmethod
            def static_too(x: int) -> int:
                return x

        model = Model()
        assert model.method(1) == (model, 1)
        assert (Model.of_class(), model.of_class()) == (Model, Model)
        assert (Model.static(2), model.static_too(3)) == (2, 3)
        assert calls_of(Model.method) == (1, 0)
        assert calls_of(Model.of_class) == (2, 0)
        assert calls_of(Model.static_too) == (1, 0)

    def test_functions_of_one_name_are_not_mixed(self) -> None:
        def make(value: int) -> Callable[[], int]:
            if value == 1:

                def same() -> int:
                    return 1
            else:

                def same() -> int:
                    return 2

            return profile_function()(same)

        one, two = make(1), make(2)
        assert (one(), two(), two()) == (1, 2, 2)
        assert (calls_of(one), calls_of(two)) == ((1, 0), (2, 0))

    def test_a_part_of_the_calls(self) -> None:
        @profile_function(ProfilingConfig(sampling_rate=0.1))
        def some() -> None:
            pass

        for _ in range(2000):
            some()
        assert 100 < calls_of(some)[0] < 320  # 200 ± 9 sigma

    def test_switched_off_it_is_the_function_itself(self) -> None:
        def plain() -> None:
            pass

        assert profile_function(ProfilingConfig(enabled=False))(plain) is plain

    def test_before_the_first_call_there_are_no_metrics(self) -> None:
        @profile_function(name="mine")
        def never() -> None:
            pass

        with pytest.raises(NoResultsError, match="mine was not called yet"):
            never.get_metrics()  # type: ignore[attr-defined]

    @pytest.mark.parametrize("wrong", [3, "x", dict])
    def test_it_goes_on_functions_only(self, wrong: Any) -> None:
        with pytest.raises(UsageError, match="goes on a function"):
            profile_function()(wrong)

    def test_without_brackets_it_says_how(self) -> None:
        with pytest.raises(UsageError, match=r"@profile_function\(\)"):
            profile_function(lambda: None)  # type: ignore[arg-type]

    def test_a_partial_is_a_function_too(self) -> None:
        part = profile_function(name="part")(functools.partial(int, base=2))
        assert part("101") == 5
        assert calls_of(part) == (1, 0)


class TestGenerators:
    def test_each_resumption_is_a_run_and_what_the_consumer_does_is_none(self) -> None:
        @profile_function()
        def count(n: int) -> Generator[int, None, str]:
            yield from range(n)
            return "end"

        def outer() -> Iterator[Any]:
            ended = yield from count(3)
            yield ended

        assert list(outer()) == [0, 1, 2, "end"]
        assert calls_of(count) == (4, 0)

    def test_send_throw_and_close_reach_it(self) -> None:
        seen: list[Any] = []

        @profile_function()
        def talk() -> Generator[int, Any, None]:
            try:
                while True:
                    try:
                        seen.append((yield len(seen)))
                    except ValueError as error:
                        seen.append(repr(error))
            finally:
                seen.append("closed")

        talking = talk()
        assert next(talking) == 0
        assert talking.send("hello") == 1
        assert talking.throw(ValueError("thrown")) == 2
        talking.close()
        assert seen == ["hello", "ValueError('thrown')", "closed"]
        with pytest.raises(StopIteration):
            next(talking)

    def test_an_exception_inside_passes_and_is_counted(self) -> None:
        @profile_function()
        def breaking() -> Iterator[int]:
            yield 1
            raise KeyError("x")

        steps = breaking()
        assert next(steps) == 1
        with pytest.raises(KeyError):
            next(steps)
        assert calls_of(breaking) == (2, 1)

    def test_one_that_is_thrown_in_and_not_caught_comes_out(self) -> None:
        @profile_function()
        def deaf() -> Iterator[int]:
            yield 1

        steps: Any = deaf()
        next(steps)
        with pytest.raises(OSError, match="thrown"):
            steps.throw(OSError("thrown"))


class TestCoroutines:
    def test_a_coroutine_is_one_run_waiting_included(self) -> None:
        @profile_function()
        async def wait(seconds: float) -> float:
            await asyncio.sleep(seconds)
            return seconds

        async def main() -> list[float]:
            return list(await asyncio.gather(*(wait(0.05) for _ in range(20))))

        assert asyncio.run(main()) == [0.05] * 20
        assert calls_of(wait) == (20, 0)
        metrics = wait.get_metrics()  # type: ignore[attr-defined]
        assert metrics.execution_time >= 20 * 0.05
        assert metrics.shortest_time >= 0.05

    def test_a_cancelled_one_is_a_failed_run(self) -> None:
        @profile_function()
        async def forever() -> None:
            await asyncio.sleep(60)

        async def main() -> None:
            task = asyncio.create_task(forever())
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert calls_of(forever) == (1, 1)

    def test_async_generators_send_throw_and_close(self) -> None:
        seen: list[Any] = []

        @profile_function()
        async def talk() -> AsyncIterator[int]:
            try:
                while True:
                    try:
                        await asyncio.sleep(0)
                        seen.append((yield len(seen)))
                    except ValueError as error:
                        seen.append(repr(error))
            finally:
                await asyncio.sleep(0)
                seen.append("closed")

        async def main() -> None:
            talking: Any = talk()
            assert await anext(talking) == 0
            assert await talking.asend("hello") == 1
            assert await talking.athrow(ValueError("thrown")) == 2
            await talking.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(talking)

        asyncio.run(main())
        assert seen == ["hello", "ValueError('thrown')", "closed"]
        assert calls_of(talk)[0] >= 3

    def test_an_async_generator_that_breaks(self) -> None:
        @profile_function()
        async def breaking() -> AsyncIterator[int]:
            yield 1
            raise KeyError("x")

        async def main() -> list[int]:
            steps = breaking()
            got = [await anext(steps)]
            with pytest.raises(KeyError):
                await anext(steps)
            return got

        assert asyncio.run(main()) == [1]
        assert calls_of(breaking) == (2, 1)


class TestContexts:
    def test_live_and_final_metrics(self) -> None:
        with profile_context("block") as block:
            first = block.current_metrics
            assert first.execution_time is not None
            with pytest.raises(NoResultsError, match="has not ended yet"):
                _ = block.metrics
        assert block.metrics.calls == 1
        assert block.current_metrics is block.metrics
        assert first.execution_time <= (block.metrics.execution_time or 0)

    def test_an_exception_passes_and_leaves_partial_results(self) -> None:
        context = profile_context("failing")
        with pytest.raises(KeyError), context:
            raise KeyError("x")
        assert context.metrics.is_partial
        assert "partial" in context.metrics.summary()

    def test_it_cannot_be_entered_twice_at_once(self) -> None:
        context = profile_context("twice")
        with context, pytest.raises(UsageError, match="entered already"):
            context.__enter__()
        with context:
            pass
        assert context.metrics.calls == 1

    def test_switched_off_its_numbers_are_neither_more_nor_less_than_any(self) -> None:
        with profile_context("off", ProfilingConfig(enabled=False)) as block:
            usage = block.current_metrics.memory_usage
            assert usage is not None
            assert not usage > 0
            assert not usage <= 0
        assert block.bottlenecks == []

    @pytest.mark.parametrize("name", ["", None, 3, ["x"]])
    def test_a_name_is_a_text(self, name: Any) -> None:
        with pytest.raises(UsageError, match="named by a text"):
            contexts.profile_context(name)
