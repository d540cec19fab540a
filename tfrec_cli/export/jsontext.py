"""Arrow values as JSON text (RFC 8259), a column at a time."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_values, is_valid, scalar, to_numpy
from tfrec_cli.export.nesting import levels_of, row_offsets
from tfrec_cli.words import as_text

# Floats without digits, as Arrow spells them, and their JSON.
# https://protobuf.dev/programming-guides/json/
_ODD = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
_PLAIN = r'^[^"\\\x00-\x1f]*$'


def json_rows(batch: pa.RecordBatch) -> pa.Array:
    """Each row as a JSON object: a large_string array. Nulls are null; nan and inf, which JSON does
    not have as numbers, are text as in the JSON of protobuf (`NaN`, `Infinity`, `-Infinity`); times
    are ISO 8601 text.

    The batch has at least one column, and no binary ones.
    """
    text = pa.large_string()
    parts: list[pa.Array | pa.Scalar] = []
    for number, name in enumerate(batch.schema.names):
        lead = f"{'{' if number == 0 else ','}{json.dumps(name, ensure_ascii=False)}:"
        parts += [scalar(lead, text), json_text(batch.column(number))]
    parts.append(scalar("}\n", text))
    return pc.binary_join_element_wise(*parts, scalar("", text))


def json_text(array: pa.Array) -> pa.Array:
    """Each value as JSON, in a large_string array without nulls."""
    null = scalar("null", pa.large_string())
    if pa.types.is_null(array.type):
        return from_values(["null"] * len(array), pa.large_string())
    if levels_of(array.type):
        found = _lists(array)
    elif pa.types.is_boolean(array.type) or pa.types.is_integer(array.type):
        found = pc.cast(pc.cast(array, pa.string()), pa.large_string())
    elif pa.types.is_floating(array.type):
        found = _floats(pc.cast(as_text(array), pa.large_string()))
    elif pa.types.is_decimal(array.type):
        found = pc.cast(as_text(array), pa.large_string())
    else:
        found = _strings(pc.cast(as_text(array), pa.large_string()))
    return pc.fill_null(found, null) if found.null_count else found


def _floats(digits: pa.Array) -> pa.Array:
    """Floats of any width, as Arrow spells them."""
    odd = pc.index_in(digits, from_values(list(_ODD), digits.type))
    found = _with_point(digits)
    if odd.null_count == len(odd):
        return found
    return pc.coalesce(from_values(list(_ODD.values()), digits.type).take(odd), found)


def _with_point(digits: pa.Array) -> pa.Array:
    """Whole numbers as `1.0`, so that readers take them for what they are."""
    whole = pc.match_substring_regex(digits, r"^-?[0-9]+$")
    if not pc.any(whole).as_py():
        return digits
    text = pa.large_string()
    pointed = pc.binary_join_element_wise(digits, scalar(".0", text), scalar("", text))
    return pc.if_else(whole, pointed, digits)


def _strings(array: pa.Array) -> pa.Array:
    """Text in quotes; what must be escaped is, value by value."""
    quote = scalar('"', pa.large_string())
    nothing = scalar("", pa.large_string())
    quoted = pc.binary_join_element_wise(quote, array, quote, nothing)
    plain = to_numpy(pc.match_substring_regex(array, _PLAIN)) | ~is_valid(array)
    if plain.all():
        return quoted
    values = quoted.to_pylist()
    for place in np.flatnonzero(~plain).tolist():
        values[place] = json.dumps(array[place].as_py(), ensure_ascii=False)
    return from_values(values, pa.large_string())


def _lists(array: pa.Array) -> pa.Array:
    """Lists as `[…]`, null where the list is."""
    items = json_text(array.flatten())
    bounds = _bounds(array)
    offsets = pa.py_buffer(bounds)
    lists = pa.Array.from_buffers(
        pa.large_list(pa.large_string()), len(array), [None, offsets], children=[items]
    )
    texts = pc.binary_join(lists, scalar(",", pa.large_string()))
    large = pa.large_string()
    texts = pc.binary_join_element_wise(
        scalar("[", large), texts, scalar("]", large), scalar("", large)
    )
    if not array.null_count:
        return texts
    return pc.if_else(pc.is_valid(array), texts, pa.nulls(len(array), large))


def _bounds(array: pa.Array) -> np.ndarray:
    """Where each row's items begin among the flattened ones."""
    if pa.types.is_list(array.type):
        return row_offsets(array)
    if pa.types.is_fixed_size_list(array.type):
        counts = np.where(is_valid(array), array.type.list_size, 0)
    else:
        raw = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
        counts = np.where(is_valid(array), np.diff(raw), 0)
    ends = np.zeros(len(array) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    return ends
