"""The main job: what `convert` writes, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import read_manifest

import tfrec_cli
from tfrec_cli.errors import (
    CellError,
    DatasetError,
    RejectLimitError,
    SchemaError,
    SourceError,
    UsageError,
)
from tfrec_cli.records.framing import read_records

ROWS = "id,name,score\n1,Ann,1.5\n2,,2\n3,Cy,\n"


class Listener:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.notices: list[str] = []
        self.records = 0

    def stage(self, name: str, records: int | None) -> None:
        self.stages.append((name, records))

    def advance(self, records: int, size: int) -> None:
        self.records += records

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def waiting(self, text: str) -> None:
        raise AssertionError(text)


class Plain:
    """A reporter that has what each must have, and no more."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, name: str, records: int | None) -> None:
        self.stages.append(name)

    def advance(self, records: int, size: int) -> None:
        pass

    def notice(self, text: str) -> None:
        pass


def test_a_reporter_need_not_take_what_is_waited_for(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", ROWS)
    reporter = Plain()
    tfrec_cli.convert(source, tmp_path / "out", reporter=reporter)
    assert "convert" in reporter.stages


def write(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def shards(dest: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(dest.glob("*.tfrecord-*"))]


def counts(dest: Path) -> list[int]:
    return [len(list(read_records(path))) for path in sorted(dest.glob("*.tfrecord-*"))]


def many(tmp_path: Path, rows: int = 5000) -> list[str]:
    parts = [range(first, first + rows) for first in (0, rows)]
    return [
        write(tmp_path / f"part-{n}.csv", "k,v\n" + "".join(f"{i},w{i}\n" for i in part))
        for n, part in enumerate(parts)
    ]


def test_a_dataset_folder_holds_shards_manifest_and_schema(tmp_path: Path) -> None:
    manifest = tfrec_cli.convert(write(tmp_path / "people.csv", ROWS), str(tmp_path / "out"))
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["manifest.json", "out-train.tfrecord-00000-of-00001", "schema.yaml"]
    assert manifest.records == 3
    assert read_manifest(tmp_path / "out")["splits"][0]["records"] == 3
    assert [f.missing for f in manifest.features] == ["error", "omit", "omit"]


# Blocks so small that each file is hundreds of pieces.
PIECES = {"block": 100}


@pytest.mark.parametrize("jobs", [2, 7])
@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_the_bytes_do_not_depend_on_jobs_or_pieces(
    tmp_path: Path, jobs: int, compression: str
) -> None:
    sources = many(tmp_path)
    how: dict[str, Any] = {"name": "d", "shards": 3, "compression": compression}
    tfrec_cli.convert(sources, str(tmp_path / "whole"), jobs=1, **how)
    tfrec_cli.convert(sources, str(tmp_path / "cut"), jobs=jobs, source_options=PIECES, **how)
    assert shards(tmp_path / "whole") == shards(tmp_path / "cut")


def test_shards_differ_by_at_most_one_record_and_keep_the_order(tmp_path: Path) -> None:
    tfrec_cli.convert(many(tmp_path), str(tmp_path / "one.tfrecord"))
    tfrec_cli.convert(many(tmp_path), str(tmp_path / "out"), shards=7)
    assert counts(tmp_path / "out") == [1429] * 4 + [1428] * 3
    assert b"".join(shards(tmp_path / "out")) == (tmp_path / "one.tfrecord").read_bytes()


def test_more_shards_than_rows_are_all_written_and_said(tmp_path: Path) -> None:
    listener = Listener()
    source = write(tmp_path / "people.csv", ROWS)
    tfrec_cli.convert(source, str(tmp_path / "out"), shards=5, reporter=listener)
    assert counts(tmp_path / "out") == [1, 1, 1, 0, 0]
    assert any("2 shards are empty" in notice for notice in listener.notices)


def test_shard_size_decides_the_number_of_shards(tmp_path: Path) -> None:
    tfrec_cli.convert(many(tmp_path), str(tmp_path / "out"), shard_size=100_000)
    sizes = [len(shard) for shard in shards(tmp_path / "out")]
    assert len(sizes) > 1
    assert sum(sizes) / len(sizes) == pytest.approx(100_000, rel=0.3)


def test_limit_takes_the_first_rows(tmp_path: Path) -> None:
    tfrec_cli.convert(many(tmp_path), str(tmp_path / "all.tfrecord"))
    tfrec_cli.convert(many(tmp_path), str(tmp_path / "some.tfrecord"), limit=5003)
    every, some = (list(read_records(tmp_path / f"{n}.tfrecord")) for n in ("all", "some"))
    assert some == every[:5003]


def test_progress_counts_every_record(tmp_path: Path) -> None:
    listener = Listener()
    tfrec_cli.convert(many(tmp_path), str(tmp_path / "out"), reporter=listener)
    assert listener.stages == [("survey", None), ("convert", 10_000)]
    assert listener.records == 10_000


def test_the_saved_schema_gives_the_same_bytes(tmp_path: Path) -> None:
    source = write(tmp_path / "people.csv", ROWS)
    tfrec_cli.convert(source, str(tmp_path / "a"), name="d")
    tfrec_cli.convert(source, str(tmp_path / "b"), name="d", schema=str(tmp_path / "a/schema.yaml"))
    assert shards(tmp_path / "a") == shards(tmp_path / "b")
    texts = [(tmp_path / d / "schema.yaml").read_text() for d in "ab"]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", ["frame", "table", "batches"])
def test_tables_in_memory_are_sources(tmp_path: Path, kind: str) -> None:
    table = pa.table({"id": [1, 2, 3], "name": ["Ann", None, "Cy"]})
    source: Any = {"frame": table.to_pandas(), "table": table, "batches": table.to_batches()[0]}[
        kind
    ]
    pq.write_table(table, tmp_path / "t.parquet")
    tfrec_cli.convert(source, str(tmp_path / "a.tfrecord"))
    tfrec_cli.convert(tmp_path / "t.parquet", str(tmp_path / "b.tfrecord"))
    assert (tmp_path / "a.tfrecord").read_bytes() == (tmp_path / "b.tfrecord").read_bytes()


def test_nullable_pandas_integers_stay_integers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": pd.array([2**53 + 1, None], dtype="Int64")})
    manifest = tfrec_cli.convert(frame, str(tmp_path / "out"))
    assert [(f.type, f.missing) for f in manifest.features] == [("int64", "omit")]


# Rows in error -----------------------------------------------------------------------------------

SCHEMA = {"version": 1, "features": {"k": "int64", "v": "int64"}}


def broken(tmp_path: Path) -> list[str]:
    """Two files of 3,000 rows; three rows of them are wrong, in the middle of many pieces."""
    bad = {(0, 1010): "x1", (0, 2500): "12.5", (1, 1): "9223372036854775808"}
    return [
        write(
            tmp_path / f"f{n}.csv",
            "k,v\n" + "".join(f"{i},{bad.get((n, i), i)}\n" for i in range(3000)),
        )
        for n in range(2)
    ]


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_the_first_error_in_source_order_is_reported(tmp_path: Path, jobs: int) -> None:
    with pytest.raises(CellError) as caught:
        tfrec_cli.convert(
            broken(tmp_path),
            str(tmp_path / "out"),
            schema=SCHEMA,
            jobs=jobs,
            source_options=PIECES,
        )
    message = str(caught.value)
    assert "f0.csv, line 1012, column v" in message
    assert '"x1"' in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_skipped_rows_are_listed_and_shards_stay_exact(tmp_path: Path, jobs: int) -> None:
    manifest = tfrec_cli.convert(
        broken(tmp_path),
        str(tmp_path / "out"),
        schema=SCHEMA,
        jobs=jobs,
        source_options=PIECES,
        shards=4,
        on_error="skip",
        rejects=tmp_path / "rejects.jsonl",  # type: ignore[arg-type]
    )
    entries = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    found = [
        (Path(e["source"]).name, e["row"], e["line"], e["column"], e["value"]) for e in entries
    ]
    assert found == [
        ("f0.csv", 1011, 1012, "v", "x1"),
        ("f0.csv", 2501, 2502, "v", "12.5"),
        ("f1.csv", 2, 3, "v", "9223372036854775808"),
    ]
    assert counts(tmp_path / "out") == [1500, 1499, 1499, 1499]
    assert (manifest.rows.read, manifest.rows.written, manifest.rows.rejected) == (6000, 5997, 3)


def test_max_errors_is_a_limit(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"schema": SCHEMA, "on_error": "skip"}
    with pytest.raises(RejectLimitError, match=r"3 rows .* --max-errors 2 .*x1"):
        tfrec_cli.convert(
            broken(tmp_path),
            str(tmp_path / "out"),
            max_errors=2,
            rejects=str(tmp_path / "rejects.jsonl"),
            **arguments,
        )
    assert len((tmp_path / "rejects.jsonl").read_text().splitlines()) == 3
    assert not (tmp_path / "out").exists()
    tfrec_cli.convert(broken(tmp_path), str(tmp_path / "out"), max_errors=3, **arguments)


def test_no_row_left_is_an_error(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "k,v\n1,x\n2,w\n")
    with pytest.raises(SourceError, match="none of the 2 rows"):
        tfrec_cli.convert(source, str(tmp_path / "out"), schema=SCHEMA, on_error="skip")
    assert not (tmp_path / "out").exists()


def test_unknown_labels_are_one_error_with_all_of_them(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "c\ncat\nDog\ndog\ncow\nDog\n")
    schema = {"features": {"label": {"column": "c", "type": "int64", "labels": ["cat", "dog"]}}}
    with pytest.raises(CellError) as caught:
        tfrec_cli.convert(source, str(tmp_path / "out"), schema=schema)
    message = str(caught.value)
    assert "a.csv, line 3, column c" in message
    for word in ('"Dog" (2 rows)', '"cow" (1 row)', "cat, dog"):
        assert word in message


def test_labels_found_in_the_data_are_numbered_and_written(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "c\ncow\nant\ncow\n")
    schema = {"features": {"label": {"column": "c", "type": "int64", "labels": "auto"}}}
    manifest = tfrec_cli.convert(source, str(tmp_path / "out"), schema=schema)
    assert (tmp_path / "out" / "label.labels.txt").read_text() == "ant\ncow\n"
    assert manifest.features[0].labels == ("ant", "cow")


def test_cells_may_name_files(tmp_path: Path) -> None:
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics" / "a.bin").write_bytes(b"\x00\xff")
    source = write(tmp_path / "a.csv", "p\npics/a.bin\n")
    schema = {
        "features": {
            "data": {"column": "p", "load": "file"},
            "name": {"column": "p", "type": "bytes"},
        }
    }
    tfrec_cli.convert(source, str(tmp_path / "out.tfrecord"), schema=schema)
    (record,) = read_records(tmp_path / "out.tfrecord")
    assert b"\x00\xff" in record
    assert b"pics/a.bin" in record
    write(tmp_path / "a.csv", "p\npics/a.bin\npics/b.bin\n")
    with pytest.raises(CellError, match=r"a\.csv, line 3, column p.*pics/b\.bin"):
        tfrec_cli.convert(source, str(tmp_path / "o2.tfrecord"), schema=schema)


# What is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shards": 0}, "shards is 0"),
        ({"limit": 0}, "limit is 0"),
        ({"compression": "snappy"}, "snappy"),
        ({"compression": "gzip:99"}, "gzip:99"),
        ({"rejects": "r.jsonl"}, "--on-error skip"),
        ({"max_errors": 1}, "--on-error skip"),
        ({"split": "a b"}, "a b"),
        ({"name": "1 2"}, "1 2"),
        ({"adapter": "cvs"}, 'Did you mean "csv"'),
        ({"source_options": {"delimitr": ";"}}, "delimiter"),
        ({"shard_size": "12 parsecs"}, "12 parsecs"),
    ],
)
def test_wrong_arguments_are_usage_errors(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    source = write(tmp_path / "people.csv", ROWS)
    with pytest.raises(UsageError) as caught:
        tfrec_cli.convert(source, str(tmp_path / "out"), **arguments)
    assert words in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_single_file_has_one_shard_and_one_split(tmp_path: Path) -> None:
    source = write(tmp_path / "people.csv", ROWS)
    with pytest.raises(UsageError, match="one file"):
        tfrec_cli.convert(source, str(tmp_path / "out.tfrecord"), shards=2)


def test_an_unknown_column_in_the_schema_is_named(tmp_path: Path) -> None:
    source = write(tmp_path / "people.csv", ROWS)
    schema = write(tmp_path / "s.yaml", "features:\n  id: int64\n  nmae: bytes\n")
    with pytest.raises(SchemaError, match=r's\.yaml, line 3.*nmae.*"name"'):
        tfrec_cli.convert(source, str(tmp_path / "out"), schema=schema)


def test_a_finished_dataset_is_replaced_only_when_asked(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.csv", "a\n1\n"), write(tmp_path / "b.csv", "a\n2\n3\n")
    tfrec_cli.convert(first, str(tmp_path / "out"), shards=4)
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    with pytest.raises(DatasetError, match="--overwrite"):
        tfrec_cli.convert(second, str(tmp_path / "out"), shards=2)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    tfrec_cli.convert(second, str(tmp_path / "out"), shards=2, overwrite=True)
    assert counts(tmp_path / "out") == [1, 1]


def test_a_source_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    class Changer(Listener):
        def stage(self, name: str, records: int | None) -> None:
            if name == "convert":
                Path(source).write_text("a\n1\n2\n")

    source = write(tmp_path / "a.csv", "a\n1\n")
    with pytest.raises(SourceError, match=r"a\.csv"):
        tfrec_cli.convert(source, str(tmp_path / "out"), reporter=Changer())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"on_error": "raise"}, "on_error is 'raise'"),
        ({"on_error": "skip", "max_errors": -1}, "max_errors is -1"),
        ({"shards": "2"}, "shards is '2'"),
        ({"limit": 1.5}, "limit is 1.5"),
        ({"jobs": 0}, "jobs is 0"),
        ({"seed": -1, "shuffle": True}, "seed is -1"),
    ],
)
def test_the_library_checks_what_the_command_line_checks(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        tfrec_cli.convert(write(tmp_path / "a.csv", ROWS), str(tmp_path / "out"), **arguments)
    assert words in str(caught.value)


def test_source_options_may_be_python_values(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "1,x\n2,zz\n")
    options = {"header": False, "names": ("p", "q"), "null_words": ["x", "y"]}
    manifest = tfrec_cli.convert(source, str(tmp_path / "out"), source_options=options)
    assert [(f.key, f.missing) for f in manifest.features] == [("p", "error"), ("q", "omit")]


def rejecting(tmp_path: Path, rejects: Path) -> None:
    """A run over the folder `in` with one row to reject, listed in `rejects`."""
    (tmp_path / "in").mkdir(exist_ok=True)
    write(tmp_path / "in" / "a.csv", "k,v\n1,x\n2,2\n")
    schema = write(tmp_path / "s.yaml", "features: {k: int64, v: int64}\n")
    tfrec_cli.convert(
        str(tmp_path / "in"),
        str(tmp_path / "out"),
        schema=schema,
        on_error="skip",
        rejects=str(rejects),
        overwrite=True,
    )


@pytest.mark.parametrize(
    "name", ["in/a.csv", "s.yaml", "out", "out/r.jsonl", "keep.txt", "in", "no/r"]
)
def test_rejects_never_replace_anything_else(tmp_path: Path, name: str) -> None:
    rejecting(tmp_path, tmp_path / "r.jsonl")
    write(tmp_path / "keep.txt", "mine")
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(UsageError, match="--rejects"):
        rejecting(tmp_path, tmp_path / name)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files


def test_a_list_of_rejects_is_replaced_by_the_next(tmp_path: Path) -> None:
    rejecting(tmp_path, tmp_path / "r.jsonl")
    first = (tmp_path / "r.jsonl").read_text()
    rejecting(tmp_path, tmp_path / "r.jsonl")
    assert (tmp_path / "r.jsonl").read_text() == first != ""


@pytest.mark.parametrize("skip", [False, True])
def test_a_record_too_large_is_a_row_in_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skip: bool
) -> None:
    monkeypatch.setattr("tfrec_cli.tasks.RECORD_LIMIT", 300)
    source = write(tmp_path / "a.csv", f"k,v\n1,a\n2,{'x' * 400}\n3,{'y' * 500}\n")
    if not skip:
        with pytest.raises(CellError, match=r"a\.csv, line 3: the record would have 2 GiB"):
            tfrec_cli.convert(source, str(tmp_path / "out"))
        return
    manifest = tfrec_cli.convert(
        source, str(tmp_path / "out"), on_error="skip", rejects=str(tmp_path / "r.jsonl")
    )
    assert (manifest.records, manifest.rows.rejected) == (1, 2)
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in lines] == [3, 4]


