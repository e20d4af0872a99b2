"""`torch` in the user's file: the name that it is imported under, or a new import."""

from __future__ import annotations

import libcst as cst
from libcst import metadata as meta
from libcst.helpers import get_full_name_for_node

from stepscope.tune.patch.source import Refuse, Source

__all__ = ["after_imports", "torch_name"]


def torch_name(source: Source, node: cst.CSTNode) -> str:
    """What stands for torch at the node. Plans `import torch` where nothing does."""
    scope = source.scope(node)
    for name in _names_of_torch(source):
        found = list(scope[name]) if scope else []
        if found and all(isinstance(one, meta.ImportAssignment) for one in found):
            return name
    _plan_import(source)
    return "torch"


def _names_of_torch(source: Source) -> list[str]:
    names = []
    for statement in source.all(cst.Import):
        for alias in statement.names:
            full = get_full_name_for_node(alias.name) or ""
            if alias.asname is not None and full == "torch":
                names.append(get_full_name_for_node(alias.asname.name) or "")
            elif alias.asname is None and full.partition(".")[0] == "torch":
                names.append("torch")
    return names


def _plan_import(source: Source) -> None:
    body = source.module.body
    index = _first_after_preamble(source.module)
    if index:
        source.insert_after(body[index - 1], "import torch")
    else:
        source.change(source.module, _import_first, "import torch")


def _import_first(module: cst.Module) -> cst.Module:
    line = cst.parse_statement("import torch", module.config_for_parsing)
    return module.with_changes(body=[line, *module.body])


def _first_after_preamble(module: cst.Module) -> int:
    """Behind the docstring and `from __future__ import …`."""
    count = 0
    for index, statement in enumerate(module.body):
        first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        docstring = index == 0 and isinstance(first, cst.Expr) and _is_text(first.value)
        if not docstring and not _is_future(first):
            break
        count = index + 1
    return count


def _is_text(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleString | cst.ConcatenatedString)


def _is_future(node: cst.CSTNode | None) -> bool:
    return (
        isinstance(node, cst.ImportFrom)
        and node.module is not None
        and get_full_name_for_node(node.module) == "__future__"
    )


def after_imports(source: Source, line: str) -> None:
    """Plans a line behind the imports at the top of the file; torch is `torch` in it.

    Refuse: there are none.
    """
    imports = [one for one in _top(source.module) if _imports(one)]
    if not imports:
        raise Refuse(f"{source.path.name} has no imports at its top to write it after")
    name = torch_name(source, imports[-1])
    source.insert_after(imports[-1], line.replace("torch", name, 1), apart=True)


def _top(module: cst.Module) -> list[cst.CSTNode]:
    """The statements before the first that is more than a line or a guarded import."""
    top: list[cst.CSTNode] = []
    for statement in module.body:
        if isinstance(statement, cst.Try | cst.If) and not _imports(statement):
            break
        if not isinstance(statement, cst.SimpleStatementLine | cst.Try | cst.If):
            break
        top.append(statement)
    return top


def _imports(statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.SimpleStatementLine):
        return any(isinstance(one, cst.Import | cst.ImportFrom) for one in statement.body)
    if isinstance(statement, cst.Try | cst.If) and isinstance(statement.body, cst.IndentedBlock):
        return any(_imports(one) for one in statement.body.body)
    return False
