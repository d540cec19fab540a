"""What the header of a Parquet dictionary page tells: how many values, and how many bytes.

The header is Thrift in its compact protocol (PageHeader and DictionaryPageHeader in parquet.thrift,
https://github.com/apache/parquet-format; the encoding is that of
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md). It stands before
the page, a few dozen bytes that can be read without the page.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

# A header has fewer bytes, unless it holds what dictionary pages have not.
_HEADER = 128
_DICTIONARY_PAGE = 2
# PLAIN, and PLAIN_DICTIONARY, which older writers call the same.
_PLAIN = (0, 2)
_STOP, _TRUE, _FALSE, _INTS, _STRUCT = 0, 1, 2, (4, 5, 6), 12


@dataclass(frozen=True, slots=True)
class DictionaryPage:
    """values: how many are in the dictionary. size: their bytes, four of each for its length."""

    values: int
    size: int


def read_dictionary_page(path: str, at: int) -> DictionaryPage | None:
    """The dictionary page of text or bytes whose header is at `at` in the Parquet file `path`.

    None where there is none, or it is not as it should be. Raises OSError.
    """
    with open(path, "rb", buffering=0) as file:
        head = os.pread(file.fileno(), _HEADER, at)
    try:
        page = _struct(iter(head))
    except (StopIteration, ValueError):
        return None
    kind, size, about = page.get(1), page.get(2), page.get(7)
    if kind != _DICTIONARY_PAGE or not isinstance(size, int) or not isinstance(about, dict):
        return None
    values, encoding = about.get(1), about.get(2)
    if not isinstance(values, int) or encoding not in _PLAIN or not 0 <= 4 * values <= size:
        return None
    return DictionaryPage(values, size)


Fields = dict[int, "int | Fields"]


def _struct(data: Iterator[int]) -> Fields:
    """The fields of a struct by their numbers. Raises StopIteration where it is cut off, ValueError
    where it holds what the header of a dictionary page does not.
    """
    found: Fields = {}
    number = 0
    while (byte := next(data)) != _STOP:
        delta, kind = byte >> 4, byte & 15
        number = number + delta if delta else _int(data)
        if kind in (_TRUE, _FALSE):
            found[number] = int(kind == _TRUE)
        elif kind in _INTS:
            found[number] = _int(data)
        elif kind == _STRUCT:
            found[number] = _struct(data)
        else:
            raise ValueError(kind)
    return found


def _int(data: Iterator[int]) -> int:
    """A number: seven bits a byte, the lowest first, its sign in the lowest bit of all."""
    value = shift = 0
    while True:
        byte = next(data)
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value >> 1 ^ -(value & 1)
