r"""The grammar of text cells: what a cell means as int64, float or bytes.

A cell is read by itself: what stands in other cells, blocks or files never changes its meaning.
Blanks (spaces and tabs) around a number or a word are ignored; text keeps them.

Reading, once the type is settled:

* **int64**: digits, a sign `+` or `-` before them if you like, between -9223372036854775808 and
  9223372036854775807. A fraction of zeros (`12.0`) is fine, `12.5` and `1e5` are not integers.
  `true`, `yes`, `t`, `y` are 1 and `false`, `no`, `f`, `n` are 0, in any case.
* **float**: digits with a decimal mark and an exponent if you like (`12`, `.5`, `5.`, `1E+05`), or
  `inf`, `infinity`, `nan` in any case, each with a sign if you like; `-0.0` keeps its sign. A
  number is rounded to the nearest float64 and then to the nearest float32; one that becomes
  infinite by that (`1e39`) is an error.
* **bytes**: the text as it stands, as UTF-8.
* Hexadecimal (`0x10`), `1_000`, dates and times are text. `1,234` is a number only where `,` is
  declared as the thousands mark; groups must then be complete (`1,234,567`, not `12,34`).
  With a decimal comma, `1.5` is text unless `.` is the thousands mark.

Missing: an empty cell. Among numbers also a cell of blanks only and the usual null words: `NA`,
`N/A`, `#N/A`, `#NA`, `<NA>`, `NULL`, `None`, `-`, `--`, `.`, `?`, `\N` (the words also in lower
case), and `nan` where the type is int64 (in a float it is the number NaN). In text all of these
are text. Null words declared by the user replace that list, and mean missing in every column.

Inference, over all cells of a column that are not missing (int64 ⊂ float ⊂ bytes):

* all are integers: int64. All are `true` or `false` (`True`, `TRUE`, …): int64, as 1 and 0.
* all are integers or floats, or NaN alone: float.
* anything else is bytes. Here an integer beyond int64, and a number that would lose leading zeros
  (`007`, `00.5`) or the plus of a bare integer (`+4930123456`) count as text.
* null words without any number beside them are text; a column without any cell is `null`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, nulled, to_numpy
from tfrec_cli.errors import shorten
from tfrec_cli.schema import cells as reading
from tfrec_cli.schema.cells import NOWHERE, Meaning, Positions, TextRules

__all__ = [
    "Cell",
    "KindFacts",
    "Meaning",
    "Parsed",
    "TextRules",
    "classify",
    "null_declared",
    "null_missing",
    "parse_float",
    "parse_int64",
]

_KEPT = 2**12
Kind = Literal["int64", "float", "bytes", "null"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """Cells read as numbers.

    values: int64 or float64, as long as the cells; null where the cell is missing, bad or beyond.
    bad: positions of cells that are no such number. beyond: positions of numbers that the type
    (int64, or float32 in the end) cannot hold. Both ascending.
    """

    values: pa.Array
    bad: Positions
    beyond: Positions


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell and its position, counted from 0 at the first cell the facts speak of.

    text: all of it, or the beginning of a long one.
    """

    position: int
    text: str


