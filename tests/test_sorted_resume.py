"""An order that is killed while it sorts goes on with the runs that it has, to the same bytes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import content, csv_files
from conversions import convert, killed
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli import ordering
from tfrec_cli.receipts import Receipts
from tfrec_cli.runlog import RunLog, gaps
from tfrec_cli.scratch import Scratch
from tfrec_cli.shuffle.merge import RunStack, Sorted
from tfrec_cli.shuffle.runs import hold_run, run_path, run_schema, spill_run
from tfrec_cli.shuffle.segments import Segments

NOTE = "tfrec_cli.runlog:RunLog.note"
MERGED = "tfrec_cli.runlog:RunLog.merged"
SMALL = ["--name", "d", "--memory", "20kB"]
WAYS: dict[str, list[str]] = {
    "shuffled": ["--shards", "4", "--shuffle", "--seed", "3"],
    "sorted": ["--shards", "4", "--sort-by", "text,c"],
    "equal keys": ["--shards", "3", "--sort-by", "c", "--split", "a=0.5,b=0.5"],
    "one shard": ["--shuffle"],
    "limited": ["--shards", "2", "--shuffle", "--limit", "333", "-j", "1"],
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    csv_files(tmp_path, 60, 6)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """The rows that are sorted from now on, as map tasks take them."""
    found: list[range] = []
    make = ordering.make_runs

    def counted(shared: Any, room: Any, parts: Any) -> Sorted:
        done = make(shared, room, parts)
        found.append(range(done.start, done.stop))
        return done

    monkeypatch.setattr(ordering, "make_runs", counted)
    return found


def total(rows: list[range]) -> int:
    return sum(map(len, rows))


def sorted_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("**/run-*") if p.suffix not in (".index", ".part"))


def receipts(here: Path) -> list[tuple[int, int]]:
    """The stretches of rows that have a receipt."""
    found = sorted(path.stem.split("-") for path in here.glob(".out.tfrec-*/work/receipts/rows-*"))
    return [(int(start), int(stop)) for _, start, stop in found]


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_are_sorted_are_not_sorted_again(here: Path, rows: list[range], way: str) -> None:
    options = ["part-*.csv", *SMALL, *WAYS[way]]
    assert convert([*options, "whole"]) == 0
    everything, tasks = total(rows), len(rows)
    assert tasks > 6
    assert killed(here, [*options, "out"], NOTE, 5)
    done = sum(stop - start for start, stop in receipts(here))
    assert done > 0
    rows.clear()
    assert convert([*options, "out", "--resume"]) == 0
    assert total(rows) == everything - done
    assert len(rows) < tasks
    assert content(here / "out") == content(here / "whole")
    assert sorted(p.name for p in here.iterdir() if p.suffix != ".csv") == ["out", "whole"]


@pytest.mark.parametrize("way", ["shuffled", "equal keys"])
def test_when_all_is_sorted_only_shards_are_made(here: Path, rows: list[range], way: str) -> None:
    options = ["part-*.csv", *SMALL, *WAYS[way]]
    convert([*options, "whole"])
    for number in (1, 2):
        assert killed(here, [*options, "out"], number=number)
        rows.clear()
        assert convert([*options, "out", "--resume"]) == 0
        assert rows == []
        assert content(here / "out") == content(here / "whole")
        shutil.rmtree(here / "out")


def test_records_of_shards_that_are_done_are_not_merged_again(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["part-*.csv", *SMALL, "--shards", "12", "--shuffle"]
    merged: list[int] = []
    merge = ordering.merge_records

    def counted(*arguments: Any) -> Any:
        found = merge(*arguments)
        merged.append(len(found.ends))
        return found

    monkeypatch.setattr(ordering, "merge_records", counted)
    convert([*options, "whole"])
    assert sum(merged) == 360
    assert killed(here, [*options, "out"], number=9)
    merged.clear()
    assert convert([*options, "out", "--resume"]) == 0
    assert 3 * 30 <= sum(merged) < 240
    assert content(here / "out") == content(here / "whole")


@pytest.mark.parametrize("damage", ["missing", "flipped", "cut", "index", "receipt"])
def test_a_run_that_is_damaged_is_made_again(here: Path, rows: list[range], damage: str) -> None:
    options = ["part-*.csv", *SMALL, *WAYS["sorted"]]
    convert([*options, "whole"])
    assert killed(here, [*options, "out"], number=1)
    left = receipts(here)
    run = sorted_files(here)[2]
    start = int(run.name.split("-")[1])
    if damage == "missing":
        run.unlink()
    elif damage == "receipt":
        next(here.glob(f".out.tfrec-*/work/receipts/rows-{start:015d}-*")).write_bytes(b"junk")
    else:
        path = run.with_name(run.name + ".index") if damage == "index" else run
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data[:-1] if damage == "cut" else data)
    rows.clear()
    assert convert([*options, "out", "--resume"]) == 0
    assert [(each.start, each.stop) for each in rows] == [s for s in left if s[0] == start]
    assert content(here / "out") == content(here / "whole")


def test_runs_in_a_temporary_folder_are_gone_on_with(here: Path, rows: list[range]) -> None:
    (here / "tmp").mkdir()
    options = ["part-*.csv", *SMALL, *WAYS["shuffled"], "--temp-dir", "tmp"]
    convert([*options, "whole"])
    everything = total(rows)
    assert killed(here, [*options, "out"], NOTE, 8)
    # Another run with the same folder, and one whose runs nobody can go on with.
    assert killed(here, ["part-*.csv", *SMALL, "--shuffle", "--temp-dir", "tmp", "other"], NOTE, 3)
    assert len(list((here / "tmp").iterdir())) == 2
    (stage,) = here.glob(".other.tfrec-*[0-9a-f]")
    shutil.rmtree(stage)
    convert(["part-0.csv", *SMALL, "--shuffle", "--temp-dir", "tmp", "third"])
    assert len(list((here / "tmp").iterdir())) == 1
    done = sum(stop - start for start, stop in receipts(here))
    rows.clear()
    assert convert([*options, "out", "--resume"]) == 0
    assert total(rows) == everything - done
    assert content(here / "out") == content(here / "whole")
    assert list((here / "tmp").iterdir()) == []


def test_without_the_temporary_folder_all_is_sorted_again(here: Path, rows: list[range]) -> None:
    for name in ("tmp", "more"):
        (here / name).mkdir()
    options = ["part-*.csv", *SMALL, *WAYS["shuffled"]]
    convert([*options, "whole"])
    everything = total(rows)
    for other in (["--temp-dir", "more"], []):
        assert killed(here, [*options, "--temp-dir", "tmp", "out"], NOTE, 8)
        rows.clear()
        assert convert([*options, *other, "out", "--resume"]) == 0
        assert total(rows) == everything
        assert content(here / "out") == content(here / "whole")
        shutil.rmtree(here / "out")
    convert(["part-0.csv", "--shuffle", *SMALL, "--temp-dir", "tmp", "third"])
    assert list((here / "tmp").iterdir()) == list((here / "more").iterdir()) == []


@pytest.mark.parametrize("memory", ["64kB", "1GB"])
def test_memory_and_jobs_may_change(here: Path, memory: str, rows: list[range]) -> None:
    options = ["part-*.csv", "--name", "d", *WAYS["sorted"]]
    convert([*options, "whole"])
    everything = total(rows)
    assert killed(here, [*options, "out", "--memory", "20kB"], NOTE, 7)
    rows.clear()
    assert convert([*options, "out", "--memory", memory, "-j", "3", "--resume"]) == 0
    assert 0 < total(rows) < everything
    assert content(here / "out") == content(here / "whole")


def test_what_is_in_memory_is_lost_and_what_was_spilled_is_not(here: Path) -> None:
    options = ["part-*.csv", "--name", "d", *WAYS["shuffled"]]
    convert([*options, "whole"])
    assert killed(here, [*options, "out"], "tfrec_cli.ordering:make_runs", 3)
    assert not receipts(here)
    assert convert([*options, "out"]) == 0
    assert content(here / "out") == content(here / "whole")


@pytest.mark.parametrize("files", [False, True])
def test_rows_whose_runs_become_one_keep_their_receipt(tmp_path: Path, files: bool) -> None:
    """Rows in memory that are spilled alone, and rows that are in more files than a level takes."""
    (tmp_path / "runs").mkdir()
    receipts = Receipts(tmp_path / "receipts")
    log = RunLog(receipts, str(tmp_path / "runs"))
    segments, _ = log.begin(Segments((1,)), 1)
    stack = RunStack(str(tmp_path / "runs"), 2, 1 << 20, log.merged)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 2], pa.uint64()), pa.array([b"a", b"b"], pa.large_binary())],
        schema=run_schema(pa.uint64()),
    )
    ends = segments.ends([2], batch.column(0))
    runs = tuple(
        spill_run(run_path(str(tmp_path / "runs"), f"{n}"), batch, ends)
        if files
        else hold_run(batch, ends)
        for n in range(3 if files else 1)
    )
    found = Sorted(0, 2 * len(runs), runs)
    log.note(found)
    stack.add(found)
    stack.spill()
    (run,) = stack.runs
    _, kept = RunLog(receipts, str(tmp_path / "runs")).begin(segments, 1)
    assert [(each.start, each.stop) for each in kept] == [(0, 2 * len(runs))]
    assert kept[0].runs[0].path == run.path
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.parametrize("place", [NOTE, MERGED, "tfrec_cli.shuffle.merge:merge_runs"])
@pytest.mark.parametrize("number", [1, 2])
def test_killed_while_runs_are_merged(
    here: Path, rows: list[range], place: str, number: int
) -> None:
    table = pa.table({"a": [n * 7919 % 3001 for n in range(9000)], "b": ["t"] * 9000})
    pq.write_table(table, here / "t.parquet", row_group_size=4000)
    options = ["t.parquet", "--name", "d", "--sort-by", "a", "--shards", "3", "--memory", "9kB"]
    convert([*options, "whole"])
    everything = total(rows)
    at = 150 + 20 * number if place == NOTE else number
    assert killed(here, [*options, "out"], place, at)
    stretches = receipts(here)
    assert stretches
    if place != NOTE:
        assert max(stop - start for start, stop in stretches) > 10
    rows.clear()
    assert convert([*options, "out", "--resume"]) == 0
    assert total(rows) < everything
    assert content(here / "out") == content(here / "whole")


def test_other_segments_are_other_runs(here: Path, rows: list[range]) -> None:
    """Receipts whose runs were cut in another way are not used."""
    options = ["part-*.csv", *SMALL, *WAYS["sorted"]]
    convert([*options, "whole"])
    everything = total(rows)
    assert killed(here, [*options, "out"], NOTE, 8)
    (receipt,) = here.glob(".out.tfrec-*/work/receipts/runs.json")
    receipt.write_bytes(b"00000000\n{}")
    rows.clear()
    assert convert([*options, "out", "--resume"]) == 0
    assert total(rows) == everything
    assert content(here / "out") == content(here / "whole")


def test_a_run_that_is_stopped_leaves_no_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    (here / "tmp").mkdir()
    monkeypatch.setattr(ordering, "merge_records", stopped)
    for where in (["--temp-dir", "tmp"], []):
        assert convert(["part-*.csv", *SMALL, *WAYS["shuffled"], *where, "out"]) == 130
        assert sorted(p.name for p in here.iterdir() if p.suffix != ".csv") == ["tmp"]
        assert list((here / "tmp").iterdir()) == []


def test_files_that_cells_name_stay_in_the_manifest(here: Path, rows: list[range]) -> None:
    (here / "t.csv").write_text("path\n" + "".join(f"{n % 9}.bin\n" for n in range(80)))
    for n in range(9):
        (here / f"{n}.bin").write_bytes(b"%d" % n * 500)
    (here / "s.yaml").write_text(
        "version: 1\nfeatures: {x: {column: path, type: bytes, load: file}}\n"
    )
    options = ["t.csv", *SMALL, "--schema", "s.yaml", "--shuffle", "--shards", "2"]
    convert([*options, "whole"])
    assert killed(here, [*options, "out"], number=1)
    rows.clear()
    (here / "4.bin").write_bytes(b"new")
    assert convert([*options, "out", "--resume"]) == 0
    assert 0 < total(rows) < 80
    convert([*options, "whole", "--overwrite", "--force"])
    assert content(here / "out") == content(here / "whole")


def test_a_folder_is_kept_while_another_is_there(tmp_path: Path) -> None:
    kept, parent = tmp_path / "receipts", tmp_path / "tmp"
    kept.mkdir()
    parent.mkdir()
    code = "import os, sys; from tfrec_cli.scratch import Scratch\n"
    code += "s = Scratch(sys.argv[1], sys.argv[2]); print(s.path, flush=True); os._exit(0)"
    run = [os.sys.executable, "-c", code, str(parent), str(kept)]  # type: ignore[attr-defined]
    import subprocess

    path = Path(subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip())
    Scratch(str(parent)).remove()
    assert list(parent.iterdir()) == [path]
    adopted = Scratch.adopted(str(path))
    assert adopted is not None
    assert Scratch.adopted(str(path)) is None
    adopted.remove()
    assert Scratch.adopted(str(path)) is None
    path = Path(subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip())
    kept.rmdir()
    Scratch(str(parent)).remove()
    assert list(parent.iterdir()) == []


@given(st.sets(st.integers(0, 30)), st.integers(0, 30), st.integers(0, 30))
def test_gaps_and_what_is_done_are_all_rows(bounds: set[int], first: int, last: int) -> None:
    places = sorted(bounds)
    done = [
        Sorted(a, b - a, ()) for a, b in zip(places[::2], places[1::2], strict=False)
    ]  # every other stretch
    found = gaps(range(first, last), done)
    inside = {row for each in done for row in range(each.start, each.stop)}
    assert [row for gap in found for row in gap] == [
        row for row in range(first, last) if row not in inside
    ]
    assert all(gap for gap in found)
