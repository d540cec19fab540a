"""Parquet files as a source: schemas that drift, Hive folders, index columns, damage."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfrec_cli.errors import SourceError
from tfrec_cli.sources import decoded, parquet
from tfrec_cli.sources.base import Needs, Survey
from tfrec_cli.sources.common_type import common_type, conform, null_count, value_type
from tfrec_cli.sources.parquet import ParquetSource


def source(*inputs: Path | str, **options: str) -> ParquetSource:
    return ParquetSource([str(i) for i in inputs], ParquetSource.Options(**options))


def rows(reader: ParquetSource, survey: Survey, columns: Sequence[str] | None = None) -> list[Any]:
    names = [c.name for c in survey.columns] if columns is None else list(columns)
    return [
        row
        for part in survey.partitions
        for batch in reader.read(part, names)
        for row in batch.data.to_pylist()
    ]


def types(survey: Survey) -> dict[str, str]:
    return {c.name: str(c.type) for c in survey.columns}


def nulls(survey: Survey) -> dict[str, bool | None]:
    return {c.name: c.nulls for c in survey.columns}


class Keys(encryption.KmsClient):
    """Keys that are wrapped in nothing."""

    def wrap_key(self, key: bytes, _master: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _master: str) -> bytes:
        return base64.b64decode(wrapped)


@pytest.mark.parametrize("columns", [["b"], ["a", "b"], ["a"]])
@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_an_encrypted_file_is_named(
    tmp_path: Path, plaintext_footer: bool, columns: list[str]
) -> None:
    file = tmp_path / "secret.parquet"
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})
    how = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"k": columns}, plaintext_footer=plaintext_footer
    )
    connection = encryption.KmsConnectionConfig()
    keys = encryption.CryptoFactory(lambda _: Keys())
    made = keys.file_encryption_properties(connection, how)
    with pq.ParquetWriter(file, table.schema, encryption_properties=made) as writer:
        writer.write_table(table)
    command = [sys.executable, "-m", "tfrec_cli", "convert", "secret.parquet", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "tfrec: secret.parquet: is an encrypted Parquet file, which cannot be read. Write it "
        "without encryption."
    ]


def test_every_type_comes_back_as_it_was(tmp_path: Path) -> None:
    when = dt.datetime(9999, 12, 31, 23, 59, 59)
    table = pa.table(
        {
            "bool": pa.array([True, None, False]),
            "u8": pa.array([1, 2, 255], pa.uint8()),
            "u64": pa.array([1, None, 2**64 - 1], pa.uint64()),
            "half": pa.array([np.float16(1.5), None, np.float16(2)], pa.float16()),
            "dec": pa.array(
                [decimal.Decimal("0.10"), None, decimal.Decimal("9")], pa.decimal128(9, 2)
            ),
            "us": pa.array([when, None, when], pa.timestamp("us")),
            "zone": pa.array([1, None, 2], pa.timestamp("ms", "Europe/Berlin")),
            "day": pa.array([-719162, 0, 1], pa.int32()).cast(pa.date32()),
            "time": pa.array([1, None, 3], pa.time64("us")),
            "span": pa.array([1, None, 3], pa.duration("ns")),
            "text": pa.array(["", None, "ä"], pa.large_string()),
            "fixed": pa.array([b"ab", None, b"\x00\xff"], pa.binary(2)),
            "list": pa.array([[1], None, []], pa.list_(pa.int64())),
            "nest": pa.array([[[1], []], None, []], pa.list_(pa.list_(pa.int16()))),
            "pair": pa.array([[1, 2], [5, 6], [3, 4]], pa.list_(pa.float32(), 2)),
            "row": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
            "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int8())),
            "none": pa.nulls(3),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    reader = source(tmp_path / "t.parquet")
    survey = reader.survey(Needs())
    assert [c.type for c in survey.columns] == table.schema.types
    assert rows(reader, survey) == table.to_pylist()
    assert {n for n, has in nulls(survey).items() if not has} == {"u8", "day", "pair"}


def test_fixed_size_lists_with_null_rows(tmp_path: Path) -> None:
    table = pa.table({"pair": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2))})
    try:
        pq.write_table(table, tmp_path / "t.parquet")
    except pa.ArrowNotImplementedError:
        pytest.skip("this release of pyarrow cannot write them")
    reader = source(tmp_path / "t.parquet")
    survey = reader.survey(Needs())
    assert rows(reader, survey) == table.to_pylist()
    assert nulls(survey) == {"pair": True}


def test_dictionaries_are_read_as_their_values(tmp_path: Path) -> None:
    for name, words in (("a", ["red", "blue"]), ("b", ["blue", "green"])):
        column = pa.array(words).dictionary_encode()
        pq.write_table(pa.table({"c": column}), tmp_path / f"{name}.parquet")
    reader = source(tmp_path)
    survey = reader.survey(Needs())
    assert types(survey) == {"c": "string"}
    assert [r["c"] for r in rows(reader, survey)] == ["red", "blue", "blue", "green"]


LONG = "x" * 100_000


def long_cells(rows: int) -> pa.DictionaryArray:
    """One long text that all rows have."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([LONG]))


