"""How counts and sizes are said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.cli.common import human_size
from tfrec_cli.errors import counted, first_line


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (999.6, "1.0 kB"),
        (1000, "1.0 kB"),
        (999_940, "999.9 kB"),
        (999_960, "1.0 MB"),
        (999_960_000, "1.0 GB"),
        (999_960_000_000, "1.0 TB"),
        (5e15, "5000.0 TB"),
    ],
)
def test_sizes_change_units_where_rounding_does(size: float, said: str) -> None:
    assert human_size(size) == said


@given(st.integers(0, 10**15 - 10**11))
def test_no_size_is_a_thousand_of_its_unit(size: int) -> None:
    assert float(human_size(size).split()[0]) < 1000


def test_counts() -> None:
    said = [
        counted(n, word) for n, word in ((1, "file"), (2_000, "file"), (2, "class"), (0, "box"))
    ]
    assert said == ["1 file", "2,000 files", "2 classes", "0 boxes"]


def test_errors_of_others_are_said_in_one_line() -> None:
    assert first_line(ValueError("bad.\nmore")) == "bad"
    assert first_line(KeyError()) == "KeyError"