@dataclass(frozen=True, slots=True)
class KindFacts:
    """What the cells of a column are, for inference; facts of later cells can be merged in.

    counts: how many cells have each `Meaning`. firsts: the first cell of each meaning but NULL.
    """

    counts: tuple[int, ...] = (0,) * len(Meaning)
    firsts: Mapping[Meaning, Cell] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """How many cells were looked at."""
        return sum(self.counts)

    @property
    def kind(self) -> Kind:
        """What the whole column is: `int64`, `float`, `bytes`, or `null` without any cell."""
        numbers = self._count(Meaning.NAN, Meaning.INTEGER, Meaning.FLOAT, Meaning.SPECIAL)
        if self._count(Meaning.TEXT) or (numbers and self._count(Meaning.BOOLEAN)):
            return "bytes"
        if self._count(Meaning.FLOAT, Meaning.SPECIAL):
            return "float"
        if self._count(Meaning.INTEGER, Meaning.BOOLEAN):
            return "int64"
        if numbers:
            return "float"
        return "bytes" if self._count(Meaning.EMPTY, Meaning.WORD) else "null"

    @property
    def nulls(self) -> int:
        """How many cells are missing in a column of this kind."""
        if self.kind in ("bytes", "null"):
            return self._count(Meaning.NULL)
        missing = self._count(Meaning.NULL, Meaning.EMPTY, Meaning.WORD)
        return missing + (self._count(Meaning.NAN) if self.kind == "int64" else 0)

    @property
    def odd(self) -> Cell | None:
        """The cell that keeps the column from a narrower kind, where that is not obvious."""
        numbers = self._count(Meaning.NAN, Meaning.INTEGER, Meaning.FLOAT, Meaning.SPECIAL)
        if self.kind == "float":
            fraction, whole = (
                self._first(Meaning.FLOAT, Meaning.SPECIAL),
                self._first(Meaning.INTEGER),
            )
            looked_whole = fraction and whole and whole.position < fraction.position
            return fraction if looked_whole else None
        if self.kind != "bytes":
            return None
        text = self._first(Meaning.TEXT)
        if text is None:
            return self._first(Meaning.BOOLEAN)
        looks_so = re.fullmatch(reading.FLOAT_PATTERN, text.text.strip(" \t"))
        # Among more texts than numbers, such as codes of letters and digits, text is no surprise.
        surprises = 0 < self._count(Meaning.TEXT) <= numbers + self._count(Meaning.BOOLEAN)
        return text if surprises or looks_so else None

    def why(self, place: str) -> str:
        """Why the kind is what it is, where that is not obvious: one clause, else empty.

        place: where `odd` stands (`b.csv line 2`), as the caller knows it.
        """
        if self.odd is not None:
            return f'{place} holds "{shorten(self.odd.text)}"{_loss(self.odd.text, self.kind)}'
        if self.kind == "int64" and self._count(Meaning.BOOLEAN):
            return "true and false are written as 1 and 0"
        return ""

    def merge(self, later: KindFacts, offset: int | None = None) -> KindFacts:
        """These facts and those of later cells, whose position 0 is `offset` here.

        Without `offset` the later cells follow these at once.
        """
        shift = self.cells if offset is None else offset
        moved = {m: Cell(c.position + shift, c.text) for m, c in later.firsts.items()}
        counts = tuple(a + b for a, b in zip(self.counts, later.counts, strict=True))
        return KindFacts(counts, {**moved, **self.firsts})

    def _count(self, *meanings: Meaning) -> int:
        return sum(self.counts[m] for m in meanings)

    def _first(self, *meanings: Meaning) -> Cell | None:
        found = [self.firsts[m] for m in meanings if m in self.firsts]
        return min(found, key=lambda cell: cell.position, default=None)


def _loss(text: str, kind: Kind) -> str:
    """What a number would lose that inference keeps as text."""
    text = text.strip(" \t")
    if kind != "bytes" or not re.fullmatch(reading.FLOAT_PATTERN, text):
        return ""
    if re.match("[+-]?0[0-9]", text):
        return ", whose leading zeros a number would lose"
    return ", whose plus an int64 would lose" if _fits(text) else ", which is beyond int64"


def _fits(text: str) -> bool:
    return abs(int(text)) < 2**63 if text.lstrip("+-").isdigit() and len(text) < 40 else False


def classify(cells: pa.Array | pa.ChunkedArray, rules: TextRules) -> KindFacts:
    """The facts about text cells (string or large_string, any chunks, nulls are missing)."""
    chunks = cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]
    facts = KindFacts()
    for chunk in chunks:
        counts, positions = reading.count_meanings(chunk, rules)
        firsts: dict[Meaning, Cell] = {}
        for meaning in Meaning:
            if counts[meaning] and meaning != Meaning.NULL:
                position = positions[meaning]
                firsts[meaning] = Cell(position, _beginning(chunk[position]))
        facts = facts.merge(KindFacts(tuple(counts), firsts))
    return facts


def _beginning(cell: pa.Scalar) -> str:
    """The first characters of a text; the rest of a huge one is not copied."""
    kept: bytes = cell.as_buffer()[:_KEPT].to_pybytes()
    return kept.decode("utf-8", "ignore")


