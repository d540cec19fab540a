"""Shuffled and sorted datasets: the order, and that nothing but the seed changes it."""

from __future__ import annotations

import datetime
import math
import random
import shutil
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from conftest import EXAMPLES, csv_files, read_manifest
from hypothesis import given
from hypothesis import strategies as st

import tfrec_cli
from tfrec_cli.errors import DatasetError, UsageError
from tfrec_cli.records.framing import read_records
from tfrec_cli.shuffle.identity import OrderColumn
from tfrec_cli.shuffle.keys import file_digests, keyed, mix, row_digests, text_digests
from tfrec_cli.shuffle.sorting import LONGEST_VALUE, sort_keys
from tfrec_cli.sources.base import Origin, SourceBatch

SEEDS = range(30)


def shards(dest: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(dest.glob("*.tfrecord-*"))]


def records(dest: Path) -> list[bytes]:
    return [record for path in sorted(dest.glob("*.tfrecord-*")) for record in read_records(path)]


def positions(tmp_path: Path, sources: Sequence[str], dest: Path) -> np.ndarray:
    """Where each record of `dest` stands in the source."""
    plain = tmp_path / "plain"
    if not plain.exists():
        tfrec_cli.convert(sources, str(plain))
    place = {record: number for number, record in enumerate(records(plain))}
    return np.array([place[record] for record in records(dest)])


def test_a_shuffle_is_a_permutation_over_all_files(tmp_path: Path) -> None:
    sources = csv_files(tmp_path, 1000)
    manifest = tfrec_cli.convert(sources, str(tmp_path / "out"), shuffle=True, seed=5, shards=4)
    found = positions(tmp_path, sources, tmp_path / "out")
    assert sorted(found) == list(range(3000))
    assert [shard.records for shard in manifest.shards] == [750] * 4
    for shard in found.reshape(4, 750):
        for file in range(3):
            assert 190 < np.sum(shard // 1000 == file) < 310
    assert read_manifest(tmp_path / "out")["options"]["seed"] == 5


TWINS: list[dict[str, Any]] = [
    {"jobs": 7},
    {"memory": "1"},
    {"memory": "30kB", "jobs": 7},
    {"memory": "70kB", "jobs": 2},
]


@pytest.mark.parametrize("twin", TWINS, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "seed": 1},
        {"shuffle": True, "split": "a=0.7,b=0.3", "stratify": "c"},
        {"sort_by": ("c", "text"), "split": "a=0.7,b=0.3"},
        {"shuffle": True, "key": "n", "split": "a=0.7,b=0.3", "compression": "gzip"},
    ],
    ids=str,
)
def test_memory_and_jobs_change_no_byte(
    tmp_path: Path, options: dict[str, Any], twin: dict[str, Any]
) -> None:
    sources = csv_files(tmp_path, rows=150, number=2)
    tfrec_cli.convert(sources, str(tmp_path / "a"), name="d", shards=3, jobs=1, **options)
    tfrec_cli.convert(sources, str(tmp_path / "b"), name="d", shards=3, **twin, **options)
    assert shards(tmp_path / "a") == shards(tmp_path / "b")
    assert [path.name for path in sorted((tmp_path / "b").iterdir())] == [
        path.name for path in sorted((tmp_path / "a").iterdir())
    ]


def test_another_seed_is_another_order_and_the_same_the_same(tmp_path: Path) -> None:
    sources = csv_files(tmp_path, rows=300)
    for name, seed in (("a", 1), ("b", 1), ("c", 2), ("d", None), ("e", 0)):
        tfrec_cli.convert(sources, str(tmp_path / name), name="d", shuffle=True, seed=seed)
    a, b, c, d, e = (shards(tmp_path / name) for name in "abcde")
    assert a == b
    assert d == e
    assert len({tuple(x) for x in (a, c, d)}) == 3


def test_a_shuffled_dataset_in_one_file(tmp_path: Path) -> None:
    sources = csv_files(tmp_path, rows=300)
    tfrec_cli.convert(sources, str(tmp_path / "out"), shuffle=True, shards=3)
    for memory in ("1GiB", "20kB"):
        dest = tmp_path / f"{memory}.tfrecord"
        tfrec_cli.convert(sources, str(dest), shuffle=True, memory=memory)
        assert dest.read_bytes() == b"".join(shards(tmp_path / "out"))


def test_shuffled_rows_in_error_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "n\n" + "".join(f"{n if n % 10 else 'x'}\n" for n in range(500))
    )
    options: dict[str, Any] = {"schema": {"features": {"n": "int64"}}, "on_error": "skip"}
    source = str(tmp_path / "a.csv")
    tfrec_cli.convert(source, str(tmp_path / "plain"), **options)
    for memory in ("1GiB", "1"):
        dest = tmp_path / memory
        tfrec_cli.convert(source, str(dest), shuffle=True, memory=memory, shards=4, **options)
        assert [len(list(read_records(p))) for p in sorted(dest.glob("*.tfrecord-*"))] == [
            113, 113, 112, 112,
        ]  # fmt: skip
        found = positions(tmp_path, [source], dest)
        assert sorted(found) == list(range(450))


