"""How text cells are read, a block at a time.

The grammar itself is written down in `tfrec_cli.schema.grammar`. Every shortcut here gives what its
patterns would give, cell by cell.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import _kernel
from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, from_values, is_valid, scalar, to_numpy

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WORDS = ("NA", "N/A", "#N/A", "#NA", "<NA>", "NULL", "None", "-", "--", ".", "?", "\\N")
NULL_WORDS = tuple(dict.fromkeys((*_WORDS, *(w.lower() for w in _WORDS[:7]), "Null", "NONE")))
TRUE_WORDS = ("true", "True", "TRUE")
FALSE_WORDS = ("false", "False", "FALSE")
_INT64_DIGITS = 19
_SAMPLE = 32


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


class Meaning(IntEnum):
    """What one cell is. NAN is a NaN that counts as missing among integers."""

    NULL = 0
    EMPTY = 1
    WORD = 2
    NAN = 3
    BOOLEAN = 4
    INTEGER = 5
    FLOAT = 6
    SPECIAL = 7
    TEXT = 8


NOWHERE: Positions = np.empty(0, np.int64)
INTEGER_PATTERN = r"[+-]?[0-9]+(?:\.0*)?"
FLOAT_PATTERN = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# Classes of bytes within a cell; the first byte has classes of its own for the sign.
_DIGIT, _MINUS, _PLUS, _POINT, _EXPONENT, _INNER_SIGN, _OTHER = map(
    np.uint8, (1, 2, 4, 8, 16, 32, 64)
)


def _byte_classes(signs: Mapping[str, np.uint8]) -> npt.NDArray[np.uint8]:
    table = np.full(256, _OTHER, np.uint8)
    table[[ord(c) for c in "0123456789"]] = _DIGIT
    for char, value in {".": _POINT, "e": _EXPONENT, "E": _EXPONENT, **signs}.items():
        table[ord(char)] = value
    return table


_INNER = _byte_classes({"-": _INNER_SIGN, "+": _INNER_SIGN})
_FIRST = _byte_classes({"-": _MINUS, "+": _PLUS})


@dataclass(frozen=True, slots=True)
class Block:
    """texts: the cells without blanks around. numbers: the same with `.` as the decimal mark and
    no thousands marks, hopeless cells replaced by `x`. codes: the `Meaning` of each cell.
    """

    texts: pa.Array
    numbers: pa.Array
    codes: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Bytes:
    """The bytes of string cells: cell i is `data[starts[i]:starts[i] + lengths[i]]`."""

    data: npt.NDArray[np.uint8]
    starts: Positions
    lengths: Positions

    @classmethod
    def of(cls, cells: pa.Array) -> _Bytes:
        width = np.int64 if pa.types.is_large_string(cells.type) else np.int32
        _, offsets, data = cells.buffers()
        if not len(cells) or offsets is None:
            return cls(np.empty(0, np.uint8), NOWHERE, NOWHERE)
        ends = np.frombuffer(offsets, width)[cells.offset : cells.offset + len(cells) + 1]
        ends = ends.astype(np.int64)
        whole = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
        return cls(whole[ends[0] : ends[-1]], ends[:-1] - ends[0], np.diff(ends))

    def at(self, positions: Positions) -> npt.NDArray[np.uint8]:
        """The bytes at positions in `data`, 0 past its end."""
        inside = positions < len(self.data)
        found = np.zeros(len(positions), np.uint8)
        found[inside] = self.data[positions[inside]]
        return found


def cast_plain(cells: pa.Array, rules: TextRules, to: pa.DataType) -> pa.Array | None:
    """The cells through Arrow's own cast to int64 or float64, None where that proves nothing.

    Within these alphabets Arrow takes `-?[0-9]+` for int64 and FLOAT_PATTERN for float64 (rounded
    to the nearest) and refuses all else; cells it refuses go the exact way.
    """
    if rules.thousands is not None or rules.decimal != "." or rules.null_words:
        return None
    if to == pa.int64() and _kernel.BODY == "native":
        return _kernel.text_to_int64(cells)
    if to == pa.float64() and (found := _kernel.text_to_float64(cells)) is not None:
        return found
    alphabet = b"0123456789-" if to == pa.int64() else b"0123456789-+.eE"
    if _Bytes.of(cells).data.tobytes().translate(None, alphabet):
        return None
    try:
        pc.cast(cells[:_SAMPLE], to)  # Arrow is slow at failing: let it fail on few cells
        return pc.cast(cells, to)
    except pa.ArrowInvalid:
        return None


def count_meanings(cells: pa.Array, rules: TextRules) -> tuple[list[int], list[int]]:
    """How many cells have each `Meaning`, as inference sees it, and where its first one is."""
    if rules == TextRules() and (facts := _kernel.text_facts(cells)) is not None:
        return facts[0].tolist(), facts[1].tolist()
    codes = meanings(cells, rules)
    counts = np.bincount(codes, minlength=len(Meaning)).tolist()
    return counts, [int(np.argmax(codes == m)) if counts[m] else 0 for m in Meaning]


def meanings(cells: pa.Array, rules: TextRules) -> npt.NDArray[np.uint8]:
    """The `Meaning` of each cell, as inference sees it."""
    whole = cast_plain(cells, rules, pa.int64()) is not None
    if not whole and cast_plain(cells, rules, pa.float64()) is None:
        return read_block(cells, rules).codes
    raw = _Bytes.of(cells)
    if whole:
        codes = np.full(len(cells), Meaning.INTEGER, np.uint8)
        codes[_leading_zeros(raw)] = Meaning.TEXT
    else:
        codes = _number_codes(cells, raw, proven=True)
    codes[~is_valid(cells)] = Meaning.NULL
    return codes


def read_block(cells: pa.Array, rules: TextRules) -> Block:
    """Texts, numbers and meanings of a block of string or large_string cells, the exact way."""
    texts = trimmed(cells)
    raw = _Bytes.of(texts)
    numbers = _canonical(texts, rules)
    codes = _number_codes(numbers, raw if numbers is texts else _Bytes.of(numbers), proven=False)
    _mark_words(codes, texts, raw, rules)
    codes[raw.lengths == 0] = Meaning.EMPTY
    if rules.null_words is not None:
        declared = is_in(texts, np.ones(len(cells), bool), declared_words(rules.null_words))
        codes[declared] = Meaning.NULL
    codes[~is_valid(cells)] = Meaning.NULL
    return Block(texts, numbers, codes)


def trimmed(cells: pa.Array) -> pa.Array:
    """The cells without spaces and tabs around."""
    raw = _Bytes.of(cells)
    filled = raw.lengths > 0
    starts, lengths = raw.starts[filled], raw.lengths[filled]
    edges = (raw.data[starts], raw.data[starts + lengths - 1])
    blank = any(bool(((edge == 32) | (edge == 9)).any()) for edge in edges)
    return pc.ascii_trim(cells, characters=" \t") if blank else cells


def _canonical(texts: pa.Array, rules: TextRules) -> pa.Array:
    if rules.thousands is None and rules.decimal == ".":
        return texts
    wrong = scalar("x", texts.type)
    decimal = re.escape(rules.decimal)
    if rules.thousands is not None:
        mark = re.escape(rules.thousands)
        pattern = rf"^[+-]?[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+(?:{decimal}[0-9]*)?$"
        grouped = pc.match_substring_regex(texts, pattern)
        marked = pc.match_substring(texts, rules.thousands)
        bare = pc.replace_substring(texts, rules.thousands, "")
        texts = pc.if_else(grouped, bare, pc.if_else(marked, wrong, texts))
    if rules.decimal != ".":
        texts = pc.if_else(pc.match_substring(texts, "."), wrong, texts)
        texts = pc.replace_substring(texts, rules.decimal, ".")
    return texts


def _number_codes(numbers: pa.Array, raw: _Bytes, proven: bool) -> npt.NDArray[np.uint8]:
    """INTEGER and FLOAT as inference sees them, TEXT for all else (words and nulls too).

    proven: all cells are known to match FLOAT_PATTERN.
    """
    seen = _classes_seen(raw)
    digits = (seen & _DIGIT) != 0
    whole = digits & ((seen & ~(_DIGIT | _MINUS)) == 0)
    if proven:
        broken = (seen & (_POINT | _EXPONENT)) != 0
    else:
        broken = (
            digits & ((seen & ~(_DIGIT | _MINUS | _PLUS | _POINT)) == 0) & _one_point(raw, seen)
        )
        hopeful = digits & ((seen & _EXPONENT) != 0) & ((seen & _OTHER) == 0)
        broken |= hopeful & matches(numbers, hopeful, FLOAT_PATTERN)
    zeros = _leading_zeros(raw)
    codes = np.full(len(seen), Meaning.TEXT, np.uint8)
    codes[broken & ~zeros] = Meaning.FLOAT
    whole &= ~zeros
    long = whole & (raw.lengths >= _INT64_DIGITS)
    codes[whole & (~long | in_int64(numbers, long))] = Meaning.INTEGER
    return codes


def _classes_seen(raw: _Bytes) -> npt.NDArray[np.uint8]:
    """For each cell the union of the classes of its bytes; 0 for an empty cell."""
    if not len(raw.lengths):
        return np.empty(0, np.uint8)
    classes = np.zeros(len(raw.data) + 1, np.uint8)
    np.take(_INNER, raw.data, out=classes[:-1], mode="clip")
    starts = raw.starts[raw.lengths > 0]
    classes[starts] = _FIRST[raw.data[starts]]
    seen: npt.NDArray[np.uint8] = np.bitwise_or.reduceat(classes, raw.starts)
    seen[raw.lengths == 0] = 0
    return seen


def _one_point(raw: _Bytes, seen: npt.NDArray[np.uint8]) -> Mask:
    """Which cells hold exactly one point."""
    pointed = (seen & _POINT) != 0
    points = np.flatnonzero(raw.data == ord("."))
    starts, ends = raw.starts[pointed], (raw.starts + raw.lengths)[pointed]
    pointed[pointed] = np.searchsorted(points, ends) - np.searchsorted(points, starts) == 1
    return np.asarray(pointed)


def _leading_zeros(raw: _Bytes) -> Mask:
    """Cells with a sign or none, then a zero, then another digit."""
    first = raw.at(raw.starts)
    signed = (first == ord("-")) | (first == ord("+"))
    digit = np.where(signed, raw.at(raw.starts + 1), first)
    zero: Mask = (digit == ord("0")) & (raw.lengths > signed + 1)
    following = np.flatnonzero(zero)
    after = raw.at(raw.starts[following] + signed[following] + 1)
    zero[following] = (after >= ord("0")) & (after <= ord("9"))
    return zero


def in_int64(digits: pa.Array, mask: Mask) -> Mask:
    """Which cells of `mask` (`-?` and digits, no leading zeros) are within int64."""
    fits = np.zeros(len(digits), bool)
    if mask.any():
        chosen = digits.filter(from_numpy(mask))
        negative = pc.starts_with(chosen, "-")
        length = pc.subtract(pc.binary_length(chosen), pc.cast(negative, pa.int32()))
        most = scalar(_INT64_DIGITS, length.type)
        # Digit strings of equal length order as their numbers do.
        low = pc.less_equal(chosen, scalar(str(-(2**63)), chosen.type))
        high = pc.less_equal(chosen, scalar(str(2**63 - 1), chosen.type))
        edge = pc.and_(pc.equal(length, most), pc.if_else(negative, low, high))
        fits[mask] = to_numpy(pc.or_(pc.less(length, most), edge))
    return fits


def _mark_words(
    codes: npt.NDArray[np.uint8], texts: pa.Array, raw: _Bytes, rules: TextRules
) -> None:
    """Put the meanings of words into `codes`, where now TEXT stands."""
    open_cells = (codes == Meaning.TEXT) & (raw.lengths <= _longest_word())
    if not open_cells.any():
        return
    lenient = rules.null_words is None
    nan = Meaning.NAN if lenient else Meaning.SPECIAL
    meanings = [(Meaning.BOOLEAN, _array(TRUE_WORDS + FALSE_WORDS)), (nan, nan_words())]
    meanings.append((Meaning.SPECIAL, special_words("", "inf", "infinity")))
    meanings.append((Meaning.SPECIAL, special_words("+-", "inf", "infinity")))
    if lenient:
        meanings.append((Meaning.WORD, _array(NULL_WORDS)))
    places = np.flatnonzero(open_cells)
    chosen = texts.filter(from_numpy(open_cells))
    for meaning, words in meanings:
        codes[places[_members(chosen, words)]] = meaning


def _members(cells: pa.Array, words: pa.Array) -> Mask:
    return to_numpy(pc.is_in(cells, value_set=words.cast(cells.type)))


def is_in(cells: pa.Array, mask: Mask, words: pa.Array) -> Mask:
    """Which cells of `mask` are among the words."""
    found = np.zeros(len(cells), bool)
    if mask.any():
        found[mask] = _members(cells.filter(from_numpy(mask)), words)
    return found


def matches(cells: pa.Array, mask: Mask, pattern: str) -> Mask:
    """Which cells of `mask` match the whole pattern."""
    found = np.zeros(len(cells), bool)
    if mask.any():
        hits = pc.match_substring_regex(cells.filter(from_numpy(mask)), rf"\A(?:{pattern})\z")
        found[mask] = to_numpy(hits)
    return found


def fill(values: npt.NDArray[Any], mask: Mask, texts: pa.Array, to: pa.DataType) -> None:
    """Put the numbers of the cells of `mask`, proven to be such, into `values`."""
    if mask.any():
        values[mask] = to_numpy(pc.cast(texts.filter(from_numpy(mask)), to))


def out_of_range(values: npt.NDArray[np.float64]) -> Mask:
    """Which numbers become infinite as float32."""
    with np.errstate(over="ignore"):
        beyond: Mask = np.isinf(values.astype(np.float32))
    return beyond


@cache
def _array(words: tuple[str, ...]) -> pa.Array:
    return from_values(words, pa.string())


@cache
def declared_words(words: tuple[str, ...]) -> pa.Array:
    """The user's null words, without blanks around."""
    return _array(tuple(word.strip(" \t") for word in words))


def _any_case(words: Iterable[str]) -> tuple[str, ...]:
    pairs = ([(c.lower(), c.upper()) for c in word] for word in words)
    return tuple("".join(chars) for pair in pairs for chars in itertools.product(*pair))


@cache
def special_words(signs: str, *words: str) -> pa.Array:
    """The words in any case, each behind each of `signs`, or bare where there are none."""
    return _array(tuple(s + w for s in signs or ("",) for w in _any_case(words)))


@cache
def nan_words() -> pa.Array:
    """All spellings of NaN."""
    return _array(tuple(s + w for s in ("", "+", "-") for w in _any_case(["nan"])))


@cache
def truths() -> pa.Array:
    """What int64 reads as 1."""
    return _array(_any_case(("true", "yes", "t", "y")))


@cache
def falsehoods() -> pa.Array:
    """What int64 reads as 0."""
    return _array(_any_case(("false", "no", "f", "n")))


@cache
def _longest_word() -> int:
    return max(len("-infinity"), *map(len, NULL_WORDS))