def parse_int64(cells: pa.Array, rules: TextRules) -> Parsed:
    """Text cells (string or large_string) read as int64."""
    plain = reading.cast_plain(cells, rules, pa.int64())
    if plain is not None:
        return Parsed(plain, NOWHERE, NOWHERE)
    block = reading.read_block(cells, rules)
    values, known = np.zeros(len(cells), np.int64), block.codes == Meaning.INTEGER
    reading.fill(values, known, block.numbers, pa.int64())
    odd = block.codes >= Meaning.BOOLEAN
    for words, value in ((reading.truths(), 1), (reading.falsehoods(), 0)):
        found = odd & reading.is_in(block.texts, odd, words)
        values[found], known = value, known | found
    odd &= ~known
    integers = reading.matches(block.numbers, odd, reading.INTEGER_PATTERN)
    texts = _bare_integers(block.numbers.filter(from_numpy(integers)))
    fits = reading.in_int64(texts, np.ones(len(texts), bool))
    places = np.flatnonzero(integers)
    values[places[fits]] = to_numpy(pc.cast(texts.filter(from_numpy(fits)), pa.int64()))
    known[places[fits]] = True
    return _parsed(values, known, odd & ~integers, integers & ~known)


def _bare_integers(texts: pa.Array) -> pa.Array:
    """Integers without plus, fraction and leading zeros."""
    texts = pc.replace_substring_regex(texts, r"^\+|\.0*$", "")
    return pc.replace_substring_regex(texts, r"^(-?)0+([0-9])", r"\1\2")


def parse_float(cells: pa.Array, rules: TextRules) -> Parsed:
    """Text cells (string or large_string) read as float64, all within the range of float32."""
    plain = reading.cast_plain(cells, rules, pa.float64())
    if plain is not None and not reading.out_of_range(to_numpy(plain)).any():
        return Parsed(plain, NOWHERE, NOWHERE)
    block = reading.read_block(cells, rules)
    values = np.zeros(len(cells), np.float64)
    finite = np.isin(block.codes, (Meaning.INTEGER, Meaning.FLOAT))
    text = block.codes == Meaning.TEXT
    finite |= text & reading.matches(block.numbers, text, reading.FLOAT_PATTERN)
    reading.fill(values, finite, block.numbers, pa.float64())
    beyond = finite & reading.out_of_range(values)
    special = np.isin(block.codes, (Meaning.NAN, Meaning.SPECIAL))
    values[special] = np.inf
    values[
        reading.is_in(block.texts, special, reading.special_words("-", "inf", "infinity"))
    ] = -np.inf
    values[reading.is_in(block.texts, special, reading.nan_words())] = np.nan
    known = (finite & ~beyond) | special
    return _parsed(values, known, (block.codes >= Meaning.BOOLEAN) & ~known & ~beyond, beyond)


def null_declared(cells: pa.Array, rules: TextRules) -> pa.Array:
    """Text cells with the null words that the user declared made null; the rest untouched."""
    if rules.null_words is None or not len(cells):
        return cells
    declared = reading.is_in(
        reading.trimmed(cells), np.ones(len(cells), bool), reading.declared_words(rules.null_words)
    )
    return nulled(cells, declared)


def null_missing(cells: pa.Array, rules: TextRules, numbers: bool) -> pa.Array:
    """Text cells that may hold lists, with those made null that are missing as a whole: empty or
    blank ones, declared null words, and where `numbers` are expected the usual null words.
    """
    if not len(cells):
        return cells
    words = reading.NULL_WORDS if numbers else ()
    words = words if rules.null_words is None else rules.null_words
    missing = reading.is_in(
        reading.trimmed(cells), np.ones(len(cells), bool), reading.declared_words((*words, ""))
    )
    return nulled(cells, missing)


def _parsed(
    values: npt.NDArray[Any], known: reading.Mask, bad: reading.Mask, beyond: reading.Mask
) -> Parsed:
    array = from_numpy(values, ~known)
    return Parsed(array, np.flatnonzero(bad), np.flatnonzero(beyond))
