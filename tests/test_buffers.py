"""Arrow arrays from NumPy and Python values, and back, are those that pyarrow itself makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.buffers import (
    byte_size,
    from_numpy,
    from_values,
    is_valid,
    items,
    lengths,
    nulled,
    scalar,
    to_numpy,
)

INTEGERS = st.integers(-(2**63), 2**63 - 1)
KINDS = {
    pa.int64(): INTEGERS,
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.string(): st.text(st.characters(codec="utf-8")),
    pa.large_string(): st.text(st.characters(codec="utf-8")),
    pa.binary(): st.binary(),
    pa.large_binary(): st.binary(),
}
NUMBERS = [kind for kind in KINDS if pa.types.is_primitive(kind)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_values_become_the_array_pyarrow_makes(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | KINDS[kind]))
    made = from_values(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, kind))
    if values:
        assert scalar(values[0], kind).equals(pa.scalar(values[0], kind))


@pytest.mark.parametrize("kind", [*NUMBERS, pa.bool_()], ids=str)
@given(data=st.data())
def test_numbers_come_back_with_zero_for_null(kind: pa.DataType, data: st.DataObject) -> None:
    each = st.booleans() if kind == pa.bool_() else KINDS[kind]
    values = data.draw(st.lists(st.none() | each, max_size=40))
    start = data.draw(st.integers(0, len(values)))
    array = pa.array(values, kind).slice(start)
    expected = [0 if value is None else value for value in values[start:]]
    assert to_numpy(array).tolist() == expected
    assert is_valid(array).tolist() == [value is not None for value in values[start:]]


TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
LISTS = (
    pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2),
    pa.list_view(pa.int64()), pa.large_list_view(pa.int64()),
)  # fmt: skip


def sliced(data: st.DataObject, values: list[object], kind: pa.DataType) -> pa.Array:
    """An array of some neighbours among `values`, which others lie before and behind."""
    first = data.draw(st.integers(0, len(values)))
    return pa.array(values, kind).slice(first, data.draw(st.integers(0, len(values) - first)))


@pytest.mark.parametrize("kind", TEXTS, ids=str)
@given(data=st.data())
def test_texts_have_as_many_bytes_as_their_encoding(kind: pa.DataType, data: st.DataObject) -> None:
    array = sliced(data, data.draw(st.lists(st.none() | KINDS[kind])), kind)
    encoded = [
        cell.encode() if isinstance(cell, str) else cell or b"" for cell in array.to_pylist()
    ]
    assert lengths(array).tolist() == [len(cell) for cell in encoded]


@pytest.mark.parametrize("kind", LISTS, ids=str)
@given(data=st.data())
def test_lists_have_the_items_of_their_values(kind: pa.DataType, data: st.DataObject) -> None:
    few = 2 if pa.types.is_fixed_size_list(kind) else 0
    lists = st.lists(st.none() | INTEGERS, min_size=few, max_size=few or 5)
    array = sliced(data, data.draw(st.lists(st.none() | lists, max_size=9)), kind)
    cells = [cell or [] for cell in array.to_pylist()]
    assert lengths(array).tolist() == [len(cell) for cell in cells]
    assert items(array).to_pylist() == [item for cell in cells for item in cell]


@given(values=st.lists(st.tuples(INTEGERS, st.booleans())))
def test_numpy_arrays_and_masks_become_arrow_arrays(values: list[tuple[int, bool]]) -> None:
    numbers = np.array([number for number, _ in values], np.int64)
    nulls = np.array([null for _, null in values], bool)
    for array in (numbers, numbers.astype(np.float32), numbers % 3 == 0, numbers[::-1]):
        assert from_numpy(array).equals(pa.array(array))
        assert from_numpy(array, nulls).equals(pa.array(array, mask=nulls))


def test_arrays_of_nulls_only_and_of_no_buffers_have_no_value() -> None:
    for array in (pa.nulls(3), pa.nulls(3, pa.int64()), pa.nulls(3, pa.string())):
        assert not is_valid(array).any()
    assert to_numpy(pa.nulls(3, pa.float32())).tolist() == [0, 0, 0]
    assert to_numpy(pa.array([], pa.bool_())).tolist() == []


def test_a_number_that_the_type_cannot_hold_is_refused() -> None:
    with pytest.raises(OverflowError):
        from_values([2**63], pa.int64())


def test_sizes_are_told_whatever_the_type() -> None:
    assert byte_size(pa.array([1, 2, 3])) == 24
    assert byte_size(pa.array([1, 2, 3])[1:]) == 16
    for array in (
        pa.array(["x" * 20], pa.string_view()),
        pa.array([[1] * 9], pa.list_view(pa.int64())),
    ):
        assert 20 <= byte_size(array) < 200
        assert byte_size(pa.table({"v": array})) == byte_size(array)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_values_are_made_null_in_any_slice(kind: pa.DataType, data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.tuples(st.none() | KINDS[kind], st.booleans()), max_size=30))
    cut = data.draw(st.integers(0, len(cells)))
    end = data.draw(st.integers(cut, len(cells)))
    whole = pa.array([value for value, _ in cells], kind)
    gone = np.array([is_gone for _, is_gone in cells[cut:end]], bool)
    made = nulled(whole[cut:end], gone)
    made.validate(full=True)
    expected = [None if is_gone else value for value, is_gone in cells[cut:end]]
    assert made.equals(pa.array(expected, kind))
