"""Cells of text that hold several items."""

from __future__ import annotations

import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.schema.grammar import TextRules, null_missing


def split_cells(cells: pa.Array, separator: str, rules: TextRules, numbers: bool) -> pa.Array:
    """Text cells as lists of text, split at the separator; at runs of blanks where it is blank.

    Empty cells, and null words where the items are `numbers`, are missing.
    """
    cells = null_missing(cells, rules, numbers)
    if separator.isspace() and "\t" not in separator:
        return pc.ascii_split_whitespace(pc.ascii_trim_whitespace(cells))
    return pc.split_pattern(cells, separator)