@pytest.mark.parametrize("form", ["dictionary", "text", "list"])
def test_batches_are_bounded_where_a_dictionary_makes_long_cells_look_short(
    tmp_path: Path, form: str
) -> None:
    cells: pa.Array = long_cells(25_000 if form == "dictionary" else 1000)
    if form == "text":
        cells = cells.cast(pa.string())
    elif form == "list":
        cells = pa.ListArray.from_arrays(pa.array(np.arange(0, 1001, 4, np.int32)), cells)
    table = pa.table({"n": range(len(cells)), "a": cells})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=25_000)
    reader = source(tmp_path / "t.parquet")
    survey = reader.survey(Needs())
    first = next(reader.read(survey.partitions[0], ["n", "a"]))
    assert first.data.num_rows > 1
    assert first.data.nbytes < 2 * reader.batch_bytes
    value = first.data.column("a")[0].as_py()
    assert value == ([LONG] * 4 if form == "list" else LONG)


def test_one_long_value_in_a_dictionary_of_short_ones_does_not_make_batches_tiny(
    tmp_path: Path,
) -> None:
    words = [f"word {i}" for i in range(5000)] * 40
    table = pa.table({"a": pa.array([*words, LONG])})
    pq.write_table(table, tmp_path / "t.parquet")
    reader = source(tmp_path / "t.parquet")
    survey = reader.survey(Needs())
    sizes = [b.data.num_rows for p in survey.partitions for b in reader.read(p, ["a"])]
    assert sum(sizes) == len(table)
    assert sizes[0] > 1000


def test_batches_are_bounded_in_a_row_group_that_is_not_like_the_one_before(
    tmp_path: Path,
) -> None:
    """Where the long cells lie behind row groups that are alike, and small."""
    groups = [pa.array([f"word {number}" for number in range(n, n + 5000)]) for n in (0, 7)]
    groups.append(long_cells(5000).cast(pa.string()))
    schema = pa.schema({"a": pa.string()})
    with pq.ParquetWriter(tmp_path / "t.parquet", schema) as writer:
        for cells in groups:
            writer.write_table(pa.table({"a": cells}))
    reader = source(tmp_path / "t.parquet")
    survey = reader.survey(Needs())
    sizes = [b.data.nbytes for p in survey.partitions for b in reader.read(p, ["a"])]
    assert sum(sizes) > 5000 * len(LONG)
    assert max(sizes) < 2 * reader.batch_bytes


def test_batches_are_bounded_in_a_partition_that_is_not_like_the_one_before(tmp_path: Path) -> None:
    """What is known of a file's dictionaries goes from partition to partition, but not too far."""
    short = pa.array([f"word {number}" for number in range(5000)])
    schema = pa.schema({"a": pa.string()})
    with pq.ParquetWriter(tmp_path / "t.parquet", schema) as writer:
        for cells in (short, short, long_cells(5000).cast(pa.string())):
            writer.write_table(pa.table({"a": cells}))
    reader = source(tmp_path / "t.parquet")
    reader.partition_bytes = 1
    survey = reader.survey(Needs())
    assert len(survey.partitions) == 3
    sizes = [b.data.nbytes for p in survey.partitions for b in reader.read(p, ["a"])]
    assert sum(sizes) > 5000 * len(LONG)
    assert max(sizes) < 2 * reader.batch_bytes


@pytest.mark.parametrize("asked", ["read_dictionary_page", "open_row_groups"])
def test_a_file_with_dictionaries_is_asked_for_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    pq.write_table(
        pa.table({"a": [f"word {n % 50}" for n in range(5000)]}), tmp_path / "t.parquet",
        row_group_size=500,
    )  # fmt: skip
    opened: list[dict[str, Any]] = []
    if asked == "open_row_groups":
        monkeypatch.setattr(decoded, "read_dictionary_page", lambda *_: None)
    real = getattr(decoded, asked)

    def counting(*args: Any, **how: Any) -> Any:
        opened.append(how)
        return real(*args, **how)

    monkeypatch.setattr(decoded, asked, counting)
    reader = source(tmp_path / "t.parquet")
    reader.partition_bytes, reader.batch_bytes = 1, 1000
    survey = reader.survey(Needs())
    assert len(survey.partitions) == 10
    assert sum(b.data.num_rows for p in survey.partitions for b in reader.read(p, ["a"])) == 5000
    assert len(opened) == 1


