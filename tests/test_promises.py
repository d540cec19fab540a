"""What the README promises is held by tests that it names."""

from __future__ import annotations

import ast
import re

from conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text("utf-8")
NAMED = re.compile(r"`tests/(test_\w+\.py)::(test_\w+)`")


def promises() -> list[str]:
    """The items of the section's list, each with what it names."""
    section = README.split("\n## What is promised\n")[1].split("\n## ")[0]
    return re.split(r"\n\* ", section.split("\nNot promised")[0])[1:]


def test_every_promise_names_its_tests() -> None:
    assert len(promises()) > 8
    for promise in promises():
        # A sentence ends before the tests that hold it.
        assert re.search(r"\((`tests/test_\w+\.py::test_\w+`[,\s]*)+\)\s*$", promise), promise


def test_every_test_that_is_named_exists() -> None:
    for file, name in NAMED.findall(README):
        tree = ast.parse((REPOSITORY / "tests" / file).read_text("utf-8"))
        assert name in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, (file, name)
