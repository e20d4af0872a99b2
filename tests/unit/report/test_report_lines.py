from __future__ import annotations

import io

import pytest
from rich.console import Console

from stepscope.model.lines import FunctionTime, LineProfile, LineTime
from stepscope.report.lines import Source, render_lines

MS = 1_000_000
SOURCE = {
    12: "    for x in loader:",
    13: "        y = model(x)  [bold]not markup",
    14: "\treturn y\x1b[2J",
}


def line(number: int, own: int, total: int, of: int = 1000) -> LineTime:
    return LineTime("train.py", number, "step", own * MS, total * MS, total, total / of)


def made(*lines: LineTime, function: str = "step", file: str = "train.py") -> FunctionTime:
    total = sum(one.total_ns for one in lines)
    return FunctionTime(file, function, sum(one.self_ns for one in lines), total, 9, 0.8, lines)


PROFILE = LineProfile(
    1000 * MS, 950, 0, (made(line(12, 0, 0), line(13, 0, 700), line(14, 100, 100)),)
)


def shown(
    profile: LineProfile, source: Source, encoding: str = "utf-8", width: int = 80, title: str = ""
) -> str:
    written = io.BytesIO()
    file = io.TextIOWrapper(written, encoding=encoding, newline="")
    render_lines(profile, Console(file=file, width=width, color_system=None), source, title)
    file.flush()
    return written.getvalue().decode(encoding)


def words(row: str) -> str:
    return " ".join(row.split())


def source(_: str, number: int) -> str:
    return SOURCE.get(number, "")


def test_a_function_is_shown_line_by_line_with_its_source() -> None:
    rows = shown(PROFILE, source, title="fit").splitlines()
    assert rows[0] == "lines of fit · 1,000.0 ms · 950 samples"
    assert rows[2] == "step"
    assert rows[3] == "80.0 % · 800.0 ms · own 100.0 ms · train.py"
    assert words(rows[4]) == "line total ms own ms share"
    assert words(rows[5]) == "12 0.0 0.0 % for x in loader:"
    assert words(rows[6]) == "13 700.0 70.0 % ████▎ y = model(x) [bold]not markup"
    assert words(rows[7]) == "14 100.0 100.0 10.0 % ▋ return y·[2J"
    assert rows[6].index("y = model(x)") == rows[5].index("for x") + 4  # indented as in the file
    assert rows[5].index("for x") == 46  # but for what they share


def test_columns_stand_below_each_other_and_fit_80_characters() -> None:
    long = made(*(line(n, n, 10**n // 10, 10**6) for n in range(1, 7)), file="/a/deep/path" * 20)
    text = shown(LineProfile(10**12, 5, 0, (long,)), lambda *_: "x = " + "very_long_name " * 40)
    assert max(map(len, text.splitlines())) <= 80
    rows = [row for row in text.splitlines() if "very_long" in row]
    assert len({row.index("x = very") for row in rows}) == 1
    assert len({row.index("%") for row in rows}) == 1
    assert {row.index("x = very") - row.index("%") for row in rows} == {11}  # a bar of six between


def test_a_source_that_cannot_be_read_is_left_out() -> None:
    def fails(file: str, number: int) -> str:
        raise OSError(file, number)

    assert "700.0" in shown(PROFILE, fails)


def test_lines_of_megabytes_and_control_characters_are_tamed() -> None:
    text = shown(PROFILE, lambda *_: "a\r\x00\u202e" + "b" * 10_000_000, width=300)
    assert len(text) < 3000
    assert not set("\r\x00\u202e") & set(text)
    odd = LineProfile(1, 1, 0, (made(line(1, 1, 1), function="a\x1b[0mb", file="x\ny.py"),))
    assert "a·[0mb" in shown(odd, source)
    assert "x·y.py" in shown(odd, source)


def test_a_terminal_without_unicode_gets_plain_characters() -> None:
    text = shown(PROFILE, source, encoding="ascii")
    assert "70.0 %  ####" in text
    assert text.isascii()


def test_what_is_not_shown_is_said() -> None:
    many = tuple(made(line(n, 1, 1), function=f"f{n}") for n in range(1, 15))
    text = shown(LineProfile(1000 * MS, 1, 20 * MS, many), source)
    assert "… and 4 functions more" in text
    assert "f10" in text
    assert "f11" not in text
    assert "20.0 ms were spent in stacks that have no name" in text
    assert "1 sample\n" in text


@pytest.mark.parametrize("title", ["", "fit"])
def test_a_block_without_samples_says_so(title: str) -> None:
    assert "no samples" in shown(LineProfile(), source, title=title)
