"""What every source promises, whatever it reads."""

from __future__ import annotations

import csv
import importlib.util
import json
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tfrec_cli import _kernel
from tfrec_cli._kernel import FeatureColumn
from tfrec_cli.errors import SourceError
from tfrec_cli.sources.base import Needs, Source, SourceBatch, Survey
from tfrec_cli.sources.boxes import BoxesSource
from tfrec_cli.sources.csv import CsvSource
from tfrec_cli.sources.images import ImagesSource
from tfrec_cli.sources.parquet import ParquetSource
from tfrec_cli.sources.table import TableSource
from tfrec_cli.sources.tfrecord import TFRecordSource

PLUGIN = Path(__file__).parent.parent / "examples/plugin/tfrec_jsonlines.py"

Row = dict[str, str | None]


def plugin_source() -> type[Any]:
    spec = importlib.util.spec_from_file_location("tfrec_jsonlines", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tfrec_jsonlines"] = module
    spec.loader.exec_module(module)
    return module.JsonLinesSource  # type: ignore[no-any-return]


def write_csv(folder: Path, files: Sequence[Sequence[Row]]) -> list[Any]:
    for number, rows in enumerate(files):
        with open(folder / f"{number}.csv", "w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, ["id", "note"])
            writer.writeheader()
            writer.writerows(rows)
    return [str(folder)]


def arrow(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([("id", pa.string()), ("note", pa.string())]))


def write_parquet(folder: Path, files: Sequence[Sequence[Row]]) -> list[Any]:
    for number, rows in enumerate(files):
        pq.write_table(arrow(rows), folder / f"{number}.parquet", row_group_size=2)
    return [str(folder)]


def write_jsonlines(folder: Path, files: Sequence[Sequence[Row]]) -> list[Any]:
    for number, rows in enumerate(files):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{number}.jsonl").write_text(text, encoding="utf-8")
    return [str(folder)]


def write_images(folder: Path, files: Sequence[Sequence[Row]]) -> list[Any]:
    out = BytesIO()
    Image.new("RGB", (2, 3)).save(out, "PNG")
    for number, rows in enumerate(files):
        for row in rows:
            path = folder / str(number) / f"{row['id']}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(out.getvalue())
    return [str(folder)]


def write_boxes(folder: Path, files: Sequence[Sequence[Row]]) -> list[Any]:
    out = BytesIO()
    Image.new("RGB", (2, 3)).save(out, "PNG")
    for number, rows in enumerate(files):
        with open(folder / f"{number}.csv", "w", newline="", encoding="utf-8") as table:
            writer = csv.writer(table)
            writer.writerow(["filename", "class", "xmin", "ymin", "xmax", "ymax"])
            for row in rows:
                (folder / f"{row['id']}").write_bytes(out.getvalue())
                writer.writerows([[row["id"], row["note"], 0, 0, x, 3] for x in (1, 2)])
    return sorted(map(str, folder.glob("*.csv")))


def write_tfrecord(folder: Path, files: Sequence[Sequence[Row]]) -> list[Any]:
    for number, rows in enumerate(files):
        columns = [
            FeatureColumn(
                name, pa.array([row[name] for row in rows], pa.string()).cast(pa.binary())
            )
            for name in ("id", "note")
        ]
        (folder / f"{number}.tfrecord").write_bytes(bytes(_kernel.encode(columns).data))
    return [str(folder)]


def give_tables(folder: Path, files: Sequence[Sequence[Row]]) -> list[Any]:
    return [arrow(rows) for rows in files]


def give_frames(folder: Path, files: Sequence[Sequence[Row]]) -> list[Any]:
    return [pd.DataFrame(list(rows), columns=["id", "note"], dtype="string") for rows in files]


def give_readers(folder: Path, files: Sequence[Sequence[Row]]) -> list[Any]:
    return [arrow(rows).to_reader(max_chunksize=2) for rows in files]


def shrink(source: Any) -> None:
    for limit in ("partition_bytes", "batch_bytes"):
        if hasattr(source, limit):
            setattr(source, limit, 1)


@dataclass(frozen=True)
class Kind:
    """A source with a way to give it rows: their `id` comes back in the column `key`."""

    source: type[Any]
    give: Callable[[Path, Sequence[Sequence[Row]]], list[Any]]
    key: str = "id"
    options: tuple[tuple[str, Any], ...] = ()

    def open(self, folder: Path, files: Sequence[Sequence[Row]]) -> Source:
        options = self.source.Options(**dict(self.options))
        source: Source = self.source(self.give(folder, files), options)
        return source


TABLES = {
    "csv": Kind(CsvSource, write_csv),
    "csv in tiny blocks": Kind(CsvSource, write_csv, options=(("block", 1),)),
    "parquet": Kind(ParquetSource, write_parquet),
    "table": Kind(TableSource, give_tables),
    "pandas": Kind(TableSource, give_frames),
    "reader": Kind(TableSource, give_readers),
    "jsonlines": Kind(plugin_source(), write_jsonlines),
    "tfrecord": Kind(TFRecordSource, write_tfrecord),
}
KINDS = TABLES | {
    "images": Kind(ImagesSource, write_images, "image/filename"),
    "boxes": Kind(BoxesSource, write_boxes, "image/filename"),
}

every = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
every_table = pytest.mark.parametrize("kind", TABLES.values(), ids=TABLES.keys())

ROWS: list[list[Row]] = [
    [{"id": f"{file}{row}.png", "note": f"n{row}"} for row in range(rows)]
    for file, rows in enumerate((5, 1, 4))
]
IDS = [row["id"] for rows in ROWS for row in rows]


def batches(source: Source, survey: Survey, columns: Sequence[str]) -> list[SourceBatch]:
    return [b for part in survey.partitions for b in source.read(part, columns)]


def column(source: Source, survey: Survey, name: str) -> list[Any]:
    found = batches(source, survey, [name])
    return [value for batch in found for value in values(batch)]


def values(batch: SourceBatch) -> list[Any]:
    """The first column; text may come as its bytes."""
    found = batch.data.column(0).to_pylist()
    return [value.decode() if isinstance(value, bytes) else value for value in found]


@every
def test_nothing_at_all_is_an_error(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        kind.open(tmp_path, [[]]).survey(Needs())


@every
def test_one_row(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, [ROWS[1]])
    survey = source.survey(Needs())
    assert survey.rows == 1
    assert column(source, survey, kind.key) == ["10.png"]


@every
def test_many_files_are_read_in_order(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, ROWS)
    survey = source.survey(Needs(jobs=3))
    assert survey.rows == len(IDS)
    assert column(source, survey, kind.key) == IDS


@every
def test_partitions_together_are_the_whole(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, ROWS)
    shrink(source)
    survey = source.survey(Needs())
    for part in survey.partitions:
        row = part.first_row
        for batch in source.read(part, [kind.key]):
            assert batch.origin.first_row == row
            row += batch.data.num_rows
        assert row == part.first_row + part.rows
    assert column(source, survey, kind.key) == IDS


@every
def test_partitions_may_be_read_in_any_order(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, ROWS)
    shrink(source)
    survey = source.survey(Needs())
    backwards = [
        [value for batch in source.read(part, [kind.key]) for value in values(batch)]
        for part in reversed(survey.partitions)
    ]
    assert [value for part in reversed(backwards) for value in part] == IDS


@every
def test_columns_come_as_asked_and_typed_as_surveyed(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, ROWS)
    survey = source.survey(Needs())
    types = {c.name: c.type for c in survey.columns}
    for asked in (list(types), list(types)[::-1], [kind.key]):
        for batch in batches(source, survey, asked):
            assert batch.data.schema.names == asked
            assert batch.data.schema.types == [types[name] for name in asked]


@every
def test_rows_are_told_without_any_column(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, ROWS)
    survey = source.survey(Needs())
    assert sum(b.data.num_rows for b in batches(source, survey, [])) == len(IDS)


@every
def test_unicode(kind: Kind, tmp_path: Path) -> None:
    words = ["a b.png", "naïve.png", "图片.png", "😀.png"]
    source = kind.open(tmp_path, [[{"id": word, "note": word} for word in words]])
    assert column(source, source.survey(Needs()), kind.key) == words


@every_table
def test_nulls(kind: Kind, tmp_path: Path) -> None:
    rows: list[Row] = [{"id": "1", "note": "x"}, {"id": "2", "note": None}]
    source = kind.open(tmp_path, [rows])
    survey = source.survey(Needs())
    assert {c.name: c.nulls for c in survey.columns} == {"id": False, "note": True}
    assert column(source, survey, "note") == ["x", None]


@every
def test_source_and_survey_travel(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, ROWS)
    survey = source.survey(Needs())
    there, survey = pickle.loads(pickle.dumps((source, survey)))
    assert column(there, survey, kind.key) == IDS


@every
def test_a_second_survey_is_the_same(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, ROWS)
    assert source.survey(Needs()) == source.survey(Needs(jobs=2))


@every
def test_saved_options_read_the_same_way(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, ROWS)
    survey = source.survey(Needs())
    if kind.give is give_readers:
        pytest.skip("a reader cannot be given twice")
    again: Source = kind.source(
        kind.give(tmp_path, ROWS), kind.source.Options.model_validate(dict(survey.options))
    )
    assert again.survey(Needs()).columns == survey.columns
    assert column(again, survey, kind.key) == IDS


@every
def test_options_have_a_description_and_a_default(kind: Kind) -> None:
    for field in kind.source.Options.model_fields.values():
        assert field.description
        assert not field.is_required()


@every
def test_places_name_the_row(kind: Kind, tmp_path: Path) -> None:
    source = kind.open(tmp_path, ROWS)
    survey = source.survey(Needs())
    places = [
        str(batch.origin.locate(row))
        for batch in batches(source, survey, [kind.key])
        for row in range(batch.data.num_rows)
    ]
    assert len(set(places)) == len(IDS)


def test_encoded_columns_in_memory_are_read_as_their_values() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([1, None]))
    table = pa.table({"words": words, "runs": runs, "view": pa.array(["x"] * 3, pa.string_view())})
    for given in (table, table.to_batches()[0], table.to_reader()):
        source = TableSource([given], TableSource.Options())
        survey = source.survey(Needs())
        assert {c.name: c.nulls for c in survey.columns} == {
            "words": True,
            "runs": True,
            "view": False,
        }
        assert column(source, survey, "words") == ["a", None, "a"]
        assert column(source, survey, "runs") == [1, 1, None]


def test_tables_of_several_types_become_one() -> None:
    given = [pa.table({"a": [1], "b": ["x"]}), pa.table({"a": [2.5]})]
    source = TableSource(given, TableSource.Options())
    survey = source.survey(Needs())
    assert [(c.name, c.type, c.absent) for c in survey.columns] == [
        ("a", pa.float64(), ()),
        ("b", pa.string(), ("table 2",)),
    ]
    assert column(source, survey, "a") == [1.0, 2.5]
    assert column(source, survey, "b") == ["x", None]
    odd = TableSource([given[0], pa.table({"a": ["x"]})], TableSource.Options())
    with pytest.raises(SourceError, match="table 2, column a: is string, but int64"):
        odd.survey(Needs())


def test_columns_of_one_name_are_refused() -> None:
    twice = pa.table([pa.array([1]), pa.array([2])], names=["v", "v"])
    for given in (twice, twice.to_reader()):
        with pytest.raises(SourceError, match="table, column v: two columns"):
            TableSource([given], TableSource.Options()).survey(Needs())
