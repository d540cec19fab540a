"""Columns that folder names hold: `year=2024/month=3/part-0.parquet`, as Hive lays tables out.

Only folders below the input folder, or below the fixed beginning of a pattern, count; for files
named one by one, those below the folder that all of them share. Names and values are
percent-decoded, and `__HIVE_DEFAULT_PARTITION__` is a missing value. A column is int64 where all
its values are integers as Python writes them, else string.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}")


def hive_values(files: Sequence[str], inputs: Sequence[str]) -> list[dict[str, str | None]]:
    """For each of `files`, the columns its folders name, outermost first, with their text."""
    bases = list(_bases(inputs))
    return [dict(_pairs(os.path.relpath(file, _base(file, bases)))) for file in files]


def hive_types(values: Iterable[Mapping[str, str | None]]) -> dict[str, pa.DataType]:
    """The type of each column that any file's folders name, in order of first sight."""
    found: dict[str, list[str]] = {}
    for row in values:
        for name, text in row.items():
            found.setdefault(name, [])
            if text is not None:
                found[name].append(text)
    return {name: _type(texts) for name, texts in found.items()}


def _type(texts: list[str]) -> pa.DataType:
    whole = bool(texts) and all(_INTEGER.fullmatch(t) and -(2**63) <= int(t) < 2**63 for t in texts)
    return pa.int64() if whole else pa.string()


def hive_array(text: str | None, kind: pa.DataType, rows: int) -> pa.Array:
    """`rows` times the value `text` as `kind`."""
    if text is None:
        return pa.nulls(rows, kind)
    return pa.repeat(pa.scalar(int(text) if pa.types.is_integer(kind) else text, kind), rows)


def _bases(inputs: Sequence[str]) -> Iterator[str]:
    for item in inputs:
        if os.path.isdir(item):
            yield item
        elif not os.path.lexists(item) and glob.has_magic(item):
            parts = item.split("/")
            fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
            yield "/".join(parts[:fixed]) or ("/" if item.startswith("/") else ".")
    single = [os.path.abspath(item) for item in inputs if os.path.isfile(item)]
    if single:
        yield os.path.commonpath([os.path.dirname(path) for path in single])


def _base(file: str, bases: Sequence[str]) -> str:
    path = os.path.abspath(file)
    for base in bases:
        if os.path.commonpath([os.path.abspath(base), path]) == os.path.abspath(base):
            return base
    return os.path.dirname(file) or "."


def _pairs(path: str) -> Iterator[tuple[str, str | None]]:
    for part in path.split(os.sep)[:-1]:
        name, equals, value = part.partition("=")
        if equals and name:
            text = unquote(value)
            yield unquote(name), None if text == NO_VALUE else text
