"""report.html in a real browser: of made-up details that fill every section, and of the demo."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from stepscope.model.finding import Location
from stepscope.report.html import render_page
from stepscope.store.source import SourceReader
from tests.integration.browser import Seen, open_browser, opened, screenshots_folder
from tests.unit.report.made_details import made_details
from tests.unit.report.made_summary import input_bound

SOURCE = Path(__file__).parents[2] / "examples" / "slow_input.py"
LINE = 1 + next(
    at for at, text in enumerate(SOURCE.read_text().splitlines()) if "image = read_png" in text
)
VIEWS = [(size, theme) for size in ("desktop", "phone") for theme in ("light", "dark")]
IN_VIEW = """element => {
    const box = element.getBoundingClientRect();
    return box.top >= 0 && box.left >= 0 && box.height > 0
        && box.bottom <= innerHeight && box.right <= innerWidth;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as made:
        yield made


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every section filled."""
    summary = input_bound()
    first = replace(summary.findings[0], location=Location(str(SOURCE), LINE, "Images.__getitem__"))
    summary = replace(summary, findings=(first, *summary.findings[1:]))
    reader = SourceReader(SOURCE.parent, None)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(summary, made_details(str(SOURCE)), reader.lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the demo, made by the commands."""
    folder = tmp_path_factory.mktemp("demo")
    _stepscope(folder, "run", "-q", "-o", "run", str(SOURCE), "--images", "320", "--epochs", "3")
    return folder / _stepscope(folder, "report", "run", "--html").strip()


def _stepscope(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "stepscope", *words]
    return subprocess.check_output(command, cwd=folder, text=True, timeout=60)


@pytest.mark.parametrize(("size", "theme"), VIEWS)
@pytest.mark.parametrize("which", ["full", pytest.param("demo", marks=pytest.mark.slow)])
def test_the_verdict_and_what_to_do_are_seen_without_scrolling(
    which: str,
    size: str,
    theme: Literal["light", "dark"],
    browser: Any,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    file: Path = request.getfixturevalue(which)
    with opened(browser, file, size, theme) as seen:
        page = seen.page
        for wanted in (".verdict h1", ".first .do", ".first .action"):
            assert page.locator(wanted).first.evaluate(IN_VIEW), wanted
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        stem = screenshots_folder(tmp_path) / f"report-{which}-{size}-{theme}"
        page.screenshot(path=f"{stem}.png")
        page.screenshot(path=f"{stem}-whole.png", full_page=True)
        assert seen.troubles == []
        assert seen.requests == [file.resolve().as_uri()]


@pytest.fixture
def seen(browser: Any, full: Path) -> Iterator[Seen]:
    with opened(browser, full, "desktop") as made:
        yield made
        assert made.troubles == []


def focused(seen: Seen) -> str:
    return str(seen.page.evaluate("document.activeElement.textContent.trim()"))


def test_the_first_key_leads_past_everything_to_the_findings(seen: Seen) -> None:
    seen.page.keyboard.press("Tab")
    assert focused(seen) == "Skip to the findings"
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.press("Tab")
    assert focused(seen).endswith("Computing samples takes 75 % of the loop.")


def test_every_finding_and_every_chart_is_reached_by_the_tab_key(seen: Seen) -> None:
    reached = set()
    where = "(at => at.closest('article, section')?.id)(document.activeElement)"
    for _ in range(120):
        seen.page.keyboard.press("Tab")
        reached.add(seen.page.evaluate(where))
    assert {"finding-1", "finding-2", "time", "code", "layers"} <= reached


def test_focus_can_be_seen(seen: Seen) -> None:
    seen.page.keyboard.press("Tab")
    width = seen.page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert float(width.removesuffix("px")) >= 2


def test_tables_are_sorted_by_keyboard(seen: Seen) -> None:
    table = seen.page.locator("#layers table").first
    button = table.get_by_role("button", name="Kept memory")
    button.focus()
    for wanted, first in (("descending", "18 MB"), ("ascending", "–")):
        seen.page.keyboard.press("Enter")
        assert button.locator("..").get_attribute("aria-sort") == wanted
        assert table.locator("tbody tr").first.locator("td").last.inner_text() == first.replace(
            " ", "\u00a0"
        )


def test_steps_are_read_out_by_pointer_and_by_arrow_keys(seen: Seen) -> None:
    plot, readout = seen.page.locator("[data-steps]"), seen.page.locator("[data-readout]")
    plot.focus()
    seen.page.keyboard.press("Home")
    assert readout.inner_text().startswith("steps 1 to 3 at 0.00 s: ")
    seen.page.keyboard.press("ArrowRight")
    assert readout.inner_text().startswith("steps 4 to 6 at ")
    plot.hover()
    assert not readout.inner_text().startswith("steps 4 to 6 at ")
    assert "input wait" in readout.inner_text()


def test_a_flame_graph_is_walked_and_zoomed_by_keyboard(seen: Seen) -> None:
    flame = seen.page.locator(".flame").first
    root = flame.locator(".frame").first
    whole = root.bounding_box()["width"]
    root.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        seen.page.keyboard.press(key)
    zoomed = seen.page.locator(".frame:focus")
    assert zoomed.bounding_box()["width"] == pytest.approx(whole, abs=6)  # its mark lies around it
    assert "__next__" in flame.locator("~ .readout").inner_text()
    seen.page.keyboard.press("Escape")
    assert zoomed.bounding_box()["width"] < whole / 2


def test_both_themes_have_enough_contrast(browser: Any, full: Path) -> None:
    """WCAG AA: 4.5 for text, of whatever stands on a plain ground of its own."""
    for theme in ("light", "dark"):
        with opened(browser, full, "desktop", theme) as seen:
            assert seen.page.evaluate(_LOW_CONTRAST) == []


_LOW_CONTRAST = """() => {
    const channels = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = (rgb) => {
        const [r, g, b] = rgb.slice(0, 3).map((value) => {
            const part = value / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = channels(getComputedStyle(at).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
    };
    const low = [];
    for (const element of document.querySelectorAll("main *:not(svg, svg *)")) {
        const texts = [...element.childNodes].filter((n) => n.nodeType === 3 && n.data.trim());
        if (!texts.length) continue;
        const pair = [light(channels(getComputedStyle(element).color)), light(ground(element))];
        const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        if (ratio < 4.5) low.push(`${element.className || element.tagName} ${ratio.toFixed(2)}`);
    }
    return [...new Set(low)];
}"""
