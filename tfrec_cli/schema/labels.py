"""Label lists: class names and the numbers they are written as.

A label file holds one name a line, the first line being class 0, or the `first_label` that the
schema says. Where all lines are `0:name`, `1:name`, … in that order, as older TensorFlow tools
write them, the names are what stands after the first colons. Blank lines at the end are nothing.
Names are kept to the letter: no trimming, no change of case.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.errors import (
    CellError,
    Location,
    Reject,
    SchemaError,
    counted,
    did_you_mean,
    listed,
    shorten,
)
from tfrec_cli.kinds import is_list
from tfrec_cli.schema.grammar import TextRules, null_declared
from tfrec_cli.schema.separators import split_cells
from tfrec_cli.words import as_text
from tfrec_cli.wrappings import plain

_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")
_SHOWN = 20


def sort_labels(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct `names` in the order they are numbered: as numbers where all of them are integers,
    else by their UTF-8 bytes.
    """
    distinct = set(names)
    if all(_INTEGER.fullmatch(name) for name in distinct):
        return tuple(sorted(distinct, key=lambda name: (int(name), name)))
    return tuple(sorted(distinct, key=lambda name: name.encode("utf-8", "surrogatepass")))


def label_fault(names: Sequence[str]) -> str:
    """Why `names` cannot be a label list, as in `has no names`; empty where it can."""
    if not names:
        return "has no names"
    first: dict[str, int] = {}
    for number, name in enumerate(names):
        if not name:
            return f"has no name for label {number}"
        if "\n" in name or "\r" in name:
            found = f'has "{shorten(name)}" as label {number}, with a line break'
            return f"{found}; label files hold one name a line"
        if name in first:
            return f'has "{shorten(name)}" twice, as label {first[name]} and as label {number}'
        first[name] = number
    return ""


def read_label_file(path: str | Path) -> tuple[str, ...]:
    """The names in the label file at `path`, by number.

    Raises SchemaError where the file cannot be read, is not UTF-8, is empty or names a class twice.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SchemaError(f"{path}: {error.strerror}. It should be a label file.") from None
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: byte {error.start} is not UTF-8. Save it as UTF-8.") from None
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    names = _unnumbered(lines)
    _check_lines(path, names)
    return names


def _unnumbered(lines: Sequence[str]) -> tuple[str, ...]:
    pairs = [line.partition(":") for line in lines]
    numbered = all(p[0] == str(i) and p[1] and p[2].strip() for i, p in enumerate(pairs))
    return tuple(p[2] if numbered else line for p, line in zip(pairs, lines, strict=True))


def _check_lines(path: str | Path, names: Sequence[str]) -> None:
    if not names:
        raise SchemaError(f"{path}: the label file is empty. Write one class name a line.")
    first: dict[str, int] = {}
    for line, name in enumerate(names, start=1):
        if not name.strip():
            raise SchemaError(f"{path}, line {line}: the line is blank. Write a class name.")
        if name in first:
            said = f'"{shorten(name)}" stands on line {first[name]} already'
            raise SchemaError(f"{path}, line {line}: {said}. Take one of them out.")
        first[name] = line


def label_file_text(names: Sequence[str]) -> str:
    """What a label file with `names` holds. Raises SchemaError for empty names, names with line
    breaks and names that occur twice.
    """
    if fault := label_fault(names):
        raise SchemaError(f"a label list {fault}")
    return "".join(f"{name}\n" for name in names)


def count_values(
    array: pa.Array | pa.ChunkedArray,
    path: Sequence[str] = (),
    separator: str | None = None,
    text: TextRules | None = None,
) -> Counter[str]:
    """How often each value occurs in a column, as the text that labels are compared with.

    path: child names to follow into a struct column. separator: splits text cells into items.
    text: the rules of text cells, for their null words.
    Lists count by their items; nulls are not counted.
    """
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    for name in path:
        array = pc.struct_field(array, name)
    array = _items(array)
    if separator is not None:
        array = _items(split_cells(array, separator, text or TextRules(), numbers=False))
    array = array if text is None else null_declared(array, text)
    found = pc.value_counts(array.drop_null())
    counts: Counter[str] = Counter()
    texts = as_text(found.field(0)).to_pylist()
    for value, count in zip(texts, found.field(1).to_pylist(), strict=True):
        counts[value] += count
    return counts


def _items(array: pa.Array) -> pa.Array:
    """The plain values of an array, those of its lists where it has them."""
    array = plain(array)
    while is_list(array.type):
        array = plain(array.flatten())
    return array


def unknown_values(counts: Mapping[str, int], labels: Sequence[str]) -> dict[str, int]:
    """The values in `counts` that are not among `labels`, the most frequent first."""
    known = set(labels)
    unknown = [(text, count) for text, count in counts.items() if text not in known]
    return dict(sorted(unknown, key=lambda pair: (-pair[1], pair[0])))


def unknown_labels_error(
    column: str,
    unknown: Mapping[str, int],
    labels: Sequence[str],
    first: tuple[Location, str],
) -> CellError:
    """The one error for all values of `column` that are not among `labels`.

    unknown: those values and how many rows hold each. first: the first such cell in source order.
    """
    where, value = first
    found = [f'"{shorten(text)}" ({counted(count, "row")})' for text, count in unknown.items()]
    reason = (
        f"is not a label. Unknown values: {listed(found, _SHOWN)}; "
        f"the labels are {listed([shorten(name) for name in labels], _SHOWN)}"
    )
    hint = (
        "Correct the cells, add the names to labels in the schema, or say there "
        f"unknown: {{default: -1}}.{did_you_mean(value, labels)}"
    )
    return CellError(Reject(where, column, value, reason, hint))
