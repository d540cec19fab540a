"""Code stays small: one noun a module, one thing a function, few parameters, public docstrings."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import REPOSITORY

PACKAGE = REPOSITORY / "tfrec_cli"
MODULE_LINES = 420
FUNCTION_LINES = 60
PARAMETERS = 6

# The commands take an option each, and the library call takes what the command takes.
MANY_PARAMETERS = {("__init__", "convert")}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(PACKAGE).with_suffix("").parts)


def functions(module: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, Function):
            yield node


def length(function: Function) -> int:
    """Lines of the body; a docstring is no fault."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]


def parameters(function: Function) -> int:
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


@pytest.mark.parametrize("module", modules(), ids=name_of)
def test_modules_are_short(module: Path) -> None:
    lines = module.read_text("utf-8").count("\n")
    assert lines <= MODULE_LINES


@pytest.mark.parametrize("module", modules(), ids=name_of)
def test_functions_are_short(module: Path) -> None:
    assert [f.name for f in functions(module) if length(f) > FUNCTION_LINES] == []


@pytest.mark.parametrize(
    "module", [m for m in modules() if name_of(m).split(".")[0] != "cli"], ids=name_of
)
def test_parameters_are_few(module: Path) -> None:
    long = [f.name for f in functions(module) if parameters(f) > PARAMETERS]
    assert [name for name in long if (name_of(module), name) not in MANY_PARAMETERS] == []


def test_most_functions_are_very_short() -> None:
    assert statistics.median(length(f) for m in modules() for f in functions(m)) < 10


@pytest.mark.parametrize("module", modules(), ids=name_of)
def test_public_functions_and_modules_have_docstrings(module: Path) -> None:
    tree = ast.parse(module.read_text("utf-8"))
    public = [n for n in tree.body if isinstance(n, (Function, ast.ClassDef))]
    bare = [n.name for n in public if not n.name.startswith("_") and not ast.get_docstring(n)]
    assert bare == []
    assert ast.get_docstring(tree) or not tree.body
