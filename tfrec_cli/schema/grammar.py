"""The grammar of text cells: what a cell means as int64, float or bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextRules:
    """How text is read.

    decimal: the decimal mark, `.` or `,`. thousands: the mark between groups of three digits,
    or None where none is allowed. null_words: the words that mean missing in every column;
    None means the usual words (NA, null, …), and those in columns of numbers only.
    """

    decimal: str = "."
    thousands: str | None = None
    null_words: tuple[str, ...] | None = None