def test_nulls_are_looked_for_in_bounded_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"a": pa.array([None, *long_cells(1000).to_pylist()])})
    pq.write_table(table, tmp_path / "t.parquet", write_statistics=False)
    seen: list[int] = []
    count = parquet.null_count
    monkeypatch.setattr(parquet, "null_count", lambda a: seen.append(a.nbytes) or count(a))
    assert nulls(source(tmp_path / "t.parquet").survey(Needs())) == {"a": True}
    assert max(seen) < 2 * parquet.LOOK_BYTES


def test_nulls_of_dictionaries_and_runs_are_counted_by_their_places() -> None:
    codes = pa.array(np.zeros(25_000, np.int32))
    assert null_count(pa.DictionaryArray.from_arrays(codes, pa.array([LONG]))) == 0
    some = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1]), pa.array(["a", None]))
    assert null_count(some) == 3
    assert null_count(pa.chunked_array([some, some.slice(2)])) == 5
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5, 30_000], pa.int32()), [None, "a", "b"])
    assert null_count(runs) == 2
    assert null_count(runs.slice(1, 10)) == 1


def test_partitions_of_many_row_groups_know_their_first_row(tmp_path: Path) -> None:
    table = pa.table({"a": range(1000)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    reader = source(tmp_path / "t.parquet")
    reader.partition_bytes = 1
    partitions = reader.survey(Needs()).partitions
    assert [p.first_row for p in partitions] == list(range(0, 1000, 7))
    assert partitions[-1].rows == 1000 % 7


def test_columns_are_the_union_over_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"c": [2.5], "a": pa.array([2], pa.int8())}), tmp_path / "2.parquet")
    reader = source(tmp_path)
    survey = reader.survey(Needs())
    assert types(survey) == {"a": "int64", "b": "string", "c": "double"}
    absent = {c.name: [os.path.basename(f) for f in c.absent] for c in survey.columns}
    assert absent == {"a": [], "b": ["2.parquet"], "c": ["1.parquet"]}
    assert nulls(survey) == {"a": False, "b": True, "c": True}
    assert rows(reader, survey) == [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": 2.5}]
    text = "\n".join(survey.notices)
    assert "column b is missing in 2.parquet" in text
    assert "column a: int64 in" in text


def test_types_that_do_not_belong_together_name_both_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"x": ["five"]}), tmp_path / "2.parquet")
    with pytest.raises(SourceError, match=r"2\.parquet, column x: is string, but int64 in .*1\.p"):
        source(tmp_path).survey(Needs())


def test_a_value_out_of_the_common_type_is_a_fault_of_its_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([-1])}), tmp_path / "1.parquet")
    big = pa.array([7, 2**63, 8], pa.uint64())
    pq.write_table(pa.table({"x": big}), tmp_path / "2.parquet")
    reader = source(tmp_path)
    survey = reader.survey(Needs())
    assert types(survey) == {"x": "int64"}
    (batch,) = reader.read(survey.partitions[1], ["x"])
    assert [(f.row, f.column, f.value) for f in batch.faults] == [(1, "x", str(2**63))]
    assert batch.data.column(0).to_pylist() == [7, None, 8]
    assert str(batch.origin.locate(1)).endswith("2.parquet, row 2")


def test_files_without_rows_do_not_matter_beside_others(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([], pa.string())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "2.parquet")
    survey = source(tmp_path).survey(Needs())
    assert (types(survey), survey.rows) == ({"x": "int64"}, 1)
    assert "1 file without rows: 1.parquet" in survey.notices


def test_hive_folders_become_columns(tmp_path: Path) -> None:
    for year, kind, x in (("2023", "a%20b", 1), ("2024", "__HIVE_DEFAULT_PARTITION__", 2)):
        folder = tmp_path / f"t=1/year={year}/kind={kind}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [x]}), folder / "p.parquet")
    reader = source(tmp_path / "t=1")
    survey = reader.survey(Needs())
    assert types(survey) == {"x": "int64", "year": "int64", "kind": "string"}
    assert nulls(survey) == {"x": False, "year": False, "kind": True}
    assert rows(reader, survey, ["kind", "year", "x"]) == [
        {"kind": "a b", "year": 2023, "x": 1},
        {"kind": None, "year": 2024, "x": 2},
    ]
    assert rows(reader, survey, ["year"]) == [{"year": 2023}, {"year": 2024}]
    pattern = source(f"{tmp_path}/t=1/year=*/*/p.parquet").survey(Needs())
    assert list(types(pattern)) == ["x", "year", "kind"]
    assert list(types(source(tmp_path / "t=1", hive="off").survey(Needs()))) == ["x"]


