"""A run onto a dataset that is what it would write writes nothing; any other is told why."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from conftest import EXAMPLES, shard_paths

import tfrec_cli
from tfrec_cli.cli import main
from tfrec_cli.dataset.manifest import load_manifest
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.errors import DatasetError, SourceError, UsageError
from tfrec_cli.sources import loading
from tfrec_cli.sources.csv import CsvSource
from tfrec_cli.sources.parquet import ParquetSource
from tfrec_cli.verification import run as verification


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("n,t\n" + "".join(f"{n},w{n}\n" for n in range(50)))
    (tmp_path / "b.csv").write_text("n,t\n" + "".join(f"{n},v{n}\n" for n in range(50)))
    age(tmp_path)
    return tmp_path


def age(folder: Path) -> None:
    """Have all files look as if written a while ago."""
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 1000,) * 2)
    # Nobody can set ctime; what is written from now on has a later one.
    time.sleep(0.03)


def convert(*arguments: str) -> int:
    """The exit code of the command."""
    with pytest.raises(SystemExit) as end:
        main(["convert", *arguments])
    assert isinstance(end.value.code, int)
    return end.value.code


def made(dest: Path) -> dict[str, tuple[int, bytes]]:
    """The shards with their inodes: what is written anew has other ones."""
    paths = [dest] if dest.is_file() else sorted(dest.glob("*.tfrecord-*"))
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in paths}


def is_fresh(*arguments: str, **options: Any) -> bool:
    """Whether a second run of `convert` finds the dataset up to date; it is plain, or --resume."""
    dest = Path(arguments[-1])
    before = made(dest)
    said = ""
    try:
        tfrec_cli.convert(list(arguments[:-1]), arguments[-1], **options)
    except DatasetError as error:
        said = str(error)
    assert made(dest) == before
    assert not said or "holds a finished dataset" in said
    return not said


@pytest.mark.parametrize("dest", ["out", "out.tfrecord", "out.tfrec.gz"])
@pytest.mark.parametrize("how", [{}, {"overwrite": True}, {"resume": True}])
def test_the_same_run_again_writes_nothing_and_touches_the_dataset(
    here: Path, dest: str, how: dict[str, bool]
) -> None:
    manifest = tfrec_cli.convert("a.csv", dest)
    where = here / dest
    marked = where / "manifest.json" if where.is_dir() else where
    os.utime(marked, ns=(5, 5))
    if where.is_file():
        os.utime(where, ns=(5, 5))
    else:
        os.utime(marked, ns=(time.time_ns(),) * 2)
    before, began = made(where), time.time()
    assert tfrec_cli.convert("a.csv", dest, **how) == manifest
    assert made(where) == before
    assert abs(marked.stat().st_mtime - began) < 30
    names = {dest, *(f".{dest.replace('.', '-')}.tfrec.d",)} | {"a.csv", "b.csv"}
    assert set(os.listdir(here)) <= names


def test_how_the_schema_was_given_is_said_in_words(here: Path) -> None:
    features: dict[str, Any] = {"version": 1, "features": {"n": "int64"}}
    Path("s.yaml").write_text("version: 1\nfeatures: {n: float}\n")
    tfrec_cli.convert("a.csv", "out")
    with pytest.raises(DatasetError, match="schema was not given, now it is given in a file"):
        tfrec_cli.convert("a.csv", "out", schema="s.yaml")
    with pytest.raises(DatasetError, match="schema was not given, now it is given as a mapping"):
        tfrec_cli.convert("a.csv", "out", schema=features)
    tfrec_cli.convert("a.csv", "out", schema=features, overwrite=True)
    features["features"]["n"] = "float"
    with pytest.raises(DatasetError, match="the schema was one, now it is another"):
        tfrec_cli.convert("a.csv", "out", schema=features)


def test_what_is_forced_is_written_again(here: Path) -> None:
    tfrec_cli.convert("a.csv", "out")
    before = made(here / "out")
    tfrec_cli.convert("a.csv", "out", overwrite=True, force=True)
    after = made(here / "out")
    assert {n: x for n, (_, x) in before.items()} == {n: x for n, (_, x) in after.items()}
    assert before != after
    with pytest.raises(UsageError, match="--force needs --overwrite"):
        tfrec_cli.convert("a.csv", "out", force=True)


def test_the_command_says_that_it_is_up_to_date(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    convert("a.csv", "out")
    capsys.readouterr()
    assert convert("a.csv", "out") == 0
    said = capsys.readouterr()
    assert said.out == "out: up to date, 50 records in 1 shard, 2.2 kB\n"
    assert said.err == ""
    convert("a.csv", "out", "--json")
    assert json.loads(capsys.readouterr().out)["up_to_date"] is True
    convert("a.csv", "out", "--json", "--overwrite", "--force")
    assert json.loads(capsys.readouterr().out)["up_to_date"] is False
    assert convert("a.csv", "out", "--limit", "7") == 1
    assert "but --limit was not given, now it is 7. Use --overwrite" in capsys.readouterr().err


OPTIONS: list[dict[str, Any]] = [
    {"shards": 2}, {"split": "test"}, {"split": "a=0.5,b=0.5"}, {"shuffle": True}, {"limit": 3},
    {"sort_by": "t"}, {"name": "x"}, {"compression": "gzip"}, {"on_error": "skip"},
    {"source_options": {"null_words": ("w1",)}}, {"schema": {"features": {"n": "int64"}}},
    {"shard_size": "1kB"}, {"adapter": "csv"},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_another_option_is_another_dataset(here: Path, options: dict[str, Any]) -> None:
    if "schema" in options:
        options = {"schema": {"version": 1, **options["schema"]}}
    tfrec_cli.convert("a.csv", "out")
    assert not is_fresh("a.csv", "out", **options)
    tfrec_cli.convert("a.csv", "out", overwrite=True, **options)
    assert is_fresh("a.csv", "out", **options)
    assert not is_fresh("a.csv", "out")


@pytest.mark.parametrize("options", [{"jobs": 1}, {"memory": "1MiB"}, {"temp_dir": "."}], ids=str)
def test_what_does_not_matter_to_the_output_makes_no_difference(
    here: Path, options: dict[str, Any]
) -> None:
    tfrec_cli.convert("a.csv", "out")
    assert is_fresh("a.csv", "out", **options)


def test_another_version_is_another_dataset(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tfrec_cli.convert("a.csv", "out")
    monkeypatch.setattr(pa, "__version__", "99.0")
    with pytest.raises(DatasetError, match=r"but pyarrow was .*, now it is 99\.0"):
        tfrec_cli.convert("a.csv", "out")


def tables(folder: Path) -> list[str]:
    return ["a.csv", "b.csv"]


def parquet(folder: Path) -> list[str]:
    for name in ("a", "b"):
        pq.write_table(pa.table({"n": list(range(50))}), folder / f"{name}.parquet")
    return ["a.parquet", "b.parquet"]


def images(folder: Path) -> list[str]:
    shutil.copytree(EXAMPLES / "digits" / "0", folder / "i" / "0")
    return ["i"]


def boxes(folder: Path) -> list[str]:
    shutil.copytree(EXAMPLES / "shapes", folder / "s")
    return ["s/boxes.csv", "s/pictures"]


def loaded(folder: Path) -> list[str]:
    (folder / "t.csv").write_text("path\nx.bin\ny.bin\n")
    for name in "xy":
        (folder / f"{name}.bin").write_bytes(name.encode() * 9)
    (folder / "s.yaml").write_text(
        "version: 1\nfeatures: {y: {column: path, type: bytes, load: file}}  # x\n"
    )
    return ["t.csv"]


def labelled(folder: Path) -> list[str]:
    (folder / "t.csv").write_text("c\nlo\nhi\n")
    (folder / "names.txt").write_text("lo\nhi\n")
    (folder / "s.yaml").write_text(
        "version: 1\nfeatures: {c: {column: c, type: int64, labels: names.txt}}\n"
    )
    return ["t.csv"]


SOURCES: dict[str, tuple[Callable[[Path], list[str]], str, dict[str, Any]]] = {
    "csv": (tables, "b.csv", {}),
    "parquet": (parquet, "b.parquet", {}),
    "images": (images, "i/0/0000.png", {}),
    "boxes": (boxes, "s/pictures/*", {"adapter": "boxes"}),
    "a table of boxes": (boxes, "s/boxes.csv", {"adapter": "boxes"}),
    "a file that a cell names": (loaded, "y.bin", {"schema": "s.yaml"}),
    "the schema": (loaded, "s.yaml", {"schema": "s.yaml"}),
    "a label file": (labelled, "names.txt", {"schema": "s.yaml"}),
    "shuffled images": (images, "i/0/0000.png", {"shuffle": True, "shards": 2}),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_file_that_records_come_from_counts(here: Path, source: str) -> None:
    prepare, changing, options = SOURCES[source]
    inputs = prepare(here)
    age(here)
    tfrec_cli.convert(inputs, "out", **options)
    manifest = load_manifest("out")
    assert manifest is not None
    assert all(file.crc32c is not None for file in manifest.sources)
    run = [*inputs, "out"]
    assert is_fresh(*run, **options)
    path = sorted(here.glob(changing))[0]
    assert os.path.relpath(path) in {file.path for file in manifest.sources}
    content, was = path.read_bytes(), path.stat().st_mtime_ns

    # Written again with the same content, as by a fresh checkout: a match, and a quick one then.
    path.unlink()
    path.write_bytes(content)
    assert is_fresh(*run, **options)
    now = load_manifest("out")
    assert now is not None
    assert {f.path: f.mtime_ns for f in now.sources}[os.path.relpath(path)] != was

    # Another content of the same size under a time that is the old one.
    at = content.rindex(b"x") if path.suffix == ".yaml" else len(content) - 2
    changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    stat = path.stat()
    path.write_bytes(changed)
    os.utime(path, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    assert not is_fresh(*run, **options)
    path.write_bytes(content)
    assert is_fresh(*run, **options)

    # Another size; gone.
    path.write_bytes(content + b"\n")
    assert not is_fresh(*run, **options)
    path.unlink()
    with pytest.raises(tfrec_cli.TfrecError, match=re.escape(path.name)):
        tfrec_cli.convert(inputs, "out", **options)


def test_files_that_come_and_go_count(here: Path) -> None:
    images(here)
    (here / "i" / "1").mkdir()
    shutil.copy(EXAMPLES / "digits" / "1" / "0001.png", here / "i" / "1")
    tfrec_cli.convert("i", "images")
    assert is_fresh("i", "images")
    # A class without an image moves the numbers of others.
    (here / "i" / "00").mkdir()
    assert not is_fresh("i", "images")
    (here / "i" / "00").rmdir()
    assert is_fresh("i", "images")
    shutil.copy(here / "i" / "1" / "0001.png", here / "i" / "1" / "more.png")
    with pytest.raises(DatasetError, match=r"more\.png was not read for it and would be now"):
        tfrec_cli.convert("i", "images")
    (here / "i" / "1" / "more.png").unlink()
    assert is_fresh("i", "images")
    tfrec_cli.convert("*.csv", "tables")
    (here / "c.csv").write_text("n,t\n1,x\n")
    assert not is_fresh("*.csv", "tables")


def to_link(here: Path, name: str) -> None:
    (here / "cur").symlink_to(name)


def move(here: Path, name: str) -> None:
    (here / name).rename(here / "cur")


@pytest.mark.parametrize("source", ["cur/a.csv", "cur"])
@pytest.mark.parametrize("place", [to_link, move])
def test_a_folder_that_becomes_another_holds_other_files(
    here: Path, source: str, place: Callable[[Path, str], None]
) -> None:
    """Of the same size and time, and none of them newer than the dataset."""
    for name, letter in (("v1", "w"), ("v2", "x"), ("v3", "w")):
        (here / name).mkdir()
        text = (here / "a.csv").read_text().replace("w", letter)
        (here / name / "a.csv").write_text(text)
        os.utime(here / name / "a.csv", (1e9, 1e9))
    time.sleep(0.03)
    place(here, "v1")
    tfrec_cli.convert(source, "out")
    before = made(here / "out")
    (here / "cur").rename(here / "old")
    place(here, "v2")
    with pytest.raises(DatasetError, match=r"cur/a\.csv has changed since"):
        tfrec_cli.convert(source, "out")
    (here / "cur").rename(here / "older")
    # Another one with the same content costs a look at it, once.
    place(here, "v3")
    assert is_fresh(source, "out")
    manifest = load_manifest("out")
    assert manifest is not None
    assert manifest.sources[0].inode == os.stat("cur/a.csv").st_ino
    assert made(here / "out") == before


def test_a_manifest_that_does_not_say_which_files_they_were_is_told_by_content(here: Path) -> None:
    tfrec_cli.convert("a.csv", "out")
    path = here / "out" / "manifest.json"
    entries = json.loads(path.read_text())
    for file in entries["sources"]:
        del file["inode"], file["ctime_ns"]
    path.write_text(json.dumps(entries))
    (here / "a.csv").rename(here / "c.csv")
    shutil.copy2(here / "c.csv", here / "a.csv")
    assert is_fresh("a.csv", "out")


def test_a_file_that_is_gone_is_told_so(here: Path) -> None:
    loaded(here)
    tfrec_cli.convert("t.csv", "out", schema="s.yaml")
    (here / "y.bin").unlink()
    with pytest.raises(DatasetError, match=r"but y\.bin is gone\."):
        tfrec_cli.convert("t.csv", "out", schema="s.yaml")


def test_the_same_names_elsewhere_are_other_files(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "a.csv").write_bytes((here / "a.csv").read_bytes().replace(b"w", b"z"))
    age(here)
    tfrec_cli.convert("a.csv", here / "out")
    (here / "elsewhere" / "a.csv").touch()
    monkeypatch.chdir(here / "elsewhere")
    with pytest.raises(DatasetError, match=r"a\.csv has changed since"):
        tfrec_cli.convert("a.csv", here / "out")


def remove(dest: Path) -> None:
    next(iter(sorted(dest.glob("*.tfrecord-*")))).unlink()


def shorten(dest: Path) -> None:
    path = sorted(dest.glob("*.tfrecord-*"))[-1]
    path.write_bytes(path.read_bytes()[:-1])


def lose_schema(dest: Path) -> None:
    (dest / "schema.yaml").unlink()


@pytest.mark.parametrize("damage", [remove, shorten, lose_schema])
def test_a_dataset_that_is_not_whole_is_made_again(
    here: Path, damage: Callable[[Path], None]
) -> None:
    tfrec_cli.convert("a.csv", "out", shards=3)
    whole = made(here / "out")
    damage(here / "out")
    with pytest.raises(DatasetError, match=r"but its file .* Use --overwrite"):
        tfrec_cli.convert("a.csv", "out", shards=3)
    tfrec_cli.convert("a.csv", "out", shards=3, overwrite=True)
    assert [x for _, x in made(here / "out").values()] == [x for _, x in whole.values()]


def test_verify_reads_a_dataset_that_is_up_to_date(here: Path) -> None:
    tfrec_cli.convert("a.csv", "out")
    assert tfrec_cli.convert("a.csv", "out", verify=True).records == 50
    (shard,) = (here / "out").glob("*.tfrecord-*")
    data = bytearray(shard.read_bytes())
    data[40] ^= 1
    shard.write_bytes(data)
    with pytest.raises(DatasetError):
        tfrec_cli.convert("a.csv", "out", verify=True)


def test_a_damaged_dataset_is_written_anew_where_that_is_allowed(here: Path) -> None:
    tfrec_cli.convert("a.csv", "out")
    shard = Path(shard_paths(here / "out")[0])
    whole = shard.read_bytes()
    shard.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    with pytest.raises(DatasetError, match=r"is damaged.*--overwrite"):
        tfrec_cli.convert("a.csv", "out", verify=True)
    tfrec_cli.convert("a.csv", "out", verify=True, overwrite=True)
    assert shard.read_bytes() == whole


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("how", ["other file", "same file"])
def test_a_source_replaced_during_the_run_under_its_old_time_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch, kind: str, how: str
) -> None:
    source, other = here / f"x.{kind}", here / f"y.{kind}"
    for path, letter in ((source, "a"), (other, "b")):
        table = pa.table({"c": [letter] * 3000})
        if kind == "csv":
            csv.write_csv(table, path)
        else:
            pq.write_table(table, path, use_dictionary=False, compression="none")
    os.utime(other, ns=(os.stat(source).st_mtime_ns,) * 2)
    write = ShardWriter.write

    def replacing(writer: ShardWriter, *given: Any) -> None:
        if other.exists():
            if how == "other file":
                os.replace(other, source)
            else:
                shutil.copy2(other, source)
                os.remove(other)
        write(writer, *given)

    monkeypatch.setattr(ShardWriter, "write", replacing)
    with pytest.raises(SourceError, match="changed while it was being read"):
        tfrec_cli.convert(source, "out")
    assert not (here / "out").exists()


def test_a_table_that_is_cut_during_the_run_is_told_as_changed_not_as_damaged(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = here / "x.parquet"
    pq.write_table(pa.table({"n": list(range(3000))}), source, row_group_size=100)
    read = ParquetSource.read

    def cutting(own: ParquetSource, *given: Any) -> Any:
        os.truncate(source, 1000)
        return read(own, *given)

    monkeypatch.setattr(ParquetSource, "read", cutting)
    with pytest.raises(SourceError, match="changed while it was being read"):
        tfrec_cli.convert(source, "out.tfrecord")
    assert not (here / "out.tfrecord").exists()


@pytest.mark.parametrize("how", ["linked", "other rights"])
def test_a_source_that_is_linked_or_gets_other_rights_during_the_run_is_the_same(
    here: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    pq.write_table(pa.table({"c": ["a"] * 3000}), here / "x.parquet")
    write = ShardWriter.write

    def touching(writer: ShardWriter, *given: Any) -> None:
        if how == "linked":
            (here / "y.parquet").unlink(missing_ok=True)
            os.link(here / "x.parquet", here / "y.parquet")
        else:
            (here / "x.parquet").chmod(0o640)
        write(writer, *given)

    monkeypatch.setattr(ShardWriter, "write", touching)
    before = os.stat(here / "x.parquet").st_ctime_ns
    tfrec_cli.convert(here / "x.parquet", "out")
    assert os.stat(here / "x.parquet").st_ctime_ns != before


def write_unseen(path: Path, data: bytes) -> None:
    """Write a file over, with other rights, under its old time."""
    was = os.stat(path)
    path.chmod(was.st_mode ^ 0o40)
    path.write_bytes(data)
    os.utime(path, ns=(was.st_mtime_ns,) * 2)


@pytest.mark.parametrize("options", [{}, {"shuffle": True}], ids=str)
def test_a_loaded_file_whose_rights_and_content_change_after_it_was_read_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    loaded(here)
    load = loading._content

    def changing(path: bytes) -> Any:
        found = load(path)
        write_unseen(here / os.fsdecode(path), bytes([found.data[0] + 1]) * 9)
        return found

    monkeypatch.setattr(loading, "_content", changing)
    with pytest.raises(SourceError, match=r"[xy]\.bin: the file changed while it was being read"):
        tfrec_cli.convert("t.csv", "out", schema="s.yaml", **options)
    assert not (here / "out").exists()


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shards": 2}], ids=str)
def test_a_loaded_file_has_one_content_in_all_records(
    here: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """It changes between two tables that name it, and not after the second."""
    loaded(here)
    for name in ("1.csv", "2.csv"):
        (here / name).write_text("path\nx.bin\n")
    read = CsvSource.read

    def changing(source: CsvSource, part: Any, columns: Any) -> Any:
        write_unseen(here / "x.bin", part.file[:1].encode() * 9)
        yield from read(source, part, columns)

    monkeypatch.setattr(CsvSource, "read", changing)
    with pytest.raises(SourceError, match=r"x\.bin: the file changed while it was being read"):
        tfrec_cli.convert(["1.csv", "2.csv"], "out", schema="s.yaml", jobs=1, **options)
    assert not (here / "out").exists()


def test_a_manifest_in_another_layout_is_the_same_manifest(here: Path) -> None:
    tfrec_cli.convert("a.csv", "out")
    manifest = here / "out" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()), indent=4))
    assert is_fresh("a.csv", "out")
    shard = Path(shard_paths(here / "out")[0])
    shard.write_bytes(b"")
    with pytest.raises(DatasetError, match="finished dataset"):
        tfrec_cli.convert("a.csv", "out")


@pytest.mark.parametrize("text", ["", "{}", "{", '{"tfsec": 1}'])
def test_a_damaged_manifest_is_named_where_its_dataset_would_be_replaced(
    here: Path, text: str
) -> None:
    tfrec_cli.convert("a.csv", "out")
    before = made(here / "out")
    (here / "out" / "manifest.json").write_text(text)
    for overwrite in (False, True):
        with pytest.raises(DatasetError, match=r"manifest\.json that is damaged"):
            tfrec_cli.convert("a.csv", "out", overwrite=overwrite)
    assert made(here / "out") == before


def test_standard_input_counts_by_its_content(here: Path) -> None:
    for name, source in (("csv", "a.csv"), ("parquet", "t.parquet")):
        pq.write_table(pa.table({"n": list(range(50))}), here / "t.parquet")
        run = f"tfrec convert - out-{name} -q < "
        assert subprocess.run(run + source, shell=True, check=False).returncode == 0
        before = made(here / f"out-{name}")
        assert subprocess.run(run + source, shell=True, check=False).returncode == 0
        pq.write_table(pa.table({"n": list(range(1, 51))}), here / "t.parquet")
        other = "b.csv" if name == "csv" else "t.parquet"
        done = subprocess.run(run + other, shell=True, check=False, capture_output=True, text=True)
        assert done.returncode == 1
        assert "stdin" in done.stderr
        assert "has changed since" in done.stderr
        assert made(here / f"out-{name}") == before
        manifest = load_manifest(here / f"out-{name}")
        assert manifest is not None
        assert manifest.sources[0].path.startswith("stdin")


def test_a_table_in_memory_is_never_known_to_be_the_same(here: Path) -> None:
    table = pa.table({"n": [1, 2]})
    tfrec_cli.convert(table, "out")
    with pytest.raises(DatasetError, match="table in memory"):
        tfrec_cli.convert(table, "out")
    tfrec_cli.convert(table, "out", overwrite=True)


def test_rows_left_out_are_looked_at_again_where_their_files_may_have_come(here: Path) -> None:
    loaded(here)
    (here / "t.csv").write_text("path\nx.bin\nz.bin\n")
    options: dict[str, Any] = {"schema": "s.yaml", "on_error": "skip"}
    tfrec_cli.convert("t.csv", "out", **options)
    assert not is_fresh("t.csv", "out", **options)


def test_rejects_are_listed_and_limited_though_the_dataset_is_there(here: Path) -> None:
    (here / "s.yaml").write_text("version: 1\nfeatures: {t: int64}\n")
    (here / "a.csv").write_text("t\n1\nx\n")
    options: dict[str, Any] = {"schema": "s.yaml", "on_error": "skip"}
    tfrec_cli.convert("a.csv", "out", **options)
    assert is_fresh("a.csv", "out", **options)
    assert is_fresh("a.csv", "out", max_errors=1, **options)
    assert not is_fresh("a.csv", "out", max_errors=0, **options)
    assert not is_fresh("a.csv", "out", rejects="r.jsonl", **options)


def test_a_dataset_that_another_run_writes_is_not_touched(here: Path) -> None:
    from tfrec_cli.dataset.locking import locked_dest
    from tfrec_cli.dataset.naming import parse_dest

    tfrec_cli.convert("a.csv", "out")
    with locked_dest(parse_dest("out")), pytest.raises(DatasetError, match="by another run"):
        tfrec_cli.convert("a.csv", "out")


@pytest.mark.parametrize("dest", ["out", "out.tfrecord"])
@pytest.mark.parametrize("how", ["the lock", "the time"])
def test_a_dataset_that_may_not_be_touched_is_up_to_date(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    dest: str, how: str,
) -> None:  # fmt: skip
    convert("a.csv", dest)

    def refused(*args: Any, **named: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refused)
    if how == "the lock":
        monkeypatch.setattr("tfrec_cli.dataset.locking._take", refused)
    capsys.readouterr()
    assert convert("a.csv", dest) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{dest}: up to date, 50 records")
    assert "keeps the time that it has" in said.out + said.err
    assert "the file system is read-only" in said.out + said.err


@pytest.mark.skipif(os.geteuid() != 0, reason="takes rights away from itself")
def test_a_dataset_of_another_user_is_up_to_date(
    plain_user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (plain_user / "a.csv").write_text("n\n1\n")
    os.seteuid(0)
    os.chmod(plain_user, 0o755)
    tfrec_cli.convert(plain_user / "a.csv", plain_user / "out")
    os.seteuid(65534)
    assert convert(str(plain_user / "a.csv"), str(plain_user / "out")) == 0
    said = capsys.readouterr()
    assert "up to date" in said.out
    assert "permission denied" in said.out + said.err


def test_verification_takes_no_more_jobs_than_are_asked_for(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    read = verification._read

    def reading(jobs: Any, options: Any) -> Any:
        taken.append(options.jobs)
        return read(jobs, options)

    monkeypatch.setattr(verification, "_read", reading)
    for _ in "once", "when up to date":
        tfrec_cli.convert("a.csv", "out", verify=True, jobs=1)
    assert taken == [1, 1]


def test_make_rebuilds_what_changed_and_asks_no_more(here: Path) -> None:
    (here / "Makefile").write_text(
        "all: a.tfrecord b.tfrecord both/manifest.json\n"
        "%.tfrecord: %.csv\n\ttfrec convert -q --overwrite $< $@\n"
        "both/manifest.json: a.csv b.csv\n\ttfrec convert -q --overwrite a.csv b.csv $(@D)\n"
    )

    def ran() -> list[str]:
        done = subprocess.run(["make"], capture_output=True, text=True, check=True)
        return [line.split()[-1] for line in done.stdout.splitlines() if "convert" in line]

    def written() -> dict[str, int]:
        paths = [*here.glob("*.tfrecord"), *here.glob("both/*.tfrecord-*")]
        return {path.name: path.stat().st_ino for path in paths}

    assert len(ran()) == 3
    first = written()
    assert ran() == []
    (here / "a.csv").touch()
    assert ran() == ["a.tfrecord", "both"]
    assert written() == first
    assert ran() == []
    (here / "b.csv").write_text("n,t\n1,x\n")
    assert ran() == ["b.tfrecord", "both"]
    after = written()
    assert after["a.tfrecord"] == first["a.tfrecord"]
    assert after["b.tfrecord"] != first["b.tfrecord"]
    assert ran() == []


def labelled(folder: Path) -> str:
    """A schema with a label file of its own."""
    (folder / "names.txt").write_text("".join(f"w{n}\n" for n in range(50)))
    schema = "version: 1\nfeatures:\n  n: int64\n  t: {labels: names.txt}\n"
    (folder / "given.yaml").write_text(schema)
    age(folder)
    return "given.yaml"


@pytest.mark.parametrize("dest", ["out", "out.tfrecord"])
@pytest.mark.parametrize("first", ["inferred", "given"])
@pytest.mark.parametrize("how", [{}, {"overwrite": True}, {"resume": True}])
def test_the_saved_schema_is_the_schema_of_the_dataset(
    here: Path, dest: str, first: str, how: dict[str, bool]
) -> None:
    schema = None if first == "inferred" else labelled(here)
    manifest = tfrec_cli.convert("a.csv", dest, schema=schema)
    saved = (
        here / dest / "schema.yaml" if dest == "out" else here / ".out-tfrecord.tfrec.d/schema.yaml"
    )
    assert is_fresh("a.csv", dest, schema=str(saved), **how)
    assert load_manifest(here / dest) == manifest
    # What it says counts, not where it lies or how it is written down.
    Path("own.yaml").write_text("# mine\n" + saved.read_text().replace("int64", '"int64"'))
    assert is_fresh("a.csv", dest, schema="own.yaml", **how)
    more = "  m: {column: n, type: int64}\n  n:"
    Path("own.yaml").write_text(saved.read_text().replace("  n:", more))
    if "overwrite" not in how:
        assert not is_fresh("a.csv", dest, schema="own.yaml", **how)
        assert not is_fresh("a.csv", dest, schema=str(saved), limit=7, **how)
        Path("a.csv").write_text(Path("a.csv").read_text().replace("w7", "w8"))
        assert not is_fresh("a.csv", dest, schema=str(saved), **how)


def test_a_saved_schema_that_was_changed_is_another(here: Path) -> None:
    tfrec_cli.convert("a.csv", "out")
    saved = here / "out" / "schema.yaml"
    saved.write_text(saved.read_text().replace("t: ", "s: "))
    assert not is_fresh("a.csv", "out", schema=str(saved))


def test_records_that_stand_as_they_are_have_no_schema(here: Path) -> None:
    """With the schema that was saved for them they are written anew."""
    tfrec_cli.convert("a.csv", "first")
    tfrec_cli.convert("first", "out")
    assert not is_fresh("first", "out", schema="out/schema.yaml")


@pytest.mark.parametrize("limits", [(2, 1 << 20), (100, 1), (100, 700)])
def test_many_files_that_are_newer_are_told_by_content(
    here: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    monkeypatch.setattr("tfrec_cli.freshness._GROUP", limits[0])
    monkeypatch.setattr("tfrec_cli.freshness._GROUP_BYTES", limits[1])
    names = [f"c{number}.csv" for number in range(7)]
    for name in names:
        shutil.copy("a.csv", name)
    tfrec_cli.convert(names, "out")
    for name in names:
        os.utime(name)
    assert is_fresh(*names, "out")
    for name in names:
        os.utime(name)
    Path("c5.csv").write_text(Path("c5.csv").read_text().replace("w7", "w8"))
    with pytest.raises(DatasetError, match=r"c5\.csv has changed since"):
        tfrec_cli.convert(names, "out")
