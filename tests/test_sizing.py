"""The sizes of records, told from a few places of the source."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from conftest import EXAMPLES

import tfrec_cli
from tfrec_cli.dataset.naming import parse_dest
from tfrec_cli.options import ConvertOptions
from tfrec_cli.preparation import prepare
from tfrec_cli.progress import SILENT

LENGTHS: dict[str, Callable[[int], Sequence[int]]] = {
    "even": lambda rows: [200] * rows,
    "growing": lambda rows: [n * 800 // rows for n in range(rows)],
    "shrinking": lambda rows: [800 - n * 800 // rows for n in range(rows)],
    "a few giants": lambda rows: [100 if n % 100 else 20_000 for n in range(rows)],
    "giants first": lambda rows: [30_000 if n < rows / 100 else 30 for n in range(rows)],
    "giants at the end": lambda rows: [20 if n < 0.9 * rows else 3000 for n in range(rows)],
}


def estimated(source: Any, tmp_path: Path, **options: Any) -> float:
    """The bytes that the plan tells of a dataset."""
    given = ConvertOptions((source,), str(tmp_path / "out"), **options)
    return prepare(parse_dest(given.dest), given, SILENT).plan.size


def written(source: Any, tmp_path: Path, **options: Any) -> int:
    manifest = tfrec_cli.convert(source, str(tmp_path / "out"), overwrite=True, **options)
    return sum(shard.bytes for shard in manifest.shards)


@pytest.mark.parametrize("form", ["one group", "groups", "dictionaries", "csv", "files"])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_estimates_are_near_however_records_grow(tmp_path: Path, form: str, lengths: str) -> None:
    if (form, lengths) == ("dictionaries", "giants first"):
        pytest.skip("several row groups together, of which the footer tells too little")
    rows = 24_000
    draw = random.Random(1)
    letters = "".join(draw.choices("abcdefgh", k=40_000))
    table = pa.table(
        {
            "n": range(rows),
            "t": [letters[(s := draw.randrange(9000)) : s + n] for n in LENGTHS[lengths](rows)],
            "f": np.random.default_rng(1).random(rows),
        }
    )
    path = tmp_path / ("in.csv" if form == "csv" else "in.parquet")
    if form == "csv":
        pc.write_csv(table, path)
    elif form == "files":
        path = tmp_path / "in"
        path.mkdir()
        for at in range(20):
            part = table.slice(at * rows // 20, rows // 20)
            pq.write_table(part, path / f"{at:02d}.parquet", use_dictionary=False)
    else:
        size = rows if form != "groups" else rows // 12
        pq.write_table(table, path, row_group_size=size, use_dictionary=form == "dictionaries")
    assert estimated(str(path), tmp_path) == pytest.approx(written(str(path), tmp_path), rel=0.1)


@pytest.mark.parametrize("packed", [lambda n: 20 + n // 40, lambda n: 620 - n // 40])
def test_rows_that_grow_in_a_compressed_csv(tmp_path: Path, packed: Callable[[int], int]) -> None:
    """It is one partition, of which the first block is looked at."""
    lines = (f"{n},{'abcdefgh' * 100:.{packed(n)}}\n" for n in range(24_000))
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress(("n,x\n" + "".join(lines)).encode(), 1))
    size = written(str(path), tmp_path)
    assert estimated(str(path), tmp_path) == pytest.approx(size, rel=0.1)


@pytest.mark.parametrize("giants", [{3}, {0, 9, 17}, {19}])
def test_small_row_groups_of_dictionaries_beside_giants(tmp_path: Path, giants: set[int]) -> None:
    words = [f"{n}" * 250 for n in range(50)]
    groups = [
        [bytes([n]) * 60_000 for n in range(50)] if at in giants
        else [words[n % 50].encode() for n in range(2000)]
        for at in range(20)
    ]  # fmt: skip
    schema = pa.schema([("x", pa.binary())])
    with pq.ParquetWriter(tmp_path / "in.parquet", schema) as writer:
        for cells in groups:
            writer.write_table(pa.table({"x": cells}, schema=schema), row_group_size=len(cells))
    source = str(tmp_path / "in.parquet")
    assert estimated(source, tmp_path) == pytest.approx(written(source, tmp_path), rel=0.1)


def test_lists_that_grow(tmp_path: Path) -> None:
    rows = 20_000
    for kind in (pa.float32(), pa.int64(), pa.string()):
        values = [[(n * 7) % 1000] * (n * 60 // rows) for n in range(rows)]
        column = pa.array(values, pa.list_(pa.int64())).cast(pa.list_(kind))
        path = tmp_path / f"{kind}.parquet"
        pq.write_table(pa.table({"l": column}), path, use_dictionary=False)
        near = pytest.approx(written(str(path), tmp_path), rel=0.1)
        assert estimated(str(path), tmp_path) == near


@pytest.mark.parametrize("name", ["penguins.csv", "penguins.parquet", "digits.csv", "digits"])
def test_the_examples_are_estimated_well(tmp_path: Path, name: str) -> None:
    source = str(EXAMPLES / name)
    for options in ({}, {"shuffle": True}, {"limit": 50}):
        near = pytest.approx(written(source, tmp_path, **options), rel=0.1)
        assert estimated(source, tmp_path, **options) == near


def test_the_number_of_shards_follows_and_depends_on_data_and_options_alone(
    tmp_path: Path,
) -> None:
    rows = 20_000
    lengths = LENGTHS["growing"](rows)
    table = pa.table({"t": ["x" * n for n in lengths]})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False)
    counts = set()
    for options in ({"jobs": 1}, {"jobs": 7}, {"shuffle": True, "memory": "1MiB"}):
        manifest = tfrec_cli.convert(
            str(tmp_path / "a.parquet"), str(tmp_path / "out"), shard_size=10**6, overwrite=True,
            **options,
        )  # fmt: skip
        counts.add(len(manifest.shards))
        assert (
            max(s.records for s in manifest.shards) - min(s.records for s in manifest.shards) <= 1
        )
    assert counts == {round(sum(s.bytes for s in manifest.shards) / 10**6)}


def test_rows_in_error_do_not_spoil_the_estimate(tmp_path: Path) -> None:
    cells = ["x" if n % 3 else "1" * (n % 15 + 1) for n in range(5000)]
    (tmp_path / "a.csv").write_text("n\n" + "\n".join(cells) + "\n")
    options: dict[str, Any] = {"schema": {"features": {"n": "int64"}}, "on_error": "skip"}
    source = str(tmp_path / "a.csv")
    assert estimated(source, tmp_path, **options) == pytest.approx(
        written(source, tmp_path, **options), rel=0.1
    )


WAYS: dict[str, dict[str, Any]] = {
    "in order": {},
    "shuffled": {"shuffle": True, "shards": 1},
    "sorted": {"sort_by": ("text",)},
    "split": {"split": "a=0.5,b=0.5", "stratify": "text"},
}


@pytest.mark.parametrize("ways", WAYS)
def test_views_are_sized_like_what_they_show(tmp_path: Path, ways: str) -> None:
    """Arrow has no `take` for them."""
    words = [None if n % 7 == 0 else f"word {n % 5}" for n in range(2000)]
    lists = [[word, "z"] for word in words]
    kinds = {"text": pa.string_view(), "lists": pa.list_(pa.string_view())}
    try:
        columns = {"text": pa.array(words, kinds["text"]), "lists": pa.array(lists, kinds["lists"])}
    except pa.ArrowNotImplementedError:
        pytest.skip("this release of pyarrow cannot make them")
    schema = tmp_path / "s.yaml"
    schema.write_text(
        "version: 1\nfeatures:\n  text: {type: bytes, missing: omit}\n"
        "  lists: {type: bytes, null_item: drop}\n"
    )
    plain = pa.table({"text": words, "lists": lists})
    made = [
        tfrec_cli.convert(table, str(tmp_path / name), schema=str(schema), name="d", **WAYS[ways])
        for name, table in (("views", pa.table(columns)), ("plain", plain))
    ]
    sums = [[(shard.records, shard.crc32c) for shard in manifest.shards] for manifest in made]
    assert sums[0] == sums[1]
