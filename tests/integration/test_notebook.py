"""The magics in a real kernel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.timed

nbformat: Any = pytest.importorskip("nbformat")
nbclient: Any = pytest.importorskip("nbclient")

LOOP = """\
%%stepscope training
import time
import torch
from torch import nn

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.randn(16)

model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(Slow(), batch_size=4):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
CELLS = {
    "before": "%stepscope",
    "load": "%load_ext stepscope",
    "nothing yet": "%stepscope",
    "training": LOOP,
    "plain": "%%stepscope\nanswer = sum(range(2_000_000))\nanswer * 2",
    "names": "answer",
    "failing": "%%stepscope <b>bad</b>\nsteps = 1\n\nsteps / 0",
    "after": "steps",
    "magic inside": "%%stepscope\n%time pass",
    "wrong": "%%stepscope\nthis is no Python",
    "awaiting": "%%stepscope\nimport asyncio\nawait asyncio.sleep(0)",
    "statement": "%stepscope sorted(range(100_000))[0]",
    "report": "%stepscope",
    "unload": "%unload_ext stepscope",
    "gone": "%stepscope",
}


class Output(NamedTuple):
    """Of one cell."""

    plain: str  # what was displayed, and the value of its last line
    html: str
    error: str
    stderr: str


def of(cell: Any) -> Output:
    data = [one["data"] for one in cell.outputs if "data" in one]
    errors = ["\n".join(one["traceback"]) for one in cell.outputs if one.output_type == "error"]
    return Output(
        "\n".join(one.get("text/plain", "") for one in data),
        "\n".join(one.get("text/html", "") for one in data),
        re.sub(r"\x1b\[[\d;]*m", "", "\n".join(errors)),
        "".join(one.get("text", "") for one in cell.outputs if one.get("name") == "stderr"),
    )


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Output]:
    """Every cell, run in order by a kernel of this interpreter."""
    folder = tmp_path_factory.mktemp("notebook")
    kernel = folder / "jupyter" / "kernels" / "here"
    kernel.mkdir(parents=True)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": start, "display_name": "here", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), "utf-8")
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.MonkeyPatch.context() as patch:
        for name, part in (
            ("JUPYTER_PATH", "jupyter"),
            ("JUPYTER_RUNTIME_DIR", "runtime"),
            ("JUPYTER_CONFIG_DIR", "config"),
            ("IPYTHONDIR", "ipython"),
        ):
            patch.setenv(name, str(folder / part))
        client = nbclient.NotebookClient(
            notebook,
            timeout=120,
            kernel_name="here",
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute()
    return dict(zip(CELLS, map(of, notebook.cells), strict=True))


def test_the_verdict_of_a_training_loop_names_what_it_waits_for(
    outputs: dict[str, Output],
) -> None:
    found = outputs["training"]
    assert found.error == ""
    heading, verdict, *_ = found.plain.splitlines()
    assert re.fullmatch(r"stepscope · training · 16 steps · [\d.]+ steps/s", heading)
    assert verdict.startswith("Input-bound: ")
    assert verdict in found.html


def test_the_phases_of_the_loop_are_drawn_and_its_figures_follow(
    outputs: dict[str, Output],
) -> None:
    found = outputs["training"]
    assert re.search(r"^  input wait +\d+ %  █", found.plain, re.MULTILINE)
    assert re.search(r"^wall .* · CPU .* · peak RAM .*", found.plain, re.MULTILINE)
    assert re.search(r'<svg .*aria-label="input wait \d+ %, ', found.html)
    assert re.search(r"<polyline .*peak \d", found.html)
    assert "num_workers" in found.plain
    assert "num_workers" in found.html


def test_nothing_in_the_output_needs_a_script_or_the_network(outputs: dict[str, Output]) -> None:
    html = outputs["training"].html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "<script" not in html
    assert "http" not in html


def test_a_plain_cell_shows_its_value_and_what_it_did(outputs: dict[str, Output]) -> None:
    found = outputs["plain"]
    value = 2 * sum(range(2_000_000))
    assert str(value) in found.plain
    assert "computing" in found.plain
    assert "computing" in found.html
    assert outputs["names"].plain == str(value // 2)  # it ran in the user's namespace


def test_an_error_shows_as_usual_and_so_does_what_was_measured(outputs: dict[str, Output]) -> None:
    found = outputs["failing"]
    assert "ZeroDivisionError: division by zero" in found.error
    assert re.search(
        r"line 4\n(.*\n)*-+> 4 steps / 0", found.error
    )  # as it is numbered in the cell
    assert "integrations/jupyter.py" not in found.error
    assert "partial: ZeroDivisionError ended it" in found.plain
    assert outputs["after"].plain == "1"


def test_what_the_user_wrote_is_escaped(outputs: dict[str, Output]) -> None:
    assert "&lt;b&gt;bad&lt;/b&gt;" in outputs["failing"].html
    assert "<b>" not in outputs["failing"].html


def test_magics_work_within_a_profiled_cell(outputs: dict[str, Output]) -> None:
    assert outputs["magic inside"].error == ""
    assert outputs["magic inside"].plain.startswith("stepscope · cell")


def test_a_cell_that_is_no_python_is_a_syntax_error(outputs: dict[str, Output]) -> None:
    assert "SyntaxError" in outputs["wrong"].error


def test_a_cell_that_awaits_is_told_what_to_do(outputs: dict[str, Output]) -> None:
    assert "@profile_function()" in outputs["awaiting"].stderr
    assert outputs["awaiting"].error.count("\n") == 0


def test_one_statement_is_profiled(outputs: dict[str, Output]) -> None:
    assert "stepscope · sorted(range(100_000))[0]" in outputs["statement"].plain


def test_the_report_has_everything_so_far(outputs: dict[str, Output]) -> None:
    report = outputs["report"].plain
    assert "Input-bound: " in report
    for operation in ("training", "cell", "<b>bad</b>", "sorted(range(100_000))[0]"):
        assert operation in report


def test_before_anything_was_profiled_there_is_one_line_that_says_so(
    outputs: dict[str, Output],
) -> None:
    assert outputs["nothing yet"].stderr.startswith("UsageError: ")
    assert outputs["nothing yet"].stderr.count("\n") == 1


def test_the_magics_come_and_go_with_the_extension(outputs: dict[str, Output]) -> None:
    for cell in ("before", "gone"):
        assert "`%stepscope` not found" in outputs[cell].stderr


def test_on_a_terminal_the_same_comes_as_text(tmp_path: Path) -> None:
    script = tmp_path / "session.ipy"
    script.write_text("%load_ext stepscope\n%stepscope sum(range(1_000_000))\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--colors=nocolor", str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"IPYTHONDIR": str(tmp_path / "ipython"), "PYTHONIOENCODING": "utf-8"},
    )
    assert "stepscope · sum(range(1_000_000))\n" in done.stdout
    assert re.search(r"^wall .* · CPU .* · peak RAM .*", done.stdout, re.MULTILINE)
    assert "<div" not in done.stdout
