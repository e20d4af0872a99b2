"""`%load_ext stepscope`: `%%stepscope` and `%stepscope` in Jupyter and IPython."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.error import UsageError as OneLineError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from stepscope.errors import StepscopeError
from stepscope.session.cell import CellProfile, shown
from stepscope.session.last import last_run

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

_NAME = "stepscope"
_LONGEST_NAME = 60


@magics_class
class StepscopeMagics(Magics):
    @line_cell_magic
    def stepscope(self, line: str, cell: str | None = None) -> None:
        """Profile a cell or a statement, or show the report of everything so far.

        %%stepscope [name]     profiles the cell
        %stepscope statement   profiles one statement
        %stepscope             the report of what was profiled so far
        """
        __tracebackhide__ = True  # not the user's code: IPython leaves it out of tracebacks
        line = line.strip()
        if cell is None and not line:
            _show_report()
        elif cell is None:
            self._profile(_short(line), line)
        else:
            self._profile(line or "cell", cell, lines_before=1)

    def _profile(self, name: str, source: str, lines_before: int = 0) -> None:
        __tracebackhide__ = True
        shell: Any = self.shell
        pieces = _compiled(shell, source, lines_before)
        with _one_line_errors():
            profile = CellProfile(name)
            profile.open()
        failed: type[BaseException] | None = None
        try:
            for piece in pieces:
                exec(piece, shell.user_global_ns, shell.user_ns)
        except BaseException as error:
            failed = type(error)
            raise
        finally:
            with _one_line_errors():
                display(shown(profile.close(failed)), raw=True)  # type: ignore[no-untyped-call]


def _compiled(shell: Any, source: str, lines_before: int) -> list[Any]:
    """The statements, and the last one by itself if it is a value that is to be shown.

    lines_before: the magic's own line, so that line numbers are those of the cell.
    """
    code = "\n" * lines_before + shell.transform_cell(source)
    file = shell.compile.cache(code, shell.execution_count, source)
    tree = shell.compile.ast_parse(code, filename=file)
    tree = shell.transform_ast(tree)
    body = list(tree.body)
    last = [body.pop()] if body and isinstance(body[-1], ast.Expr) else []
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | shell.compile.flags
    pieces = [compile(ast.Module(body, tree.type_ignores), file, "exec", flags)]
    pieces += [compile(ast.Interactive([one]), file, "single", flags) for one in last]
    if any(piece.co_flags & inspect.CO_COROUTINE for piece in pieces):
        raise OneLineError(
            "%%stepscope cannot profile a cell that awaits: profile the coroutine with"
            " @profile_function() and await it in a cell without %%stepscope."
        )
    return pieces


def _show_report() -> None:
    with _one_line_errors():
        report = last_run().report()
    display({"text/plain": report.rstrip()}, raw=True)  # type: ignore[no-untyped-call]


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What the user can act on is a line that says how, not a traceback."""
    try:
        yield
    except StepscopeError as error:
        raise OneLineError(str(error)) from None


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext stepscope`."""
    shell.register_magics(StepscopeMagics)


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext stepscope`."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(_NAME, None)
