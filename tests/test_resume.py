"""Runs that are killed go on where they were, to the same bytes; others are refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import EXAMPLES, content, csv_files, shard_paths
from conversions import convert, killed

import tfrec_cli
from tfrec_cli import pipeline
from tfrec_cli.checksums import file_crc32c
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.dataset.staging import Stage
from tfrec_cli.errors import CellError, DatasetError, UsageError
from tfrec_cli.interruption import HungUp, Terminated
from tfrec_cli.receipts import Receipts


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    csv_files(tmp_path, 60, 6)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The shards that are written and the pieces that are read from now on."""
    found: dict[str, list[str]] = {"shards": [], "pieces": []}
    write, read = Stage.writer, pipeline.read_piece

    def counted_writer(stage: Stage, name: str, *how: Any) -> ShardWriter:
        found["shards"].append(name)
        return write(stage, name, *how)

    def counted_read(work: Any, piece: Any) -> Any:
        found["pieces"].append(os.path.basename(piece.partition.file))
        return read(work, piece)

    monkeypatch.setattr(Stage, "writer", counted_writer)
    monkeypatch.setattr(pipeline, "read_piece", counted_read)
    return found


WAYS: dict[str, list[str]] = {
    "plain": ["--shards", "6"],
    "compressed": ["--shards", "5", "--compression", "gzip"],
    "splits": ["--shards", "3", "--split", "train=0.7,test=0.3"],
    "exact splits": ["--shards", "3", "--split", "a=0.5,b=0.5", "--stratify", "c"],
    "shuffled": ["--shards", "4", "--shuffle", "--seed", "3", "--split", "a=0.5,b=0.5"],
    "sorted": ["--shards", "4", "--sort-by", "text"],
    "spilled": ["--shards", "4", "--shuffle", "--memory", "20kB"],
    "one job": ["--shards", "4", "-j", "1"],
    "more shards than rows": ["--shards", "5", "--limit", "3"],
    "indexes": ["--shards", "4", "--index", "dali,tfindex"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "number", [2, pytest.param(1, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
def test_a_killed_run_goes_on_to_the_same_bytes(
    here: Path, counts: dict[str, list[str]], way: str, number: int
) -> None:
    options = ["part-*.csv", *WAYS[way], "--name", "d"]
    assert convert([*options, "whole"]) == 0
    total = len(counts["shards"])
    assert killed(here, [*options, "out"], number=number)
    counts["shards"].clear()
    assert convert([*options, "out", "--resume"]) == 0
    assert len(counts["shards"]) == total - number
    assert content(here / "out") == content(here / "whole")
    assert sorted(p.name for p in here.iterdir() if p.suffix != ".csv") == ["out", "whole"]


def test_only_pieces_of_missing_shards_are_read(here: Path, counts: dict[str, list[str]]) -> None:
    options = ["part-*.csv", "--shards", "6", "--name", "d"]
    convert([*options, "whole"])
    assert killed(here, [*options, "out"], number=5)
    # One in the middle is damaged, as a power cut may leave it.
    (stage,) = here.glob(".out.tfrec-*[0-9a-f]")
    with open(stage / "data" / "d-train.tfrecord-00002-of-00006", "r+b") as shard:
        shard.seek(100)
        shard.write(b"XXXX")
    counts["pieces"].clear()
    counts["shards"].clear()
    assert convert([*options, "out", "--resume"]) == 0
    assert counts["pieces"] == ["part-2.csv", "part-5.csv"]
    assert [name[-14:-9] for name in counts["shards"]] == ["00002", "00005"]
    assert content(here / "out") == content(here / "whole")


def test_shards_that_span_pieces_and_pieces_that_span_shards(here: Path) -> None:
    for shards in (4, 7):
        options = ["part-*.csv", "--shards", str(shards), "--name", "d", "--overwrite", "--force"]
        convert([*options, "whole"])
        for number in (1, shards - 1):
            assert killed(here, [*options, "out"], number=number)
            assert convert([*options[:-2], "out", "--resume"]) == 0
            assert content(here / "out") == content(here / "whole")


def test_rows_left_out_in_error_do_not_move_what_follows(here: Path) -> None:
    for at, rows in ((1, range(5, 60, 7)), (3, range(60))):
        lines = (here / f"part-{at}.csv").read_text().splitlines()
        for row in rows:
            lines[row + 1] = "x" + lines[row + 1]
        (here / f"part-{at}.csv").write_text("\n".join(lines) + "\n")
    (here / "s.yaml").write_text("version: 1\nfeatures: {n: int64, text: bytes}\n")
    options = ["part-*.csv", "--shards", "7", "--name", "d", "--schema", "s.yaml"]
    options += ["--on-error", "skip"]
    convert([*options, "whole"])
    for number in (2, 5):
        assert killed(here, [*options, "out", "--overwrite", "--force"], number=number)
        assert convert([*options, "out", "--resume"]) == 0
        assert content(here / "out") == content(here / "whole")


def test_one_great_compressed_file_and_parquet(here: Path) -> None:
    table = pa.table({"a": list(range(5000)), "b": ["t" * (n % 50) for n in range(5000)]})
    pq.write_table(table, here / "t.parquet", row_group_size=700)
    subprocess.run("cat part-0.csv | gzip > t.csv.gz", shell=True, cwd=here, check=True)
    for source in ("t.parquet", "t.csv.gz"):
        options = [source, "--shards", "9", "--name", "d", "--overwrite", "--force"]
        convert([*options, "whole"])
        assert killed(here, [*options, "out"], number=4)
        assert convert([*options[:-2], "out", "--resume"]) == 0
        assert content(here / "out") == content(here / "whole")


def test_files_that_cells_name_stay_in_the_manifest(here: Path) -> None:
    (here / "t.csv").write_text("path\n" + "".join(f"{n % 9}.bin\n" for n in range(40)))
    for n in range(9):
        (here / f"{n}.bin").write_bytes(b"%d" % n * 1000)
    (here / "s.yaml").write_text(
        "version: 1\nfeatures: {x: {column: path, type: bytes, load: file}}\n"
    )
    for order in ([], ["--shuffle"]):
        options = ["t.csv", "--shards", "8", "--name", "d", "--schema", "s.yaml", *order]
        convert([*options, "whole", "--overwrite", "--force"])
        assert killed(here, [*options, "out", "--overwrite", "--force"], number=7)
        assert convert([*options, "out", "--resume"]) == 0
        assert content(here / "out") == content(here / "whole")
        assert len(tfrec_cli.dataset.manifest.load_manifest("out").sources) >= 10


def test_a_shard_whose_named_files_have_changed_is_made_again(here: Path) -> None:
    (here / "t.csv").write_text("path\n" + "".join(f"{n}.bin\n" for n in range(8)))
    for n in range(8):
        (here / f"{n}.bin").write_bytes(b"%d" % n * 10)
    (here / "s.yaml").write_text(
        "version: 1\nfeatures: {x: {column: path, type: bytes, load: file}}\n"
    )
    options = ["t.csv", "--shards", "8", "--name", "d", "--schema", "s.yaml"]
    assert killed(here, [*options, "out", "-j", "1"], number=6)
    (here / "2.bin").write_bytes(b"new")
    assert convert([*options, "out", "--resume"]) == 0
    convert([*options, "whole"])
    assert content(here / "out") == content(here / "whole")


@pytest.mark.parametrize("order", [[], ["--shuffle", "--memory", "1"]], ids=str)
def test_a_named_file_that_changed_under_its_old_time_is_read_again(
    here: Path, order: list[str]
) -> None:
    (here / "t.csv").write_text("path\n" + "".join(f"{n}.bin\n" for n in range(8)))
    for n in range(8):
        (here / f"{n}.bin").write_bytes(b"%d" % n * 10)
    (here / "s.yaml").write_text(
        "version: 1\nfeatures: {x: {column: path, type: bytes, load: file}}\n"
    )
    options = ["t.csv", "--shards", "8", "--name", "d", "--schema", "s.yaml", *order]
    assert killed(here, [*options, "out", "-j", "1"], number=6)
    for n in range(8):
        was = os.stat(here / f"{n}.bin")
        (here / f"{n}.bin").write_bytes(b"z" * 10)
        os.utime(here / f"{n}.bin", ns=(was.st_mtime_ns,) * 2)
    assert convert([*options, "out", "--resume"]) == 0
    convert([*options, "whole"])
    assert content(here / "out") == content(here / "whole")


def two_tables(folder: Path) -> str:
    for name, letter in (("v1", "a"), ("v2", "b")):
        table = pa.table({"c": [letter] * 4000})
        pq.write_table(table, folder / name / "t.parquet", use_dictionary=False, compression="none")
    return "cur/t.parquet"


def two_datasets(folder: Path) -> str:
    for name, letter in (("v1", "w"), ("v2", "v")):
        text = (folder / "part-1.csv").read_text().replace("w", letter)
        (folder / "x.csv").write_text(text)
        tfrec_cli.convert(folder / "x.csv", folder / "x.tfrecord", overwrite=True)
        (folder / "x.tfrecord").rename(folder / name / "t.tfrecord")
    return "cur/t.tfrecord"


def two_trees(folder: Path) -> str:
    pictures = EXAMPLES / "digits" / "0"
    for name in ("v1", "v2"):
        shutil.copytree(pictures, folder / name / "i" / "0")
        for path in (folder / name / "i" / "0").iterdir():
            path.write_bytes(path.read_bytes() + name.encode())
    return "cur/i"


@pytest.mark.parametrize("prepare", [two_tables, two_datasets, two_trees])
@pytest.mark.parametrize("order", [[], ["--shuffle", "--memory", "1"]], ids=str)
def test_a_run_does_not_go_on_with_another_folder_under_the_same_name(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    prepare: Callable[[Path], str],
    order: list[str],
) -> None:
    """Whose files have the size and time of those that were read, and are not new."""
    for name in ("v1", "v2"):
        (here / name).mkdir()
    source = prepare(here)
    for name in ("v1", "v2"):
        for path in (here / name).rglob("*"):
            os.utime(path, (1e9, 1e9))
    (here / "cur").symlink_to("v1")
    options = [source, "out", "--shards", "4", *order]
    assert killed(here, options, number=2)
    (here / "cur").unlink()
    (here / "cur").symlink_to("v2")
    assert "has changed or was replaced" in refusal([*options, "--resume"], capsys)
    (here / "cur").unlink()
    (here / "cur").symlink_to("v1")
    assert convert([*options, "--resume"]) == 0


def test_images_that_are_what_they_were_are_not_read_again(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [str(EXAMPLES / "digits" / "0"), "out", "--shards", "4"]
    assert killed(here, options, number=3)

    def read(path: object, crc: int = 0) -> int:
        assert "digits" not in str(path)
        return file_crc32c(str(path), crc)

    monkeypatch.setattr("tfrec_cli.sources.fingerprints.file_crc32c", read)
    assert convert([*options, "--resume"]) == 0


def test_a_run_goes_on_with_the_schema_that_it_had_inferred(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["part-*.csv", "--shards", "4", "--name", "d"]
    convert([*options, "whole"])
    schema = ["--schema", "whole/schema.yaml"]
    assert killed(here, [*options, "out"], number=2)
    assert convert([*options, *schema, "out", "--resume"]) == 0
    for ours, whole in zip(shard_paths(here / "out"), shard_paths(here / "whole"), strict=True):
        assert Path(ours).read_bytes() == Path(whole).read_bytes()
    # And the other way round, and with another schema not at all.
    assert killed(here, [*options, *schema, "again"], number=2)
    Path("less.yaml").write_text("version: 1\nfeatures:\n  text: bytes\n")
    capsys.readouterr()
    assert convert([*options, "--schema", "less.yaml", "again", "--resume"]) == 1
    assert "cannot be resumed" in capsys.readouterr().err
    assert convert([*options, "again", "--resume"]) == 0


def test_a_run_may_be_killed_again_and_again(here: Path) -> None:
    options = ["part-*.csv", "--shards", "5", "--name", "d"]
    convert([*options, "whole"])
    kills = 0
    while killed(here, [*options, "out", *(["--resume"] if kills else [])]):
        kills += 1
    assert kills == 5
    assert content(here / "out") == content(here / "whole")


def test_a_run_that_was_to_replace_a_dataset_does_so_when_it_goes_on(here: Path) -> None:
    convert(["part-0.csv", "out"])
    options = ["part-*.csv", "out", "--shards", "4"]
    assert killed(here, [*options, "--overwrite"])
    assert convert([*options, "--resume"]) == 0
    assert len(shard_paths(here / "out")) == 4


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert convert(arguments) == 1
    line = capsys.readouterr().err.strip()
    assert "\n" not in line
    return line


def test_without_a_word_an_interrupted_run_is_an_error_that_says_how_to_go_on(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["part-*.csv", "out", "--shards", "4"]
    assert killed(here, options, number=3)
    before = sorted(os.listdir(here))
    said = refusal(options, capsys)
    assert said == (
        "tfrec: out: a run was interrupted when 3 of 4 shards were done. Use --resume to go on "
        "with it, or --overwrite to start over."
    )
    assert set(os.listdir(here)) >= set(before) - {".out.tfrec-lock"}
    assert convert([*options, "--overwrite"]) == 0
    assert sorted(p.name for p in here.iterdir() if p.suffix != ".csv") == ["out"]


def test_a_killed_run_without_a_receipt_is_cleaned_up(here: Path) -> None:
    options = ["part-*.csv", "out", "--shards", "4"]
    assert killed(here, options, "tfrec_cli.dataset.shards:ShardWriter.write")
    assert list(here.glob(".out.tfrec-*"))
    assert convert(options) == 0
    assert sorted(p.name for p in here.iterdir() if p.suffix != ".csv") == ["out"]


def test_resume_where_nothing_is_or_nothing_was_interrupted(here: Path) -> None:
    assert convert(["part-*.csv", "out", "--resume"]) == 0
    assert len(shard_paths(here / "out")) == 1


OTHERS: dict[str, tuple[list[str], str]] = {
    "shards": (["--shards", "5"], "--shards was 4, now it is 5"),
    "seed": (["--shuffle"], "--shuffle was not given, now it is given"),
    "limit": (["--limit", "7"], "--limit was not given, now it is 7"),
    "compression": (["--compression", "gzip"], "--compression was none, now it is gzip:6 by zlib"),
    "name": (["--name", "other"], "--name was out, now it is other"),
    "option": (["-O", "delimiter=,"], "-O was not given, now it is delimiter=,"),
    "schema": (["--schema", "s.yaml"], "the schema was not given, now it is given in a file"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_run_is_refused_with_what_differs_and_changes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    (here / "s.yaml").write_text("version: 1\nfeatures: {n: int64}\n")
    options = ["part-*.csv", "out", "--shards", "4"]
    assert killed(here, options, number=3)
    more, words = OTHERS[other]
    said = refusal([*options, *more, "--resume"], capsys)
    assert f"out: the run that was interrupted cannot be resumed: {words}." in said
    assert said.endswith("or use --overwrite to start over.")
    assert convert([*options, "--resume", "-j", "3"]) == 0


def change_content(folder: Path) -> None:
    (folder / "part-5.csv").write_text((folder / "part-5.csv").read_text().replace("w", "v"))


def add_file(folder: Path) -> None:
    (folder / "part-6.csv").write_text("n,text,c\n1,a,2\n")


def remove_file(folder: Path) -> None:
    (folder / "part-5.csv").unlink()


@pytest.mark.parametrize("change", [change_content, add_file, remove_file])
def test_changed_sources_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None]
) -> None:
    options = ["part-*.csv", "out", "--shards", "4"]
    assert killed(here, options, number=2)
    change(here)
    assert "cannot be resumed: part-" in refusal([*options, "--resume"], capsys)


def test_a_source_of_another_content_under_its_old_time_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, letter in (("p.parquet", "a"), ("q.parquet", "b")):
        table = pa.table({"c": [letter] * 4000})
        pq.write_table(table, here / name, use_dictionary=False, compression="none")
    os.utime(here / "q.parquet", ns=(os.stat(here / "p.parquet").st_mtime_ns,) * 2)
    assert os.stat(here / "p.parquet").st_size == os.stat(here / "q.parquet").st_size
    options = ["p.parquet", "out", "--shards", "4"]
    assert killed(here, options, number=2)
    shutil.copy2(here / "q.parquet", here / "p.parquet")
    assert "p.parquet has changed" in refusal([*options, "--resume"], capsys)


def test_a_killed_run_is_not_given_up_for_what_cannot_be_replaced(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["part-*.csv", "out", "--shards", "4"]
    csv_files(here, 60, 6)
    assert killed(here, options, number=2)
    (here / "out").mkdir()
    (here / "out" / "mine.txt").write_text("x")
    assert "mine.txt" in refusal([*options, "--overwrite"], capsys)
    shutil.rmtree(here / "out")
    assert "2 of 4 shards" in refusal(options, capsys)
    convert([*options, "--resume"])


def test_a_source_with_the_same_content_may_be_newer(here: Path) -> None:
    options = ["part-*.csv", "out", "--shards", "4"]
    assert killed(here, options, number=2)
    for path in here.glob("*.csv"):
        path.touch()
    assert convert([*options, "--resume"]) == 0


def test_another_version_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["part-*.csv", "out", "--shards", "4"]
    assert killed(here, options, number=2)
    monkeypatch.setattr(pa, "__version__", "99.0")
    assert "pyarrow was" in refusal([*options, "--resume"], capsys)


def test_resume_and_overwrite_exclude_each_other(here: Path) -> None:
    with pytest.raises(UsageError, match="give one"):
        tfrec_cli.convert("part-0.csv", "out", resume=True, overwrite=True)
    with pytest.raises(UsageError, match="resume is"):
        tfrec_cli.convert("part-0.csv", "out", resume="yes")  # type: ignore[arg-type]


def stopped_at_third_receipt(
    monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> list[str]:
    """Have runs raise `stop` once three receipts are left; the list says for which tasks."""
    left: list[str] = []
    leave = Receipts.leave

    def stopped(receipts: Receipts, task: str, receipt: Any) -> None:
        left.append(task)
        leave(receipts, task, receipt)
        if len(left) == 3:
            raise stop

    monkeypatch.setattr(Receipts, "leave", stopped)
    return left


@pytest.mark.parametrize("stop", [Terminated, HungUp, MemoryError, KeyboardInterrupt])
def test_what_is_terminated_or_went_on_with_another_run_is_kept(
    here: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    csv_files(here, 60, 6)
    goes_on = not issubclass(stop, Terminated)
    if goes_on:
        assert killed(here, ["part-*.csv", "out", "--shards", "6"])
    left = stopped_at_third_receipt(monkeypatch, stop)
    with pytest.raises(stop):
        tfrec_cli.convert("part-*.csv", "out", shards=6, resume=goes_on)
    left[:] = ["the third is long past"] * 3
    tfrec_cli.convert("part-*.csv", "out", shards=6, resume=True)
    assert len(left) - 3 == (2 if goes_on else 3)
    tfrec_cli.convert("part-*.csv", "whole", name="out", shards=6)
    assert [Path(p).read_bytes() for p in shard_paths(here / "out")] == [
        Path(p).read_bytes() for p in shard_paths(here / "whole")
    ]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_what_is_interrupted_by_its_user_or_fails_leaves_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    stopped_at_third_receipt(monkeypatch, stop)
    with pytest.raises(stop):
        tfrec_cli.convert("part-*.csv", "out", shards=5)
    assert [p.name for p in here.iterdir() if p.suffix != ".csv"] == []


def test_a_cell_in_error_found_late_leaves_nothing_to_resume(here: Path) -> None:
    (here / "part-5.csv").write_text("n,text,c\nx,y,1\n")
    (here / "s.yaml").write_text("version: 1\nfeatures: {n: int64}\n")
    with pytest.raises(CellError):
        tfrec_cli.convert("part-*.csv", "out", shards=5, schema="s.yaml")
    assert [p.name for p in here.iterdir() if p.suffix not in (".csv", ".yaml")] == []


def test_a_record_of_the_run_that_cannot_be_read_is_no_run(here: Path) -> None:
    options = ["part-*.csv", "out", "--shards", "4"]
    assert killed(here, options, number=2)
    (stage,) = here.glob(".out.tfrec-*[0-9a-f]")
    (stage / "work" / "receipts" / "run.json").write_bytes(b"")
    assert convert([*options, "--resume"]) == 0
    assert len(shard_paths(here / "out")) == 4


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plain", "spilled"])
@pytest.mark.parametrize("place", ["os:rename"])
def test_killed_at_any_system_call_a_run_can_go_on(here: Path, way: str, place: str) -> None:
    options = ["part-*.csv", *WAYS[way], "--name", "d"]
    convert([*options, "whole"])
    number = 1
    while killed(here, [*options, "out"], place, number):
        # Committed already, or interrupted, or nothing yet: each ends with the whole dataset.
        assert convert([*options, "out", "--resume"]) == 0
        assert content(here / "out") == content(here / "whole")
        shutil.rmtree(here / "out")
        number += 1
    assert number > 3


def test_the_library_resumes(here: Path) -> None:
    assert killed(here, ["part-*.csv", "out", "--shards", "4"], number=2)
    with pytest.raises(DatasetError, match="--resume"):
        tfrec_cli.convert("part-*.csv", "out", shards=4)
    assert tfrec_cli.convert("part-*.csv", "out", shards=4, resume=True).records == 360
