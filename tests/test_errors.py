"""Errors say where, what was found, and what to do, in one line; and they travel."""

from __future__ import annotations

import pickle

import pytest

from tfrec_cli.errors import CellError, Location, Reject, did_you_mean, shorten


def test_a_cell_error_leads_to_the_cell() -> None:
    where = Location("data/b.csv", 1203, 1205)
    error = CellError(Reject(where, "age", "12.5", "is not an int64", "Make it a float."))
    assert str(error) == (
        'data/b.csv, line 1205, column age: "12.5" is not an int64. Make it a float.'
    )


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (Location("a.parquet", 2), "a.parquet, row 3: is wrong."),
        (Location("a.jpg"), "a.jpg: is wrong."),
    ],
)
def test_places_without_lines_count_rows_from_one(where: Location, text: str) -> None:
    assert str(Reject(where, None, None, "is wrong")) == text


def test_errors_survive_pickling() -> None:
    error = CellError(Reject(Location("a", 1, 2), "c", "v", "r"))
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.reject) == (str(error), error.reject)


def test_values_stay_on_one_line() -> None:
    assert shorten("a\nb\x00" + "x" * 200) == "a\\nb\\x00" + "x" * 75 + "…"


def test_near_words_are_suggested() -> None:
    assert did_you_mean("Shrads", ["shards", "split"]) == ' Did you mean "shards"?'
    assert did_you_mean("banana", ["shards", "split"]) == ""