def test_labels_beyond_the_limit_do_not_count(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "c\ncow\nant\nbee\n")
    schema = {"features": {"c": {"type": "int64", "labels": "auto"}}}
    manifest = tfrec_cli.convert(source, str(tmp_path / "out"), schema=schema, limit=2)
    assert manifest.features[0].labels == ("ant", "cow")
    known = {"features": {"c": {"type": "int64", "labels": ["cow"]}}}
    with pytest.raises(CellError) as caught:
        tfrec_cli.convert(source, str(tmp_path / "o2"), schema=known, limit=2)
    assert "ant" in str(caught.value)
    assert "bee" not in str(caught.value)


def test_an_unknown_label_left_out_is_a_missing_value(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "c\ncat\ncow\n")
    schema = {"features": {"c": {"type": "int64", "labels": ["cat"], "unknown": "omit"}}}
    manifest = tfrec_cli.convert(source, str(tmp_path / "out"), schema=schema)
    assert [f.missing for f in manifest.features] == ["omit"]


def test_source_options_in_a_schema_are_reported_with_their_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "a\n1\n")
    schema = write(
        tmp_path / "s.yaml", "version: 1\nsource: {delimeter: ';'}\nfeatures: {a: int64}\n"
    )
    with pytest.raises(SchemaError, match=r's\.yaml, line 2: source: delimeter.*"delimiter"'):
        tfrec_cli.convert(source, str(tmp_path / "out"), schema=schema)