def test_folders_that_name_splits_are_shuffled_each_on_its_own(tmp_path: Path) -> None:
    for split, digits in (("train", "01"), ("test", "23")):
        for digit in digits:
            shutil.copytree(EXAMPLES / "digits" / digit, tmp_path / "in" / split / digit)
    for number, options in enumerate(({}, {"shuffle": True}, {"shuffle": True, "memory": "1"})):
        tfrec_cli.convert(str(tmp_path / "in"), str(tmp_path / f"{number}"), name="d", **options)
    for split in ("train", "test"):
        plain, mixed, spilled = (
            list(read_records(tmp_path / f"{n}" / f"d-{split}.tfrecord-00000-of-00001"))
            for n in range(3)
        )
        assert sorted(plain) == sorted(mixed)
        assert plain != mixed
        assert mixed == spilled


# Quality -----------------------------------------------------------------------------------------


def order_of(seed: int, rows: int) -> np.ndarray:
    """The source positions of two files' rows in the order of their keys."""
    half = rows // 2
    digests = np.concatenate([row_digests("a.csv", 0, 0, half), row_digests("b.csv", 0, 0, half)])
    return np.argsort(keyed(digests, "shuffle", seed))


ROWS = 4096


@pytest.mark.parametrize("seed", SEEDS)
def test_places_and_positions_are_unrelated(seed: int) -> None:
    order = order_of(seed, ROWS)
    assert abs(np.corrcoef(np.arange(ROWS), order)[0, 1]) < 4 / math.sqrt(ROWS)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 4 / math.sqrt(ROWS)
    other = order_of(seed + 1, ROWS)
    assert abs(np.corrcoef(np.argsort(order), np.argsort(other))[0, 1]) < 4 / math.sqrt(ROWS)


@pytest.mark.parametrize("seed", SEEDS)
def test_neighbours_do_not_stay_together(seed: int) -> None:
    # About two pairs in each shuffle, as in one drawn by lot.
    assert np.sum(np.abs(np.diff(order_of(seed, ROWS))) == 1) <= 10


@pytest.mark.parametrize("seed", SEEDS)
def test_classes_that_stand_together_are_mixed(seed: int) -> None:
    classes = order_of(seed, ROWS) * 4 // ROWS
    runs = 1 + np.sum(np.diff(classes) != 0)
    assert runs == pytest.approx(1 + (ROWS - 1) * 0.75, abs=5 * math.sqrt(ROWS * 0.75 * 0.25))
    counts = np.array([np.bincount(shard, minlength=4) for shard in classes.reshape(16, -1)])
    expected = ROWS / 64
    chi_square = float(np.sum((counts - expected) ** 2 / expected))
    assert 45 - 4 * math.sqrt(90) < chi_square < 45 + 5 * math.sqrt(90)


def test_seeds_draw_every_order_alike() -> None:
    orders = [
        tuple(np.argsort(keyed(row_digests("x", 0, 0, 3), "shuffle", s))) for s in range(6000)
    ]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 25


def test_keys_are_what_they_were() -> None:
    """Datasets already written depend on them."""
    rows = keyed(row_digests("a/b.csv", 0, 7, 2), "shuffle", 42)
    texts = keyed(text_digests(pa.array(["7", None])), "split", 0)
    assert mix(np.zeros(1, np.uint64))[0] == 0xE220A8397B1DCDAF
    assert rows.tolist() == [1354613139761144977, 196531296001868372]
    assert texts.tolist() == [12722409403692270359, 15371874501838592817]
    assert file_digests(["a.png"], 0).tolist() == [9349870816432532991]


# Sorting -----------------------------------------------------------------------------------------


def test_sorted_by_columns_and_then_as_in_the_source(tmp_path: Path) -> None:
    sources = csv_files(tmp_path, rows=300)
    for memory in ("1GiB", "9kB"):
        dest = tmp_path / memory
        tfrec_cli.convert(sources, str(dest), sort_by="c", shards=3, memory=memory)
        found = positions(tmp_path, sources, dest)
        assert list(found) == sorted(range(900), key=lambda n: (n % 4, n))


def test_numbers_in_csv_are_sorted_as_numbers_and_gaps_come_last(tmp_path: Path) -> None:
    cells = ["10", "9", "", "-3", "2.5", "NA"]
    (tmp_path / "a.csv").write_text("v,i\n" + "".join(f"{c},{n}\n" for n, c in enumerate(cells)))
    for schema in (None, {"features": {"i": "int64"}}):
        dest = tmp_path / ("all" if schema is None else "one")
        tfrec_cli.convert(str(tmp_path / "a.csv"), str(dest), sort_by="v", schema=schema)
        plain = tmp_path / f"plain-{dest.name}"
        tfrec_cli.convert(str(tmp_path / "a.csv"), str(plain), schema=schema)
        place = {record: number for number, record in enumerate(records(plain))}
        assert [place[record] for record in records(dest)] == [3, 4, 1, 0, 2, 5]


