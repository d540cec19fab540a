"""Rows of dictionaries and runs are cut by what they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfrec_cli.sources import decoded
from tfrec_cli.sources.base import Needs
from tfrec_cli.sources.decoded import BatchRows, cut_decoded
from tfrec_cli.sources.table import TableSource

WORDS = ["", "a" * 30, None, "b" * 100]


def dictionary(codes: list[int | None]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(WORDS))


def cut(array: pa.Array, most: int) -> list[int]:
    batch = pa.record_batch({"n": pa.array(range(len(array))), "x": array})
    parts = list(cut_decoded(batch, most))
    assert [n for part in parts for n in part.column("n").to_pylist()] == list(range(len(array)))
    return [part.num_rows for part in parts]


def test_parts_hold_as_many_rows_as_fit() -> None:
    array = dictionary([1, 1, 1, None, 2, 0, 3, 3, 1])
    assert cut(array, 60) == [2, 4, 1, 1, 1]
    assert cut(array, 10_000) == [9]
    assert cut(array, 0) == [1, 1, 1, 3, 1, 1, 1]
    assert cut(array.slice(6), 130) == [1, 2]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.string_view()])
def test_all_forms_of_text_have_lengths(kind: pa.DataType) -> None:
    values = pa.array(["a" * 30, None], kind)
    array = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1, 0]), values)
    assert cut(array, 60) == [3, 1]


def test_runs_lists_and_structs_count_what_is_in_them() -> None:
    ends = pa.array([2, 3, 5], pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["a" * 30, None, "b" * 20]))
    assert cut(runs, 60) == [3, 2]
    assert cut(runs.slice(1), 50) == [3, 1]
    struct = pa.StructArray.from_arrays([dictionary([1, 1, 1]), dictionary([1, 3, 0])], ["a", "b"])
    assert cut(struct, 160) == [1, 2]
    lists = pa.ListArray.from_arrays(
        pa.array([0, 2, None, 2, 5], pa.int32()), dictionary([1, 1, 3, 3, 3])
    )
    assert cut(lists, 60) == [3, 1]
    assert cut(lists.slice(1), 60) == [2, 1]


@pytest.mark.parametrize("values", [2, 5000])
def test_a_dictionary_is_read_where_its_header_would_make_batches_too_small(
    tmp_path: Path, values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One value could have all the bytes that the header tells of: with many values, far too few
    rows would fit.
    """
    monkeypatch.setattr(decoded, "MOST_BYTES", 1 << 20)
    read = decoded._dictionary_lengths
    asked = list[str]()

    def lengths(path: str, metadata: Any, group: int, leaves: list[str]) -> Any:
        asked.extend(leaves)
        return read(path, metadata, group, leaves)

    monkeypatch.setattr(decoded, "_dictionary_lengths", lengths)
    texts = [f"{n % values:040}" for n in range(20_000)]
    pq.write_table(pa.table({"x": texts}), tmp_path / "a.parquet", use_dictionary=True)
    with pq.ParquetFile(tmp_path / "a.parquet") as file:
        rows = BatchRows(file, str(tmp_path / "a.parquet"), ["x"], 1 << 20).of(0)
    assert 5_000 < rows <= (1 << 20) // 40
    assert asked == (["x"] if values > 2 else [])


def test_many_small_dictionaries_make_no_small_batches(tmp_path: Path) -> None:
    """Each could have one value of all its bytes; all of them in one row are another matter."""
    texts = [f"{n % 500:010}" for n in range(20_000)]
    names = [f"c{n}" for n in range(200)]
    pq.write_table(pa.table(dict.fromkeys(names, texts)), tmp_path / "a.parquet")
    with pq.ParquetFile(tmp_path / "a.parquet") as file:
        rows = BatchRows(file, str(tmp_path / "a.parquet"), names, 32 << 20).of(0)
    assert 7_000 < rows <= (32 << 20) // 2000


def test_what_is_spread_out_already_is_not_cut() -> None:
    assert cut(pa.array(["a" * 1000] * 5), 1) == [5]
    assert cut(pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([7])), 1) == [2]


def test_a_table_of_long_cells_said_once_is_read_in_parts() -> None:
    rows, text = 25_000, "x" * 100_000
    cells = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))
    source = TableSource([pa.table({"a": cells})], TableSource.Options())
    survey = source.survey(Needs())
    assert (survey.rows, survey.columns[0].nulls) == (rows, False)
    first = next(source.read(survey.partitions[0], ["a"]))
    assert 1 < first.data.num_rows < 1000
    assert first.data.column("a")[0].as_py() == text


def test_a_reader_of_long_cells_is_copied_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfrec_cli.sources.table._BATCH_BYTES", 1000)
    table = pa.table({"a": dictionary([3] * 100)})
    source = TableSource([table.to_reader()], TableSource.Options())
    survey = source.survey(Needs(temp_dir=str(tmp_path)))
    batches = [b.data for p in survey.partitions for b in source.read(p, ["a"])]
    assert [batch.num_rows for batch in batches] == [10] * 10