def test_a_source_named_twice_is_read_once_and_said(tmp_path: Path) -> None:
    listener = Listener()
    source = write(tmp_path / "a.csv", "a\n1\n")
    manifest = tfrec_cli.convert([source, source], str(tmp_path / "out"), reporter=listener)
    assert manifest.records == 1
    assert any("read once: a.csv" in notice for notice in listener.notices)


def test_two_ways_to_say_how_many_shards_exclude_each_other(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "a\n1\n")
    with pytest.raises(UsageError, match="--shard-size"):
        tfrec_cli.convert(source, str(tmp_path / "out"), shards=2, shard_size="1MB")
    with pytest.raises(UsageError, match="one file"):
        tfrec_cli.convert(source, str(tmp_path / "out.tfrecord"), shard_size="1MB")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"split": {"train": 0.5}}, "split is {'train': 0.5}; give text"),
        ({"name": 5}, "name is 5"),
        ({"overwrite": "no"}, "overwrite is 'no'; give True or False"),
        ({"source_options": "delimiter=;"}, "source_options is 'delimiter=;'"),
        ({"split_by": ["a"]}, "split_by is ['a']"),
        ({"sort_by": 5}, "sort_by is 5"),
        ({"schema": 5}, "schema is 5"),
        ({"dest": 5}, "dest is 5"),
    ],
)
def test_arguments_of_the_wrong_type_are_usage_errors(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    source = write(tmp_path / "a.csv", ROWS)
    with pytest.raises(UsageError) as caught:
        tfrec_cli.convert(source, **({"dest": str(tmp_path / "out")} | arguments))
    assert words in str(caught.value)


def test_a_list_in_error_is_shown(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", "emb\n1|2|3\n1|2\n")
    schema = {"features": {"emb": {"type": "float", "separator": "|", "shape": [3]}}}
    with pytest.raises(CellError, match=r'line 3, column emb: "1\|2" has 2 values'):
        tfrec_cli.convert(source, str(tmp_path / "out"), schema=schema)
    table = pa.table({"emb": [[1.0, 2.0], [1.0]]})
    with pytest.raises(CellError, match=r'row 2, column emb: "\[1\.0\]" has 1 values'):
        tfrec_cli.convert(
            table,
            str(tmp_path / "out"),
            schema={"features": {"emb": {"type": "float", "shape": 2}}},
        )


def test_rejects_do_not_go_into_a_source_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="source folder"):
        rejecting(tmp_path, tmp_path / "in" / "new.jsonl")


@pytest.mark.parametrize("dest", ["out", "out.tfrecord"])
@pytest.mark.parametrize("options", [{}, {"shuffle": True, "memory": "1kB"}], ids=str)
def test_without_fsync_nothing_waits_for_the_disk_and_the_bytes_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dest: str, options: dict[str, Any]
) -> None:
    sources, calls, real = many(tmp_path, 100), [], os.fsync

    def counted(file: int) -> None:
        calls.append(file)
        real(file)

    monkeypatch.setattr(os, "fsync", counted)
    for name, fsync in (("a", True), ("b", False)):
        (tmp_path / name).mkdir()
        tfrec_cli.convert(sources, tmp_path / name / dest, fsync=fsync, **options)
        assert bool(calls) == fsync
        calls.clear()
    first, second = (sorted((tmp_path / name).rglob("*.tfrec*")) for name in "ab")
    assert [p.read_bytes() for p in first if p.is_file()] == [
        p.read_bytes() for p in second if p.is_file()
    ]
    # Up to date, a dataset is touched; that is no reason to wait either.
    tfrec_cli.convert(sources, tmp_path / "b" / dest, fsync=False, **options)
    assert not calls


@pytest.mark.parametrize("dest", ["out", "out.tfrecord"])
def test_a_dataset_that_has_no_room_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dest: str
) -> None:
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 100_000)
    usage = shutil.disk_usage(tmp_path)._replace(free=2**20)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(DatasetError, match=r"GB are needed for the dataset, but 0\.00 GB are free"):
        tfrec_cli.convert(tmp_path / "t.csv", tmp_path / dest)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
