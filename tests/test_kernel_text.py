"""The kernel's shortcuts for text cells say what the grammar says, cell by cell."""

from __future__ import annotations

import importlib
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfrec_cli import _kernel
from tfrec_cli.schema.cells import NULL_WORDS, Meaning, TextRules, meanings, read_block

pytestmark = pytest.mark.skipif(_kernel.BODY != "native", reason="the shortcuts are compiled")

NUMBERS = st.from_regex(r"[+-]?[0-9]{0,21}\.?[0-9]{0,6}([eE][+-]?[0-9]{0,3})?", fullmatch=True)
WORDS = st.sampled_from(
    [*NULL_WORDS, "nan", "-NaN", "+inf", "-Infinity", "TRUE", "false", "tRue", "yes", "infinit"]
)
CELLS = st.lists(
    st.none()
    | st.integers(-(2**66), 2**66).map(str)
    | NUMBERS
    | WORDS
    | WORDS.map(lambda word: f" {word}\t")
    | st.text("0123456789+-.eE \tnaif", max_size=8)
    | st.text(max_size=4)
)


def exact(cells: pa.Array) -> list[int]:
    """Meanings without any shortcut."""
    return [int(code) for code in read_block(cells, TextRules()).codes]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@given(values=CELLS, cut=st.integers(0, 3))
@example(values=["00.5", "-0", "+0", "0", "1.2.3", "1-2", "1e", "e5", ".", "5.", ".5"], cut=0)
def test_meanings_are_those_of_the_grammar(
    kind: pa.DataType, values: list[str | None], cut: int
) -> None:
    cells = pa.array(values, kind).slice(min(cut, len(values)))
    facts = _kernel.text_facts(cells)
    codes = exact(cells)
    assert codes == meanings(cells, TextRules()).tolist()
    assert facts[0].tolist() == [codes.count(meaning) for meaning in Meaning]
    assert facts[1].tolist() == [codes.index(m) if m in codes else 0 for m in Meaning]


@given(values=st.lists(st.none() | st.integers(-(2**63) - 2, 2**63 + 1) | st.integers(-9, 9)))
def test_bare_integers_are_read_and_nothing_beyond(values: list[int | None]) -> None:
    texts = [None if v is None else str(v) for v in values]
    found = _kernel.text_to_int64(pa.array(texts, pa.string()))
    if all(v is None or -(2**63) <= v < 2**63 for v in values):
        assert found.equals(pa.array(values, pa.int64()))
    else:
        assert found is None


@pytest.mark.parametrize("text", ["", " 1", "+1", "1.", "1e2", "0x10", "1_0", "٣", "-", "1,0"])
def test_what_is_no_bare_integer_is_left_to_the_grammar(text: str) -> None:
    assert _kernel.text_to_int64(pa.array(["1", text])) is None


@given(values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_floats_are_the_nearest(values: list[float]) -> None:
    texts = [str(np.float32(value)) for value in values]
    for text in texts:
        found = _kernel.text_to_float64(pa.array([text, None]))
        assert found is None or found.equals(pa.array([float(text), None]))
        if 1e-3 < abs(float(text)) < 1e10:
            assert found is not None


@given(digits=st.integers(0, 2**53 + 2), power=st.integers(-25, 25))
def test_decimal_numbers_are_the_nearest(digits: int, power: int) -> None:
    text = f"-{digits}e{power}"
    found = _kernel.text_to_float64(pa.array([text]))
    assert (found is None) == (digits > 2**53 or abs(power) > 22)
    if found is not None:
        value = found[0].as_py()
        assert (value, math.copysign(1, value)) == (float(text), -1)


def test_offsets_outside_the_data_are_refused() -> None:
    native = importlib.import_module("tfrec_cli._kernel._native")
    out = np.zeros(18, np.int64)
    functions = (native.text_facts, native.text_to_int64, native.text_to_float64)
    for function, offsets in itertools.product(functions, ([0, 9], [3, 1], [-1, 1])):
        with pytest.raises(ValueError, match="offsets outside"):
            function(None, np.array(offsets, np.int32), 4, b"1234", 0, 1, out)
    for function in functions:
        with pytest.raises(ValueError, match="too small"):
            function(None, np.zeros(2, np.int32), 4, b"", 0, 9, out)
        with pytest.raises(ValueError, match="too small"):
            function(bytes(1), np.zeros(12, np.int32), 4, b"", 0, 9, out)
        with pytest.raises(ValueError, match="too small"):
            function(None, np.zeros(12, np.int32), 4, b"", 0, 9, np.zeros(1, np.int64))
