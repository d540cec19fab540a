"""64-bit keys of rows: what a shuffle sorts by, and what decides on a split.

A row is known by its identity: the name of its file among the sources and its number in that file,
or the values of key columns. The digest of an identity is a fixed number; a key mixes it with a
seed and a purpose, so that shuffles and splits know nothing of each other.

The mixing function is the finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable
Pseudorandom Number Generators, 2014), a bijection of 64-bit numbers. Text and seeds enter through
BLAKE2b (RFC 7693).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import is_valid, nulled, to_numpy
from tfrec_cli.schema.grammar import TextRules, null_missing, parse_float, parse_int64
from tfrec_cli.shuffle.values import number_texts, value_texts
from tfrec_cli.words import as_text
from tfrec_cli.wrappings import plain

Keys = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_NULL_DIGEST = np.uint64(0x2545F4914F6CDD1D)


def mix(values: Keys) -> Keys:
    """Each number mixed by splitmix64's finalizer; different numbers stay different."""
    mixed = values + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)


def salt(*parts: str | int) -> Keys:
    """Two 64-bit numbers that stand for `parts`."""
    text = "\0".join(f"{type(part).__name__}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def keyed(digests: Keys, purpose: str, seed: int) -> Keys:
    """The keys of identities for one purpose and seed; different digests get different keys."""
    salts = salt("key", purpose, seed)
    return mix(mix(digests + salts[0]) ^ salts[1])


def row_digests(name: str, occurrence: int, first: int, count: int) -> Keys:
    """The digests of `count` rows of the file `name`, from row `first` on.

    occurrence: how many earlier files have the same name.
    """
    salts = salt("rows", name, occurrence)
    rows = np.arange(first, first + count, dtype=np.uint64)
    return mix(mix(rows + salts[0]) ^ salts[1])


def file_digests(names: Iterable[str], occurrence: int) -> Keys:
    """The digests of rows that are files of their own, by their names."""
    return _digests([f"{occurrence}\0{name}".encode("utf-8", "surrogateescape") for name in names])


def cell_values(array: pa.Array, rules: TextRules | None, kind: str | None) -> pa.Array:
    """The values that decide on order and split, as a plain array.

    rules: those of text cells, None where the source is typed. kind: what text cells are; an
    `int64` or `float` column gives its numbers, in which null words are missing.
    """
    array = plain(array)
    if rules is None:
        return array
    if kind == "int64":
        return parse_int64(array, rules).values
    if kind == "float":
        return parse_float(array, rules).values
    return null_missing(array, rules, numbers=False)


def column_texts(array: pa.Array, rules: TextRules | None, kind: str | None) -> pa.Array:
    """The values of a column as text, nulls kept: equal values have equal texts, however a file
    spells them (`5`, `05`, `5.0` in a column of numbers) and whatever the type of the column is.
    Arguments as `cell_values`.
    """
    return value_texts(cell_values(array, rules, kind))


def cell_texts(array: pa.Array, rules: TextRules | None, kind: str | None) -> pa.Array:
    """The cells of a column as text, to the letter; missing values are null. Arguments as
    `cell_values`.
    """
    return nulled(as_text(plain(array)), ~is_valid(cell_values(array, rules, kind)))


def text_digests(texts: pa.Array, rules: TextRules | None = None) -> Keys:
    """The digests of text values, alone or of few columns; nulls have one of their own.

    rules: where given, texts that are numbers by them have the digest that the number has in a
    column of numbers.
    """
    encoded = pc.dictionary_encode(texts)
    known = encoded.dictionary if rules is None else number_texts(encoded.dictionary, rules)
    values = [value.encode("utf-8", "surrogatepass") for value in known.to_pylist()]
    table = np.append(_digests(values), _NULL_DIGEST)
    return table[np.where(is_valid(texts), to_numpy(encoded.indices), len(values))]


def combined(columns: Sequence[Keys]) -> Keys:
    """One digest for the values of several columns, in their order."""
    found = columns[0]
    for column in columns[1:]:
        found = mix(found + mix(column))
    return found


def _digests(values: Iterable[bytes]) -> Keys:
    blake = hashlib.blake2b
    data = b"".join([blake(value, digest_size=8).digest() for value in values])
    return np.frombuffer(data, "<u8").astype(np.uint64)


def fraction_bounds(cumulative: Sequence[Any]) -> Keys:
    """Where in the 64-bit range the shares end, without the last: `cumulative` holds Fractions."""
    return np.array([int(share * 2**64) for share in cumulative[:-1]], np.uint64)