def test_lists_have_no_order(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [[1], [2]]}), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="--sort-by v: list"):
        tfrec_cli.convert(str(tmp_path / "a.parquet"), str(tmp_path / "o"), sort_by="v")


DAYS = st.dates(datetime.date(1, 1, 1))
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int8": (pa.int8(), st.integers(-2, 2)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "double": (pa.float64(), st.floats(allow_nan=False).map(lambda x: x + 0.0)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(st.sampled_from("a\0b\x01é日"), max_size=4)),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "decimal": (pa.decimal128(20, 2), st.decimals(-999, 999, places=2)),
    "date": (pa.date32(), DAYS),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["x", "y", ""])),
}


@given(st.data(), st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(VALUES)))
def test_sort_keys_compare_as_the_values_do(data: st.DataObject, first: str, second: str) -> None:
    rows = data.draw(st.integers(1, 12))
    columns = {}
    for name, kind in (("a", first), ("b", second)):
        values = st.lists(st.none() | VALUES[kind][1], min_size=rows, max_size=rows)
        columns[name] = pa.array(data.draw(values), VALUES[kind][0])
    batch = pa.RecordBatch.from_pydict(columns)
    keys = sort_keys(SourceBatch(batch, Origin("f", 0)), "ab", [OrderColumn("a"), OrderColumn("b")])
    plain = pa.table({name: _decoded(column) for name, column in columns.items()})
    expected = pc.sort_indices(plain, sort_keys=[("a", "ascending"), ("b", "ascending")])
    assert pc.sort_indices(keys).to_pylist() == expected.to_pylist()


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def test_of_long_texts_the_beginning_decides_and_then_the_source(tmp_path: Path) -> None:
    long = "x" * LONGEST_VALUE
    texts = [long + "b", long + "a", long, long[1:] + "y", long[1:], "\0" * 20_000, "\0" * 19_999]
    pq.write_table(pa.table({"t": texts, "n": range(7)}), tmp_path / "a.parquet")
    source = str(tmp_path / "a.parquet")
    for memory in ("1GiB", "9kB"):
        dest = tmp_path / memory
        tfrec_cli.convert(source, str(dest), sort_by="t", memory=memory)
        assert list(positions(tmp_path, [source], dest)) == [5, 6, 4, 0, 1, 2, 3]


def test_nan_comes_after_numbers_and_before_gaps() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array([math.nan, None, math.inf, -math.inf, -0.0])})
    keys = sort_keys(SourceBatch(batch, Origin("f", 0)), ["a"], [OrderColumn("a")])
    assert pc.sort_indices(keys).to_pylist() == [3, 4, 2, 0, 1]


# The disk ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stops", [False, True])
def test_what_is_spilled_is_gone_afterwards(tmp_path: Path, stops: bool) -> None:
    sources = csv_files(tmp_path, rows=300)
    (tmp_path / "temp").mkdir()
    schema = {"features": {"n": "int64"}}
    if stops:
        Path(sources[2]).write_text("n,text,c\n" + "1,1,1\n" * 400 + "x,1,1\n")
    options = {"shuffle": True, "memory": "2kB", "schema": schema, "jobs": 2}
    for temp_dir in (None, str(tmp_path / "temp")):
        dest = tmp_path / "out"
        shutil.rmtree(dest, ignore_errors=True)
        try:
            tfrec_cli.convert(sources, str(dest), temp_dir=temp_dir, **options)  # type: ignore[arg-type]
        except tfrec_cli.TfrecError:
            assert stops
    assert list((tmp_path / "temp").iterdir()) == []
    left = {path.name for path in tmp_path.iterdir()} - {Path(s).name for s in sources}
    assert left == ({"temp"} if stops else {"temp", "out"})


def test_what_fits_in_memory_touches_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled = []
    monkeypatch.setattr("tfrec_cli.ordering.spill_run", lambda *args: spilled.append(args))
    tfrec_cli.convert(csv_files(tmp_path, 1000), str(tmp_path / "out"), shuffle=True, jobs=2)
    assert spilled == []


def test_too_little_room_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=2**20)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(
        DatasetError, match=r"GB are needed .* 0\.00 GB are free.*--temp-dir.*--mem"
    ):
        tfrec_cli.convert(
            csv_files(tmp_path, 1000), str(tmp_path / "out"), shuffle=True, memory="1kB"
        )
    assert not (tmp_path / "out").exists()


def test_a_temp_dir_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="--temp-dir"):
        tfrec_cli.convert(
            csv_files(tmp_path, 1000),
            str(tmp_path / "out"),
            shuffle=True,
            temp_dir=str(tmp_path / "no"),
        )


def test_decimals_and_lists_beside_each_other_are_shuffled_whole(tmp_path: Path) -> None:
    generator = random.Random(1)
    rows = [
        {"d": Decimal(n) / 4, "l": [n] * generator.randrange(5), "s": {"x": n}} for n in range(400)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=90)
    source = str(tmp_path / "a.parquet")
    tfrec_cli.convert(source, str(tmp_path / "out"), shuffle=True, memory="3kB")
    assert sorted(positions(tmp_path, [source], tmp_path / "out")) == list(range(400))
