"""The columns of a source that a schema names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pyarrow as pa

from tfrec_cli.errors import SchemaError, did_you_mean, shorten
from tfrec_cli.schema.arrowtypes import unwrapped
from tfrec_cli.schema.feature import Feature
from tfrec_cli.schema.infer import ColumnFacts, struct_children
from tfrec_cli.schema.model import Schema

SHOWN = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One feature of a schema, with what errors need to point at it."""

    schema: Schema
    key: str
    feature: Feature

    def fault(self, part: str, text: str) -> SchemaError:
        """The error that `text` says of the feature, placed at its key `part`."""
        place = self.schema.places.at("features", self.key, part)
        return SchemaError(f"{place}feature {shorten(self.key)}: {text}")


def entries(schema: Schema) -> Iterator[Entry]:
    """The features of `schema`, in its order."""
    return (Entry(schema, key, feature) for key, feature in schema.features.items())


def columns_by_name(columns: Sequence[ColumnFacts]) -> dict[str, ColumnFacts]:
    """The columns by name, in file order. Raises SchemaError where two have the same name."""
    table: dict[str, ColumnFacts] = {}
    for column in columns:
        if column.name in table:
            said = f'the source has two columns called "{shorten(column.name)}"'
            raise SchemaError(f"{said}. Rename one of them.")
        table[column.name] = column
    return table


Found = tuple[ColumnFacts, tuple[str, ...]]


def sources_of(entry: Entry, table: Mapping[str, ColumnFacts]) -> list[Found]:
    """The columns of a feature, each with the path into it; none for a constant.

    Raises SchemaError where the source lacks one of them.
    """
    feature = entry.feature
    if feature.constant is not None:
        return []
    if feature.columns is not None:
        return [(column, ()) for column in _vector(entry, table)]
    name = entry.key if feature.column is None else feature.column
    if name in table:
        return [(table[name], ())]
    found = _children(name, table)
    if not found:
        raise _no_column(entry, "column", name, table)
    if len(found) > 1:
        raise entry.fault("column", f"{shorten(name)} is the name of {len(found)} struct children")
    return found


def _children(name: str, table: Mapping[str, ColumnFacts]) -> list[Found]:
    """Where `parent/child` leads: slashes may be part of names, so every way is tried."""
    ends = [i for i, letter in enumerate(name) if letter == "/"]
    return [
        (table[name[:end]], path)
        for end in ends
        if name[:end] in table
        for path in _paths(table[name[:end]].type, name[end + 1 :])
    ]


def _paths(kind: pa.DataType, rest: str) -> list[tuple[str, ...]]:
    kind = unwrapped(kind)
    if not pa.types.is_struct(kind):
        return []
    found: list[tuple[str, ...]] = []
    for child in kind:
        if child.name == rest:
            found.append((child.name,))
        elif rest.startswith(f"{child.name}/"):
            deeper = _paths(child.type, rest[len(child.name) + 1 :])
            found += [(child.name, *path) for path in deeper]
    return found


def _vector(entry: Entry, table: Mapping[str, ColumnFacts]) -> list[ColumnFacts]:
    patterns = entry.feature.columns or ()
    names: dict[str, None] = {}
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        matches = [pattern] if pattern in table else [n for n in table if fnmatchcase(n, pattern)]
        if not matches:
            raise _no_column(entry, "columns", pattern, table)
        if twice := next((name for name in matches if name in names), None):
            raise entry.fault("columns", f'column "{shorten(twice)}" is named twice')
        names |= dict.fromkeys(matches)
    return [table[name] for name in names]


def _no_column(entry: Entry, part: str, name: str, table: Mapping[str, ColumnFacts]) -> SchemaError:
    children = (child for c in table.values() for child, _ in struct_children(c.name, c.type))
    hint = did_you_mean(name, dict.fromkeys((*table, *children)))
    if not hint:
        shown = ", ".join(shorten(known) for known in list(table)[:SHOWN])
        more = len(table) - SHOWN
        hint = f" The columns are {shown}" + (f" and {more} more." if more > 0 else ".")
        hint = hint if table else " It has none."
    said = "no column that matches" if part == "columns" else "no column"
    return entry.fault(part, f'the source has {said} "{shorten(name)}".{hint}')