@pytest.mark.parametrize("values", [["01", "2"], ["1", "x"], ["99999999999999999999", "1"]])
def test_hive_values_that_are_not_all_plain_integers_stay_text(
    tmp_path: Path, values: list[str]
) -> None:
    for value in values:
        (tmp_path / f"k={value}").mkdir()
        pq.write_table(pa.table({"x": [1]}), tmp_path / f"k={value}/p.parquet")
    reader = source(tmp_path)
    survey = reader.survey(Needs())
    assert types(survey)["k"] == "string"
    assert {r["k"] for r in rows(reader, survey)} == set(values)


def test_pandas_index_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index([5, 6]))
    frame.to_parquet(tmp_path / "unnamed.parquet")
    frame.rename_axis("id").to_parquet(tmp_path / "named.parquet")
    unnamed = source(tmp_path / "unnamed.parquet").survey(Needs())
    assert list(types(unnamed)) == ["a"]
    assert any("__index_level_0__" in n for n in unnamed.notices)
    assert list(types(source(tmp_path / "named.parquet").survey(Needs()))) == ["a", "id"]
    dropped = source(tmp_path / "named.parquet", index="drop").survey(Needs())
    assert list(types(dropped)) == ["a"]
    kept = source(tmp_path / "unnamed.parquet", index="keep")
    assert rows(kept, kept.survey(Needs()))[1] == {"a": 2, "__index_level_0__": 6}


def test_duplicate_columns_are_an_error_naming_file_and_column(tmp_path: Path) -> None:
    twice = pa.table([pa.array([1]), pa.array([2])], names=["value", "value"])
    pq.write_table(twice, tmp_path / "joined.parquet")
    with pytest.raises(SourceError, match=r"joined\.parquet, column value: two columns"):
        source(tmp_path / "joined.parquet").survey(Needs())


def test_files_that_are_not_whole_parquet_files_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "good.parquet")
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "zero.parquet").touch()
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")
    for name, words in (
        ("cut", "is cut off or damaged"),
        ("zero", r"is empty \(0 bytes\)"),
        ("text", "is not a Parquet file"),
        ("gone", "no such file"),
    ):
        with pytest.raises(SourceError, match=rf"{name}\.parquet: {words}"):
            source(tmp_path / "good.parquet", tmp_path / f"{name}.parquet").survey(Needs())


def test_damage_between_the_ends_is_found_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"a": [f"row {i}" for i in range(5000)]}), path)
    data = bytearray(path.read_bytes())
    data[4:600] = b"\xff" * 596
    path.write_bytes(data)
    reader = source(path)
    survey = reader.survey(Needs())
    with pytest.raises(SourceError, match=r"bad\.parquet"):
        rows(reader, survey)


def test_partitions_follow_row_groups_and_batches_are_bounded(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(1000)), "b": [f"{i:0100}" for i in range(1000)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100, use_dictionary=False)
    reader = source(tmp_path / "t.parquet")
    reader.partition_bytes, reader.batch_bytes = 1, 2000
    survey = reader.survey(Needs())
    assert [(p.first_row, p.rows) for p in survey.partitions] == [(i * 100, 100) for i in range(10)]
    batches = list(reader.read(survey.partitions[3], ["b", "a"]))
    assert max(b.data.num_rows for b in batches) < 40
    assert [b.origin.first_row for b in batches][:2] == [300, 300 + batches[0].data.num_rows]
    assert rows(reader, survey) == table.to_pylist()
    reader.partition_bytes = 2**30
    assert len(reader.survey(Needs()).partitions) == 1


def test_nulls_are_looked_for_where_statistics_do_not_tell(tmp_path: Path) -> None:
    table = pa.table({"a": [1, None], "b": [1, 2], "l": [[1], [None]], "m": [[1], None]})
    pq.write_table(table, tmp_path / "t.parquet", write_statistics=False)
    reader = source(tmp_path / "t.parquet")
    assert nulls(reader.survey(Needs(types=False))) == dict.fromkeys("ablm")
    expected = {"a": True, "b": False, "l": False, "m": True}
    assert nulls(reader.survey(Needs(types=True))) == expected


