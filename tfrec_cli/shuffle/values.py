"""Values as text by which equal ones are known, whatever the type of their column.

The type of a column may change when files are added to it: integers become floats or decimals,
seconds become milliseconds, numbers in CSV become text. The text of a value that both types hold
stays what it was, and so do the draws that hang on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, from_values, is_valid, items, lengths, nulled, to_numpy
from tfrec_cli.kinds import is_list
from tfrec_cli.schema.cells import Meaning, TextRules, count_meanings, meanings
from tfrec_cli.schema.grammar import parse_float, parse_int64
from tfrec_cli.words import as_text, in_own_unit, is_time, out_of_years, per_second
from tfrec_cli.wrappings import plain

_INTEGERS = (Meaning.INTEGER, Meaning.BOOLEAN)
_FLOATS = (Meaning.FLOAT, Meaning.SPECIAL, Meaning.NAN)


def value_texts(array: pa.Array) -> pa.Array:
    """The text of each value as string or large_string, nulls kept.

    A number has its digits and no zeros behind them, true is 1; a time has no zeros at its end; a
    list has the texts of its items.
    """
    array = plain(array)
    kind, types = array.type, pa.types
    if types.is_boolean(kind):
        return as_text(pc.cast(array, pa.int8()))
    if types.is_floating(kind):
        return _float_texts(array)
    if types.is_decimal(kind):
        return _without_zeros(as_text(array))
    if is_time(kind):
        return _time_texts(array)
    if is_list(kind) or types.is_nested(kind):
        rows = list(_nested_texts(array))
        return nulled(from_values(rows, pa.large_string()), ~is_valid(array))
    return as_text(array)


def number_texts(texts: pa.Array, rules: TextRules) -> pa.Array:
    """Text cells, and of those that are numbers by themselves the text that the number has in a
    column of numbers.
    """
    counts = count_meanings(texts, rules)[0]
    if not any(counts[meaning] for meaning in _INTEGERS + _FLOATS):
        return texts
    codes = meanings(texts, rules)
    whole, broken = np.isin(codes, _INTEGERS), np.isin(codes, _FLOATS)
    integers = as_text(parse_int64(texts.filter(from_numpy(whole)), rules).values)
    floats = _float_texts(parse_float(texts.filter(from_numpy(broken)), rules).values)
    found = _replaced(texts, whole, integers)
    # One beyond float32 is no number in any column.
    broken[np.flatnonzero(broken)[~is_valid(floats)]] = False
    return _replaced(found, broken, floats.filter(from_numpy(is_valid(floats))))


def _float_texts(array: pa.Array) -> pa.Array:
    """Whole ones as the same integer, others as their shortest digits, without an exponent."""
    array = pc.cast(array, pa.float64())
    numbers = to_numpy(array)
    whole = is_valid(array) & (np.abs(numbers) < 2**63) & (np.floor(numbers) == numbers)
    integers = pc.cast(from_numpy(numbers[whole].astype(np.int64)), pa.string())
    texts = pc.cast(array, pa.string())
    long = ~whole & to_numpy(pc.match_substring(texts, "e"))
    spelled = [_spelled(text) for text in texts.filter(from_numpy(long)).to_pylist()]
    texts = _replaced(texts, long, from_values(spelled, pa.string()))
    return _replaced(texts, whole, integers)


def _spelled(text: str) -> str:
    """A float with an exponent, spelled out."""
    number = float(text)
    return str(int(number)) if number.is_integer() else format(Decimal(text), "f")


def _time_texts(array: pa.Array) -> pa.Array:
    texts = as_text(array)
    if pa.types.is_timestamp(array.type):
        far = np.zeros(len(array), bool)
        far[out_of_years(texts)] = True
        ticks = per_second(array.type)
        counts = in_own_unit(array).filter(from_numpy(far)).to_pylist()
        seconds = [f"{Decimal(count) / ticks:f}" for count in counts]
        texts = _replaced(texts, far, from_values(seconds, pa.string()))
    return _without_zeros(texts)


def _without_zeros(texts: pa.Array) -> pa.Array:
    """Texts without zeros at the end of a fraction, behind which a unit may stand."""
    texts = pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])0+([SZ]?)$", r"\1\2")
    return pc.replace_substring_regex(texts, r"\.0+([SZ]?)$", r"\1")


def _nested_texts(array: pa.Array) -> Iterator[str]:
    """The text of each list, map or struct; nulls have any."""
    if pa.types.is_struct(array.type):
        return _struct_texts(array)
    if pa.types.is_map(array.type):
        return _map_texts(array)
    parts = _parts(items(array))
    ends = np.cumsum(lengths(array)).tolist()
    return (f"[{', '.join(parts[begin:end])}]" for begin, end in pairwise([0, *ends]))


def _struct_texts(array: pa.StructArray) -> Iterator[str]:
    """Without the children that are null: where one more comes, it is null in all old rows."""
    names = [json.dumps(field.name, ensure_ascii=False) for field in array.type]
    columns = [_parts(child) for child in array.flatten()]
    for row in range(len(array)):
        pairs = zip(names, (column[row] for column in columns), strict=True)
        yield f"{{{', '.join(f'{name}: {part}' for name, part in pairs if part != 'null')}}}"


def _map_texts(array: pa.MapArray) -> Iterator[str]:
    bounds = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).tolist()
    pairs = zip(_parts(array.keys), _parts(array.items), strict=True)
    parts = [f"{key}: {item}" for key, item in pairs]
    return (f"{{{', '.join(parts[begin:end])}}}" for begin, end in pairwise(bounds))


def _parts(array: pa.Array) -> list[str]:
    """The text of each value within others: text in quotes, `null` for null."""
    array = plain(array)
    kind, types = array.type, pa.types
    bare = is_list(kind) or types.is_nested(kind) or types.is_decimal(kind)
    bare = bare or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    texts = value_texts(array).to_pylist()
    if bare:
        return ["null" if text is None else text for text in texts]
    return [json.dumps(text, ensure_ascii=False) for text in texts]


def _replaced(texts: pa.Array, mask: npt.NDArray[np.bool_], others: pa.Array) -> pa.Array:
    """Texts with `others`, as many as `mask` has True, where it is True."""
    if not len(others):
        return texts
    both = pa.concat_arrays([texts, pc.cast(others, texts.type)])
    places = np.arange(len(texts))
    places[mask] = np.arange(len(texts), len(both))
    return both.take(from_numpy(places))
