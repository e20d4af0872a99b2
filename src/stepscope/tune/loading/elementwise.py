"""Whether code does to a batch what it does to each sample: read from its source.

Running it on some batches and comparing shows that it gave the same there. It does not show that no
sample is treated otherwise (`if index in broken`), nor that nothing is taken over the batch
(`x / x.max()` where all maxima happen to be 1). So only code is let through that can do neither:
indexing of tensors and arrays, and operations on each element.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import FunctionType, MethodType, ModuleType
from typing import Any

from stepscope.model.own_code import WRAPPER

__all__ = ["why_not_elementwise", "without_ours"]

_METHODS = {
    "abs", "add", "astype", "bfloat16", "bool", "byte", "char", "clamp", "clip", "clone",
    "contiguous", "copy", "detach", "div", "double", "exp", "float", "half", "int", "int16",
    "int32", "int64", "int8", "log", "log1p", "long", "mul", "neg", "pow", "round", "short",
    "sqrt", "sub", "tanh", "to", "true_divide", "type", "uint8",
}  # fmt: skip
_FUNCTIONS = _METHODS | {
    "array", "as_tensor", "asarray", "ascontiguousarray", "divide", "float16", "float32",
    "float64", "floor", "from_numpy", "maximum", "minimum", "multiply", "negative", "power",
    "sigmoid", "subtract", "tensor",
}  # fmt: skip
_LIBRARIES = ("torch", "numpy")
_BUILTINS = ("dict", "list", "tuple", "zip")
_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.If, ast.Pass)
_EXPRESSIONS = (
    ast.Attribute, ast.BinOp, ast.Call, ast.Constant, ast.Dict, ast.GeneratorExp, ast.List,
    ast.ListComp, ast.Name, ast.Slice, ast.Starred, ast.Subscript, ast.Tuple, ast.UnaryOp,
)  # fmt: skip
_DEPTH = 4  # functions that call functions


def why_not_elementwise(function: Any, owner: Any = None, depth: int = _DEPTH) -> str:
    """What in this function, or method of `owner`, could treat samples of a batch differently from
    each alone; "": nothing."""
    function = without_ours(function.__func__ if isinstance(function, MethodType) else function)
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__") or not depth:
        return "its code cannot be read"
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return "its source cannot be read"
    (definition,) = tree.body
    if not isinstance(definition, ast.FunctionDef) or definition.decorator_list:
        return "it is no plain function"
    return _Reader(function, owner, definition, depth).why_not()


def without_ours(function: Any) -> Any:
    """The program's own function, where collectors (collect/chain.py, transforms.py) stand before
    it."""
    while True:
        code = getattr(function, "__code__", None)
        if type(function).__module__.startswith("stepscope."):
            function = function.function
        elif code is not None and code.co_qualname == WRAPPER:
            function = function.__wrapped__
        else:
            return function


class _Reader:
    """Goes through one function. What it stumbles over, it says with the line."""

    def __init__(
        self, function: FunctionType, owner: Any, definition: ast.FunctionDef, depth: int
    ) -> None:
        self._function, self._owner, self._depth = function, owner, depth
        self._definition = definition
        arguments = definition.args.args
        self._self = arguments[0].arg if owner is not None and arguments else None
        self._local = {argument.arg for argument in arguments}

    def why_not(self) -> str:
        for statement in self._definition.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self._local.add(node.id)
        return self._block(self._definition.body)

    def _block(self, statements: list[ast.stmt]) -> str:
        for statement in statements:
            reason = self._statement(statement)
            if reason:
                return reason
        return ""

    def _statement(self, statement: ast.stmt) -> str:
        if not isinstance(statement, _STATEMENTS):
            return self._stumble(statement, "is more than indexing and arithmetic")
        if isinstance(statement, ast.If):
            if not self._is_of_the_owner(statement.test):
                return self._stumble(statement, "may treat one sample otherwise")
            return self._block(statement.body) or self._block(statement.orelse)
        for part in ast.iter_child_nodes(statement):
            reason = self._expression(part)
            if reason:
                return reason
        return ""

    def _is_of_the_owner(self, test: ast.expr) -> bool:
        """`self.x`, `not self.x`, `self.x is None`: the same for all samples."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._is_of_the_owner(test.operand)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            if isinstance(test.ops[0], (ast.Is, ast.IsNot)):
                return self._is_of_the_owner(test.left)
            return False
        return self._attribute(test) is not None

    def _attribute(self, node: ast.AST) -> str | None:
        """The name, where this is an attribute of the owner."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return node.attr if node.value.id == self._self is not None else None
        return None

    def _expression(self, node: ast.AST) -> str:
        if isinstance(node, (ast.expr_context, ast.operator, ast.unaryop)):
            return self._stumble(node, "") if isinstance(node, (ast.MatMult, ast.Not)) else ""
        if isinstance(node, ast.comprehension):
            return "it leaves some out" if node.ifs else self._parts(node)
        if not isinstance(node, (*_EXPRESSIONS, ast.keyword)):
            return self._stumble(node, "is more than indexing and arithmetic")
        if isinstance(node, ast.Call):
            return self._call(node) or self._parts(node, skip=node.func)
        name = self._attribute(node)
        if name is not None:
            return self._held(name)
        if isinstance(node, ast.Attribute) and self._library(node) is None:
            return self._stumble(node, "is an attribute that is not known")
        return "" if isinstance(node, ast.Attribute) else self._parts(node)

    def _parts(self, node: ast.AST, skip: ast.AST | None = None) -> str:
        for part in ast.iter_child_nodes(node):
            reason = "" if part is skip else self._expression(part)
            if reason:
                return reason
        return ""

    def _call(self, node: ast.Call) -> str:
        function = node.func
        name = self._attribute(function)
        if name is not None:
            method = getattr(type(self._owner), name, None) or vars(self._owner).get(name)
            owner = self._owner if hasattr(type(self._owner), name) else None
            return why_not_elementwise(method, owner, self._depth - 1)
        if isinstance(function, ast.Name):
            return self._named(function)
        if not isinstance(function, ast.Attribute):
            return self._stumble(node, "calls something that is not known")
        if self._library(function) is not None:
            known = function.attr in _FUNCTIONS
        else:
            known = function.attr in _METHODS and not self._expression(function.value)
        return "" if known else self._stumble(node, f"calls {function.attr}")

    def _named(self, node: ast.Name) -> str:
        if node.id in self._local:
            return self._stumble(node, f"calls {node.id}")
        found = self._function.__globals__.get(node.id)
        if found is None:
            return "" if node.id in _BUILTINS else self._stumble(node, f"calls {node.id}")
        if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields"):
            return ""
        return why_not_elementwise(found, None, self._depth - 1)

    def _library(self, node: ast.Attribute) -> ModuleType | None:
        """torch or numpy, where this is an attribute of it."""
        if not isinstance(node.value, ast.Name) or node.value.id in self._local:
            return None
        found = self._function.__globals__.get(node.value.id)
        name = getattr(found, "__name__", "").split(".")[0]
        return found if isinstance(found, ModuleType) and name in _LIBRARIES else None

    def _held(self, name: str) -> str:
        value = vars(self._owner).get(name, getattr(type(self._owner), name, None))
        return "" if _is_data(value) else f"it uses {name}, of which nothing is known"

    def _stumble(self, node: ast.AST, why: str) -> str:
        line = getattr(node, "lineno", 1) + self._function.__code__.co_firstlineno - 1
        return f"line {line} {why}".strip()


def _is_data(value: Any, depth: int = 2) -> bool:
    """Tensors, arrays, numbers and words, and tuples of them: what indexing treats alike."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return True
    if type(value) in (list, tuple) and depth:
        return all(_is_data(one, depth - 1) for one in value)
    kind = type(value)
    return (kind.__module__, kind.__name__) in {
        ("torch", "Tensor"), ("numpy", "ndarray"), ("torch", "dtype"), ("torch", "device"),
    } or isinstance(value, type)  # fmt: skip
