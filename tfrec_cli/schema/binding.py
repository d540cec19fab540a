"""A schema bound to the columns of a source: what casting needs to know of each feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from tfrec_cli.schema.grammar import TextRules

FeatureType = Literal["int64", "float", "bytes"]


@dataclass(frozen=True, slots=True)
class Missing:
    """What happens where there is no value: an error, the key left out, or `default` written."""

    action: Literal["error", "omit", "default"] = "error"
    default: Any = None


@dataclass(frozen=True, slots=True)
class BoundFeature:
    """One entry of the schema, tied to the source.

    key: the feature's name in the record.
    columns: the source's columns it is made of: one, or several for a vector, none for a constant.
    source_type: Arrow type of those columns as `read` yields them (None for a constant).
    text: the rules by which text cells are read as numbers (None where the source is typed).
    path: child names to follow into a struct column, outermost first.
    labels: names whose numbers are written, for a label feature. `unknown` is what happens to
        a value that is not among them.
    first_label: the number of the first label; the others follow it by one each.
    load: the cell names a file whose bytes are the value; relative names start at the folder
        `root`, or where that is None at the folder of the table.
    shape: the fixed shape of a list, None for a scalar or a ragged list.
    ragged: nesting depth of a list without a fixed shape: 0 scalar or shaped, 1 a ragged list,
        2 or more nested (row lengths are written beside the values as KEY/row_lengths, or
        KEY/row_lengths_0, _1, … from the outermost level where there are several).
    separator: splits a text cell into list items.
    null_item: what happens to a null inside a list; `omit` here means: drop the item.
    time: `iso8601` writes time values as text; None writes int64 in the column's own unit.
    """

    key: str
    type: FeatureType
    columns: tuple[str, ...] = ()
    source_type: pa.DataType | None = None
    text: TextRules | None = None
    path: tuple[str, ...] = ()
    constant: Any = None
    labels: tuple[str, ...] | None = None
    unknown: Missing = Missing()
    load: bool = False
    root: str | None = None
    shape: tuple[int, ...] | None = None
    ragged: int = 0
    separator: str | None = None
    missing: Missing = Missing()
    null_item: Missing = Missing()
    time: Literal["iso8601"] | None = None
    first_label: int = 0
