"""Feature columns to framed records."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from tfrec_cli import _kernel
from tfrec_cli._kernel.model import FeatureColumn
from tfrec_cli.encoding import RecordTooLarge, encode_rows


def columns():
    return [
        FeatureColumn("id", pa.array([1, None, 3])),
        FeatureColumn("text", pa.array([b"a", b"b" * 500, None])),
        FeatureColumn("list", pa.array([[b"a", b"b"], [], [b"c" * 400]], pa.list_(pa.binary()))),
        FeatureColumn("wide", pa.array([[1.0] * 3, [2.0] * 3, None], pa.list_(pa.float32(), 3))),
    ]


def records(encoded):
    starts = [0, *encoded.ends.tolist()]
    data = bytes(encoded.data)
    return [data[a:b] for a, b in pairwise(starts)]


def test_all_rows_or_those_asked_for_in_their_order():
    everything = records(encode_rows(columns()))
    assert len(everything) == 3
    assert _kernel.scan(b"".join(everything)).damage == ""
    assert records(encode_rows(columns(), range(1, 3))) == everything[1:]
    assert records(encode_rows(columns(), np.array([2, 0, 2]))) == [
        everything[i] for i in (2, 0, 2)
    ]
    assert records(encode_rows(columns(), np.array([], np.int64))) == []


@pytest.mark.parametrize(
    ("rows", "limit", "row"),
    [
        (None, 450, 1),
        (None, 300, 1),
        (range(2, 3), 300, 2),
        (np.array([0, 2, 1]), 300, 2),
        (np.array([2, 1]), 450, 1),
        # Only the bytes around the values are too many: found while building.
        (None, 510, 1),
        (np.array([2, 1]), 510, 1),
    ],
)
def test_a_record_beyond_the_limit_is_refused_by_its_row(rows, limit, row):
    with pytest.raises(RecordTooLarge) as caught:
        encode_rows(columns(), rows, limit)
    assert caught.value.row == row


def test_rows_beyond_the_limit_that_nobody_asked_for_are_no_matter():
    assert len(encode_rows(columns(), range(0, 1), 200).ends) == 1


def test_sizes_of_lists_count_their_items_and_not_their_neighbours():
    lists = pa.array([[b"x" * 300], [b"x" * 150, b"y" * 150], [b"z"] * 3, None])
    column = FeatureColumn("sliced", lists[1:])
    with pytest.raises(RecordTooLarge) as caught:
        encode_rows([column], None, 299)
    assert caught.value.row == 0
    assert len(encode_rows([column], range(1, 3), 299).ends) == 2
