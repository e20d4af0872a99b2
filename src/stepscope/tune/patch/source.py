"""A file of the user's as a syntax tree, and the edits that are planned for it."""

from __future__ import annotations

import io
import sysconfig
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import libcst as cst
from libcst import metadata as meta

from stepscope.tune.patch.check import CheckFailed, check_only_touched
from stepscope.tune.patch.values import Edit

__all__ = ["Refuse", "Source", "read_source", "same"]

Statement = cst.BaseCompoundStatement | cst.SimpleStatementLine
Node = TypeVar("Node", bound=cst.CSTNode)
Op = Callable[[Any], Any]

_FOREIGN = ("site-packages", "dist-packages")


class Refuse(Exception):  # noqa: N818 - an answer, not an error
    """This edit cannot be made. The text says why, to the user."""


def same(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether both say the same, however they are laid out."""
    empty = cst.Module([])
    return "".join(empty.code_for_node(one).split()) == "".join(empty.code_for_node(other).split())


class Source:
    """Nodes are those of the text as it was read; edits are kept by node and made all at once."""

    def __init__(self, path: Path, text: str, encoding: str) -> None:
        self.path, self.text, self.encoding = path, text, encoding
        wrapper = meta.MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        self.module = wrapper.module
        self._positions = wrapper.resolve(meta.PositionProvider)
        self._parents = wrapper.resolve(meta.ParentNodeProvider)
        self._scopes = wrapper.resolve(meta.ScopeProvider)
        self._ops: dict[cst.CSTNode, dict[str, Op]] = {}
        self._after: dict[cst.CSTNode, list[Statement]] = {}
        self.notes: list[str] = []

    # What the tree says.

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """First and last line."""
        place = self._positions[node]
        return place.start.line, place.end.line

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def around(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What the node stands in, from the inside out."""
        found = self.parent(node)
        while found is not None:
            yield found
            found = self.parent(found)

    def enclosing(self, node: cst.CSTNode, kind: type[Node]) -> Node | None:
        return next((outer for outer in self.around(node) if isinstance(outer, kind)), None)

    def all(self, kind: type[Node]) -> list[Node]:
        return [node for node in self._positions if isinstance(node, kind)]

    def scope(self, node: cst.CSTNode) -> meta.Scope | None:
        return next(
            (found for one in (node, *self.around(node)) if (found := self._scopes.get(one))), None
        )

    def code(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node)

    def where(self, node: cst.CSTNode) -> str:
        return f"{self.path.name}:{self.lines(node)[0]}"

    # What is to become of it.

    def change(self, node: Node, op: Callable[[Node], cst.CSTNode], what: str) -> None:
        """op: from the node, as earlier edits left it, to what shall stand there.

        what: names the edit; the same one is made once at a node, however often it is asked for.
        """
        self._ops.setdefault(node, {}).setdefault(what, op)

    def insert_after(self, statement: cst.CSTNode, line: str, *, apart: bool = False) -> None:
        """A line that stands there already, or is planned, is not inserted again.

        apart: with an empty line before it.
        """
        planned = self._after.setdefault(statement, [])
        made = cst.parse_statement(line, self.module.config_for_parsing)
        if any(same(made, other) for other in (*planned, *self._from_there(statement))):
            return
        empty = [cst.EmptyLine(indent=False)] if apart and not planned else []
        planned.append(made.with_changes(leading_lines=empty))

    def note(self, node: cst.CSTNode, text: str) -> None:
        sentence = f"{self.where(node)}: {text}"
        if sentence not in self.notes:
            self.notes.append(sentence)

    def planned(self) -> Any:
        """A mark to go `back` to."""
        return (
            {node: {**ops} for node, ops in self._ops.items()},
            {node: [*lines] for node, lines in self._after.items()},
            [*self.notes],
        )

    def back(self, mark: Any) -> None:
        """What was planned since then is not."""
        self._ops, self._after, self.notes = mark

    def _from_there(self, statement: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """It and what follows it in its block."""
        block = self.parent(statement)
        if not isinstance(block, cst.Module | cst.IndentedBlock):
            return ()
        body: Sequence[cst.CSTNode] = block.body
        return body[next(i for i, one in enumerate(body) if one is statement) :]

    def edit(self) -> Edit | None:
        """None: nothing is planned, or all is so already. Refuse: the result would be no good."""
        try:
            after = self.module.visit(_Editor(self._ops, self._after)).code
        except (cst.CSTValidationError, RecursionError) as error:
            raise Refuse(f"{self.path.name} cannot be edited ({error})") from error
        if after == self.text:
            return None
        touched = [self.lines(node) for node in self._ops if node is not self.module]
        try:
            check_only_touched(self.text, after, touched, str(self.path))
        except CheckFailed as error:
            raise Refuse(str(error)) from error
        return Edit(str(self.path), self.text, after, self.encoding)


class _Editor(cst.CSTTransformer):
    def __init__(
        self,
        ops: Mapping[cst.CSTNode, Mapping[str, Op]],
        after: Mapping[cst.CSTNode, Sequence[Statement]],
    ) -> None:
        super().__init__()
        self._ops, self._after = ops, after

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        for op in self._ops.get(original_node, {}).values():
            updated_node = op(updated_node)
        following = self._after.get(original_node)
        return cst.FlattenSentinel([updated_node, *following]) if following else updated_node


def read_source(file: str | None, root: Path) -> Source:
    """Refuse: it is none that may be edited, or it cannot be read."""
    if file is None:
        raise Refuse("it took hold of no line of your program")
    if file.startswith("<") or "ipykernel_" in file:
        raise Refuse(f"the call is in {file}, which is no file that could be edited")
    path = (root / file).resolve()
    if not path.is_relative_to(root.resolve()):
        raise Refuse(f"{path} lies outside {root}, and only files in there are edited")
    if any(part in _FOREIGN for part in path.parts) or path.is_relative_to(_library()):
        raise Refuse(f"{path} belongs to an installed package")
    return _parsed(path)


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib")).resolve()


def _parsed(path: Path) -> Source:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Refuse(f"{path} cannot be read ({error.strerror})") from error
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return Source(path, content.decode(encoding), encoding)
    except (SyntaxError, ValueError, RecursionError, cst.ParserSyntaxError) as error:
        raise Refuse(f"{path.name} cannot be parsed ({type(error).__name__})") from error