def test_names_with_dots_are_columns_of_their_own(tmp_path: Path) -> None:
    table = pa.table({"a": [{"b": 1}], "a.b": [2], "": [3]})
    pq.write_table(table, tmp_path / "t.parquet")
    reader = source(tmp_path / "t.parquet")
    survey = reader.survey(Needs())
    assert rows(reader, survey, ["a.b"]) == [{"a.b": 2}]
    assert rows(reader, survey) == table.to_pylist()


def test_no_columns_asked_still_tells_the_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "t.parquet")
    reader = source(tmp_path / "t.parquet")
    survey = reader.survey(Needs())
    assert sum(b.data.num_rows for p in survey.partitions for b in reader.read(p, [])) == 3


def test_old_timestamps_far_away_are_not_wrapped(tmp_path: Path) -> None:
    far = pa.table({"t": pa.array([dt.datetime(9999, 1, 1)], pa.timestamp("us"))})
    pq.write_table(far, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    reader = source(tmp_path / "t.parquet")
    survey = reader.survey(Needs())
    assert rows(reader, survey) == [{"t": dt.datetime(9999, 1, 1)}]
    assert any("INT96" in notice for notice in survey.notices)


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.parquet")
    try:
        (tmp_path / name).touch()
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with open(tmp_path / name, "wb") as file:
        pq.write_table(pa.table({"a": [1]}), file)
    reader = source(tmp_path)
    survey = reader.survey(Needs())
    assert rows(reader, survey) == [{"a": 1}]


def test_a_partition_can_be_read_elsewhere(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")
    reader = source(tmp_path / "t.parquet")
    reader, survey = pickle.loads(pickle.dumps((reader, reader.survey(Needs()))))
    assert rows(reader, survey) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("one", "two", "both"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.uint32(), pa.int32(), pa.int64()),
        (pa.uint64(), pa.int8(), pa.int64()),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.float16(), pa.float32(), pa.float32()),
        (pa.bool_(), pa.int16(), pa.int16()),
        (pa.decimal128(5, 2), pa.decimal128(9, 0), pa.decimal128(11, 2)),
        (pa.decimal128(5, 2), pa.float32(), pa.float64()),
        (pa.string(), pa.dictionary(pa.int8(), pa.large_string()), pa.large_string()),
        (pa.string(), pa.binary(), pa.binary()),
        (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("s"), pa.timestamp("s", "UTC"), None),
        (pa.timestamp("s", "UTC"), pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("ms", "UTC")),
        (pa.null(), pa.list_(pa.int8()), pa.list_(pa.int8())),
        (pa.list_(pa.int8(), 2), pa.list_(pa.int64(), 2), pa.list_(pa.int64(), 2)),
        (pa.list_(pa.int8(), 2), pa.list_(pa.int8(), 3), pa.list_(pa.int8())),
        (pa.list_(pa.int8()), pa.int8(), None),
        (pa.int64(), pa.string(), None),
        (pa.date32(), pa.timestamp("s"), None),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.string())]), None),
    ],
)
def test_common_type(one: pa.DataType, two: pa.DataType, both: pa.DataType | None) -> None:
    assert common_type(one, two) == both
    assert (common_type(two, one) is None) == (both is None)


def test_structs_of_files_are_joined_by_name() -> None:
    one = pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())]))
    two = pa.array([{"b": "x", "a": 2}], pa.struct([("b", pa.string()), ("a", pa.int64())]))
    kind = common_type(one.type, two.type)
    assert conform(one, kind).array.to_pylist() == [{"a": 1, "b": None}, None]
    assert conform(two, kind).array.to_pylist() == [{"a": 2, "b": "x"}]


def test_dictionaries_deep_inside_are_taken_as_values() -> None:
    words = pa.dictionary(pa.int8(), pa.string())
    deep = pa.struct([("x", pa.list_(words)), ("y", words)])
    assert value_type(deep) == pa.struct([("x", pa.list_(pa.string())), ("y", pa.string())])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1) | st.none(), min_size=1, max_size=40))
def test_misfits_are_exactly_the_values_out_of_range(values: list[int | None]) -> None:
    found = conform(pa.array(values, pa.uint64()), pa.int64())
    outside = [i for i, v in enumerate(values) if v is not None and v >= 2**63]
    assert list(found.misfits) == outside
    kept = [None if i in outside else v for i, v in enumerate(values)]
    assert found.array.to_pylist() == kept
