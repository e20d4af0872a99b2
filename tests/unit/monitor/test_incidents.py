"""Hold, grouping, resolving, cool-down: what is told, and how often."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.model.watching import Condition
from stepscope.monitor.incidents import MOST_KEYS, Held, Incidents
from stepscope.monitor.rule_settings import Watch
from tests.unit.monitor.streams import SECOND_NS, condition

WATCH = Watch(resolve_s=5.0, cooldown_s=30.0, group_s=10.0)


class Looks:
    """A look a second: `seen` at each, and what came of it."""

    def __init__(self, watch: Watch = WATCH) -> None:
        self.incidents = Incidents(watch)
        self.second = 0
        self.log: list[tuple[int, str, tuple[str, ...]]] = []

    def look(self, *seen: Condition, hold_s: float = 0.0, times: int = 1) -> Looks:
        for _ in range(times):
            now_ns = self.second * SECOND_NS
            changes = self.incidents.update([Held(one, hold_s) for one in seen], now_ns)
            for incident in changes.opened:
                self.log.append((self.second, "opened", _keys(incident.members)))
            for incident in changes.closed:
                self.log.append((self.second, "closed", _keys(incident.members)))
            self.second += 1
        return self


def _keys(members: dict[tuple[str, str], Condition]) -> tuple[str, ...]:
    return tuple(sorted(key for _, key in members))


def test_what_goes_on_is_told_once_and_over_after_a_while() -> None:
    looks = Looks().look(condition(key="a"), times=10).look(times=10)
    assert looks.log == [(0, "opened", ("a",)), (14, "closed", ("a",))]


def test_a_moment_is_not_held_long_enough_to_be_told() -> None:
    looks = Looks()
    for _ in range(5):
        looks.look(condition(), hold_s=3.0, times=3).look()
    assert looks.log == []
    looks.look(condition(), hold_s=3.0, times=4)
    assert [(what, keys) for _, what, keys in looks.log] == [("opened", ("rank 0",))]


def test_what_holds_and_is_not_told_yet_is_pending() -> None:
    looks = Looks().look(condition(key="a"), hold_s=3.0)
    assert [one.key for one in looks.incidents.pending] == ["a"]
    looks.look(condition(key="a"), hold_s=3.0, times=3)
    assert looks.incidents.pending == [], "it is told"
    looks.look(times=6)
    assert looks.log[-1][1] == "closed"
    looks.look(condition(key="a"), hold_s=3.0, times=5)
    assert looks.incidents.pending == [], "it came back within its cool-down"


def test_a_gap_shorter_than_resolving_takes_is_no_end() -> None:
    looks = Looks()
    for _ in range(10):
        looks.look(condition()).look(times=3)
    assert [what for _, what, _ in looks.log] == ["opened"]


def test_what_comes_back_in_the_cool_down_is_counted_and_told_if_it_stays() -> None:
    looks = Looks().look(condition(), times=2).look(times=6)
    assert [what for _, what, _ in looks.log] == ["opened", "closed"]
    looks.look(condition(), times=3).look(times=3).look(condition(), times=3).look(times=2)
    assert len(looks.log) == 2
    assert looks.incidents.untold == 2
    looks.look(condition(), times=60)
    assert [what for _, what, _ in looks.log] == ["opened", "closed", "opened"]
    assert looks.incidents.open[0].returns == 3
    assert looks.log[2][0] - looks.log[1][0] == 30


def test_ranks_that_begin_together_are_one() -> None:
    ranks = [condition(key=f"rank {n}", rank=n, group="stall") for n in range(3)]
    looks = Looks().look(*ranks[:2]).look(*ranks, times=3).look(times=10)
    assert looks.log == [
        (0, "opened", ("rank 0", "rank 1")),
        (8, "closed", ("rank 0", "rank 1", "rank 2")),
    ]


def test_the_worst_of_those_that_begin_together_is_told_of() -> None:
    looks = Looks().look(
        condition(key="mild", severity=0.4, group="g"),
        condition(key="bad", severity=0.9, group="g"),
    )
    (incident,) = looks.incidents.open
    assert incident.first.key == "bad"
    assert incident.severity == 0.9


def test_what_begins_later_than_its_group_is_another() -> None:
    looks = Looks().look(condition(key="a", group="g", began_ns=0), times=20)
    looks.look(
        condition(key="a", group="g", began_ns=0),
        condition(key="b", group="g", began_ns=20 * SECOND_NS),
    )
    assert [keys for _, what, keys in looks.log if what == "opened"] == [("a",), ("b",)]


def test_the_end_of_the_run_closes_what_is_open_and_forgets_what_waits() -> None:
    looks = Looks().look(condition(key="a"))
    looks.look(condition(key="a"), condition(key="b"), hold_s=100.0)
    closed = looks.incidents.close_all(9 * SECOND_NS)
    assert [incident.ended_ns for incident in closed] == [9 * SECOND_NS]
    assert looks.incidents.open == []
    assert looks.incidents.close_all(10 * SECOND_NS) == []


def test_a_clock_that_goes_back_ends_nothing() -> None:
    incidents = Incidents(WATCH)
    incidents.update([Held(condition())], 100 * SECOND_NS)
    changes = incidents.update([], 3 * SECOND_NS)
    assert (changes.closed, len(incidents.open)) == ([], 1)


def test_a_flood_of_conditions_is_bounded_and_counted() -> None:
    incidents = Incidents(WATCH)
    many = [Held(condition(key=str(number))) for number in range(MOST_KEYS + 50)]
    changes = incidents.update(many, 0)
    assert len(changes.opened) == MOST_KEYS
    assert incidents.left_out == 50


NAMES = ["a", "b", "c", "d"]
LOOK = st.tuples(
    st.sets(st.sampled_from(NAMES)),  # what holds
    st.integers(0, 20),  # seconds since the last look
    st.floats(0.0, 1.0),  # how bad
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    looks=st.lists(LOOK, max_size=60),
    holds=st.fixed_dictionaries({name: st.sampled_from([0.0, 2.0, 15.0]) for name in NAMES}),
    groups=st.fixed_dictionaries({name: st.sampled_from(["", "x", "y"]) for name in NAMES}),
)
def test_nothing_is_told_twice_or_ended_twice_and_nothing_flaps(
    looks: list[tuple[set[str], int, float]], holds: dict[str, float], groups: dict[str, str]
) -> None:
    incidents = Incidents(WATCH)
    opened, closed = Counter[int](), Counter[int]()
    over_at: dict[str, float] = {}
    began: dict[str, int] = {}
    now_s = 0
    for names, pause_s, severity in looks:
        now_s += pause_s
        began = {name: began.get(name, now_s) for name in names}
        held = [
            Held(
                condition(
                    key=name,
                    group=groups[name],
                    severity=severity,
                    began_ns=began[name] * SECOND_NS,
                ),
                holds[name],
            )
            for name in sorted(names)
        ]
        changes = incidents.update(held, now_s * SECOND_NS)
        for incident in changes.opened:
            opened[incident.number] += 1
            key = incident.first.key
            # No flapping: the same one is not told again before its cool-down is over.
            assert now_s - over_at.get(key, -1e9) >= WATCH.cooldown_s
        for incident in changes.closed:
            closed[incident.number] += 1
            for _, key in incident.members:
                over_at[key] = now_s
        # Never two open ones with the same rule and key.
        members = [key for incident in incidents.open for key in incident.members]
        assert len(members) == len(set(members))
    for incident in incidents.close_all(now_s * SECOND_NS):
        closed[incident.number] += 1
    assert set(opened.values()) <= {1}
    assert closed == opened
