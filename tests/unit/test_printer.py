from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import stepscope
from stepscope.printer import in_one_line, make_visible, say, show, show_exactly
from stepscope.report.console import console_on

CLIPBOARD = "\x1b]52;c;cm0gLXJm\x07"
SOURCES = Path(stepscope.__file__).parent
# Files that may write to stdout or stderr themselves, and why.
WRITERS = {
    "printer.py": "is the printer",
    "bootstrap/sitecustomize.py": "runs in any Python, without stepscope; writes a repr",
    "collect/replay.py": "answers its parent through a pipe",
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, – × → and\ttabs\n", "plain, – × → and\ttabs\n"),
        (CLIPBOARD, "\\u001b]52;c;cm0gLXJm\\u0007"),
        ("\x9b31m", "\\u009b31m"),
        ("a\rb\x7f\x00", "a\\u000db\\u007f\\u0000"),
        ("\u202eexe.txt\u2066", "\\u202eexe.txt\\u2066"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\udb40\\udc41"),
    ],
)
def test_hidden_characters_are_spelled_out(text: str, shown: str) -> None:
    assert make_visible(text) == shown


def test_a_json_document_says_the_same_when_it_is_made_visible() -> None:
    document = {"name": f"{CLIPBOARD}\x85\x9b\u202e\U000e0041 ü"}
    assert json.loads(make_visible(json.dumps(document, ensure_ascii=False))) == document


def test_a_message_stays_one_line() -> None:
    assert in_one_line("a\nstepscope: b\tc") == "a stepscope: b c"


def test_messages_and_output_are_made_visible(capsys: pytest.CaptureFixture[str]) -> None:
    show(CLIPBOARD)
    say(f"no run {CLIPBOARD}\nstepscope: all is well")
    printed = capsys.readouterr()
    assert printed.out == "\\u001b]52;c;cm0gLXJm\\u0007\n"
    expected = "stepscope: no run \\u001b]52;c;cm0gLXJm\\u0007 stepscope: all is well\n"
    assert printed.err == expected


def test_a_closed_stderr_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stderr in (None, closed):
        monkeypatch.setattr(sys, "stderr", stderr)
        say("nobody hears this")


class _Screen(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_a_diff_is_exact_in_a_pipe_and_visible_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe, screen = io.BytesIO(), io.BytesIO()
    for stdout in (io.TextIOWrapper(pipe), _Screen(screen)):
        monkeypatch.setattr(sys, "stdout", stdout)
        show_exactly(f"+{CLIPBOARD}\udcff\n")
        stdout.flush()
    assert pipe.getvalue() == b"+\x1b]52;c;cm0gLXJm\x07\xff\n"
    assert screen.getvalue() == b"+\\u001b]52;c;cm0gLXJm\\u0007\\udcff\n"


def test_a_console_keeps_our_colours_and_shows_foreign_escapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    file = io.StringIO()
    table = Table(box=None)
    table.add_column(CLIPBOARD)
    table.add_row(Text(CLIPBOARD, "bold red"), f"[link=http://evil]{CLIPBOARD}")
    console = console_on(file, 200)
    console.print(table)
    console.print(CLIPBOARD)
    console.print(Text(f"{CLIPBOARD}\u202e", "green"))
    written = file.getvalue()
    assert "\x1b[1;31m" in written
    assert "\x1b[32m" in written
    assert "[link=http://evil]" in written
    assert written.count("\\u001b]52;c;cm") == 5
    assert not any(hidden in written for hidden in ("\x1b]", "\x07", "\u202e"))


def test_nothing_but_the_printer_writes_to_the_terminal() -> None:
    """print() is ruff's (T20); these ways around it are ours to find."""
    found = {
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in SOURCES.rglob("*.py")
        if path.relative_to(SOURCES).as_posix() not in WRITERS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and _writes(ast.unparse(node.func))
    }
    assert found == set()


def _writes(function: str) -> bool:
    streams = ("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__")
    ends = (".write", ".writelines", ".buffer.write")
    return function in ("print", "Console", "rich.console.Console", "rich.print") or (
        function.startswith(streams) and function.endswith(ends)
    )
