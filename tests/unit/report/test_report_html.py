from __future__ import annotations

import base64
import doctest
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from stepscope.model.details import Details, FlameNode, HotLine, LayerTime, OpTime, PhaseStacks
from stepscope.model.finding import Finding, Location, Recommendation
from stepscope.model.memory import Memory
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.source import NO_SOURCE, SourceText
from stepscope.model.summary import Summary
from stepscope.report import units
from stepscope.report.html import render_page
from tests.unit.report.made_details import made_details, made_pipeline, made_timeline
from tests.unit.report.made_memory import made_memory
from tests.unit.report.made_summary import input_bound

VOID = {"meta", "link", "br", "img", "input", "hr"}
NASTY = (
    "</script><script>alert(1)</script>",
    "\"' onload=alert(1) x='",
    "<img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;",
)


class Page(HTMLParser):
    """Every tag with its attributes, the text, and whether what is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self._raw = html
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def source(file: str, first: int, last: int) -> SourceText:
    return SourceText(tuple(f"    line_{number}()" for number in range(first, min(last, 20) + 1)))


def nothing(file: str, first: int, last: int) -> SourceText:
    return NO_SOURCE


def test_the_verdict_comes_first_and_then_what_to_do() -> None:
    page = Page(render_page(input_bound(), made_details(), source))
    assert next(tag for tag, _ in page.tags if tag in ("h1", "h2")) == "h1"
    order = [
        page.words.index(text)
        for text in (
            "Input-bound: computing samples takes 75 %",
            "Do this first",
            "Let 3 workers prepare batches",
            "num_workers=3",
            "Where the time goes",
            "Findings 1 Computing samples takes 75 %",
            "Input pipeline",
            "Where in the code",
            "Layers and operators",
            "Resources over time",
            "About this measurement",
        )
    ]
    assert order == sorted(order)


def test_warm_up_is_told_beside_the_phases() -> None:
    summary = input_bound()
    slow_start = replace(summary, steps=replace(summary.steps, warm_up=1, warm_up_ms=5001.0))
    page = Page(render_page(slow_start, made_details(), source))
    assert "Warm-up: the first step took 5,001 ms (25 %)" in page.words


def test_nothing_is_loaded_and_only_our_own_script_and_style_may_run() -> None:
    html = render_page(input_bound(), made_details(), source)
    page = Page(html)
    assert {tag for tag, _ in page.tags} & {
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
    } == set()
    for _, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on")} | attributes.keys() & {
            "style"
        }
        for name in ("src", "href", "xlink:href", "action"):
            assert re.match("#|data:,$", attributes.get(name) or "#")
    assert "@import" not in html
    assert "url(" not in html
    (policy,) = [a["content"] for _, a in page.tags if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_ids_are_unique_and_every_reference_has_its_end() -> None:
    page = Page(render_page(input_bound(), made_details(), source))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        wanted = (attributes.get("aria-labelledby") or "").split()
        href = attributes.get("href") or ""
        wanted += [href[1:]] if href.startswith("#") else []
        assert set(wanted) <= set(ids)
    heads = [attributes for tag, attributes in page.tags if tag == "th"]
    assert heads
    assert all(attributes.get("scope") in ("row", "col") for attributes in heads)


def test_the_users_line_is_shown_with_its_neighbours_and_marked() -> None:
    html = render_page(input_bound(), None, source)
    (hot,) = re.findall(r'<span class="line hot">(.*?)</span></span>', html, re.DOTALL)
    assert "line_12()" in hot
    assert "line_9()" in html
    assert "line_15()" in html
    assert "line_16()" not in html


def test_files_that_cannot_be_read_are_left_out_and_changed_ones_told_of() -> None:
    assert "line hot" not in render_page(input_bound(), made_details(), nothing)
    changed = render_page(
        input_bound(), None, lambda *wanted: source(*wanted)._replace(changed=True)
    )
    assert "This file was changed since the run began" in changed


def test_the_stage_that_limits_the_loop_is_marked() -> None:
    html = render_page(input_bound(), made_details(), source)
    (binding,) = re.findall(r'<li class="binds hit">(.*?)</li>', html, re.DOTALL)
    assert "sample" in binding
    assert "41.20\u00a0ms" in binding
    assert "limits the loop" in binding
    assert html.count("limits the loop") == 1


def test_sections_without_data_say_why_in_one_line() -> None:
    words = Page(render_page(input_bound(), None, nothing)).words
    for text in (
        "has no time line in its details.json",
        "The stages of the input were not measured in this run.",
        "Stacks were not sampled in this run",
        "Layers were not timed in this run.",
        "Operators were not profiled in this run",
        "named no operations of its own",
    ):
        assert words.count(text) >= 1


@pytest.mark.parametrize("notes", [[], ["No training loop was found: nothing trained."]])
def test_a_run_without_a_loop_says_that_in_place_of_a_verdict(notes: list[str]) -> None:
    page = Page(render_page(Summary(run={}, coverage={"notes": notes}), None, nothing))
    assert "No verdict No training loop was found" in page.words
    assert "Do this first" not in page.words


def with_all_names(memory: Memory, name: str) -> Memory:
    growing = tuple(one._replace(why=name, held_by=(name,), made_by=name) for one in memory.growing)
    gc = replace(memory.gc, patterns=(name,)) if memory.gc else None
    devices = tuple(replace(one, device=name) for one in memory.devices)
    return replace(memory, devices=devices, growing=growing, gc=gc, notes=(name,))


def with_everything_named(name: str) -> tuple[Summary, Details]:
    location = Location(name, 3, name, name, name)
    finding = Finding(
        "input-cpu", name, 0.5, 1.0, 0.9, (name,), (name,), location,
        recommendation=Recommendation(name, name, (1.0, 2.0), name),
    )  # fmt: skip
    summary = replace(
        input_bound(),
        run={"name": name, "command": [name, name], "python": name},
        findings=(finding,),
        coverage={"notes": [name]},
        memory={"text": name},
        overhead={"text": name},
        operations=(PerformanceMetrics(operation=name, calls=3, execution_time=1.0),),
    )
    pipeline = made_pipeline()
    stages = tuple(stage._replace(name=name, where=name) for stage in pipeline.stages)
    flame = FlameNode(name, name, 1, 5.0, (FlameNode(name, name, 2, 4.0),))
    details = Details(
        pipeline=replace(pipeline, stages=stages, transforms=stages),
        stacks=(PhaseStacks(name, name, 5.0, 9, (HotLine(location, 0.5, 0.5, 0.5, 9),), flame),),
        layers=(LayerTime(name, name, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),),
        ops=(OpTime(name, 1.0, 1.0, 0.5),),
        timeline=replace(made_timeline(5), phases=(name,) * 6),
        memory=with_all_names(made_memory(name, name), name),
    )
    return summary, details


@pytest.mark.parametrize("name", NASTY)
def test_what_comes_from_the_program_is_never_markup(name: str) -> None:
    harmless = render_page(*with_everything_named("harmless"), lambda *_: SourceText(("a",) * 6))
    html = render_page(*with_everything_named(name), lambda *_: SourceText((name,) * 6))
    told = Page(html)
    wanted = Page(harmless)
    assert [tag for tag, _ in told.tags] == [tag for tag, _ in wanted.tags]
    assert [a.keys() for _, a in told.tags] == [a.keys() for _, a in wanted.tags]
    assert name in told.text


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\x00", "\x1b", "\ud800", "\ufeff"])
def test_marks_that_hide_or_turn_text_are_made_visible(mark: str) -> None:
    name = f"abc{mark}def"
    html = render_page(*with_everything_named(name), lambda *_: SourceText((name,) * 6))
    assert mark not in html
    assert f"abc\\u{ord(mark):04x}def" in Page(html).text
    html.encode()


def test_very_long_names_are_cut_in_the_middle() -> None:
    name = "a" * 50_000 + "z" * 50_000
    summary, details = with_everything_named(name)
    finding = replace(
        input_bound().findings[0], location=summary.findings[0].location
    )  # words are ours, names the user's
    page = render_page(
        replace(
            summary, findings=(finding,), coverage={}, memory={}, overhead={}, run={"name": name}
        ),
        replace(details, timeline=None, stacks=(), memory=made_memory(name, name)),
        nothing,
    )
    assert len(page) < 150_000
    assert "a…z" in page


def test_a_large_flame_is_bounded_and_says_what_was_left_out() -> None:
    wide = FlameNode(
        "f", "a.py", 1, 1000.0, tuple(FlameNode("g", "a.py", 2, 0.5) for _ in range(2000))
    )
    details = Details(stacks=(PhaseStacks("forward", "main", 1000.0, 9, (), wide),))
    html = render_page(input_bound(), details, nothing)
    assert html.count('class="frame') <= 500
    assert "frames are too small to draw" in html


def test_children_that_claim_more_than_their_parent_stay_within_it() -> None:
    greedy = FlameNode(
        "f", "a.py", 1, 10.0, tuple(FlameNode("g", "a.py", 2, 9.0) for _ in range(3))
    )
    details = Details(stacks=(PhaseStacks("forward", "main", 10.0, 9, (), greedy),))
    html = render_page(input_bound(), details, nothing)
    places = re.findall(r'class="frame[^>]* x="([\d.]+)%"[^>]* width="([\d.]+)%"', html)
    assert places == [("0", "100"), ("0", "90"), ("90", "10")]


def test_units_are_what_their_examples_say() -> None:
    assert doctest.testmod(units).failed == 0
