"""Sorted runs and their merging: in memory and in files alike."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfrec_cli
from tfrec_cli.dataset.naming import parse_dest
from tfrec_cli.errors import DatasetError
from tfrec_cli.options import ConvertOptions
from tfrec_cli.ordering import MapWork, cut_piece, make_runs, plan_segments
from tfrec_cli.preparation import prepare
from tfrec_cli.progress import SILENT
from tfrec_cli.shuffle.budget import plan_memory
from tfrec_cli.shuffle.cuts import Cut, cuts
from tfrec_cli.shuffle.merge import (
    RunStack,
    Sorted,
    encoded,
    merge_cut,
    merge_runs,
    records_of,
)
from tfrec_cli.shuffle.runs import Room, Run, hold_run, run_path, run_schema, spill_run
from tfrec_cli.shuffle.segments import Segments, sorted_rows
from tfrec_cli.shuffle.spills import index_path, leave_index, run_at
from tfrec_cli.sizing import Sizes


def batch_of(keys: list[int], records: list[bytes]) -> pa.RecordBatch:
    arrays = [pa.array(keys, pa.uint64()), pa.array(records, pa.large_binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=run_schema(pa.uint64()))


def run_of(rows: list[tuple[int, int, bytes]], segments: Segments, path: Path | None = None) -> Run:
    """A run of (split, key, record) rows."""
    rows = sorted(rows, key=lambda row: row[:2])
    batch = batch_of([row[1] for row in rows], [row[2] for row in rows])
    counts = [sum(row[0] == split for row in rows) for split in range(len(segments.counts))]
    ends = segments.ends(counts, batch.column(0))
    return hold_run(batch, ends) if path is None else spill_run(str(path), batch, ends)


def merged(runs: list[Run], segments: Segments) -> list[bytes]:
    found = []
    for segment in range(segments.total):
        batch = merge_cut(runs, Cut(segment, segment + 1))
        found += [] if batch is None else batch.column(1).to_pylist()
    return found


ROW = st.tuples(st.integers(0, 2), st.integers(0, 15).map(lambda n: n << 60))


@given(
    st.lists(st.lists(ROW, max_size=8), min_size=1, max_size=6),
    st.tuples(*[st.integers(1, 5)] * 3),
)
def test_merged_runs_are_the_stable_sort_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[int, int]]],
    counts: tuple[int, ...],
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    segments = Segments(counts)
    numbered = [
        [
            (split, key, f"{part}-{row}".encode() * (row % 3 + 1))
            for row, (split, key) in enumerate(rows)
        ]
        for part, rows in enumerate(parts)
    ]
    expected = [r[2] for r in sorted((r for p in numbered for r in p), key=lambda r: r[:2])]
    held = [run_of(rows, segments) for rows in numbered]
    spilled = [run_of(rows, segments, folder / f"{n}") for n, rows in enumerate(numbered)]
    assert merged(held, segments) == expected
    assert merged(spilled, segments) == expected
    assert merged([a if n % 2 else b for n, (a, b) in enumerate(zip(held, spilled, strict=True))],
                  segments) == expected  # fmt: skip


@pytest.mark.parametrize("most", [2, 3, 5, 100])
def test_runs_beyond_a_number_are_merged_and_equal_keys_keep_their_order(
    tmp_path: Path, most: int
) -> None:
    segments = Segments((3,))
    stack = RunStack(str(tmp_path), most, 40)
    rows = [(0, (n * 7 % 5) << 61, str(n).encode()) for n in range(120)]
    for number in range(40):
        path = tmp_path / f"run-{number}" if number % 3 else None
        run = run_of(rows[number * 3 : number * 3 + 3], segments, path)
        stack.add(Sorted(3 * number, 3, (run,)))
    assert len(stack.runs) <= max(40 if most == 100 else 0, most * 6)
    assert merged(stack.runs, segments) == [r[2] for r in sorted(rows, key=lambda r: r[1])]
    kept = {Path(run.path).name for run in stack.runs if run.path}
    assert {path.name for path in tmp_path.iterdir()} == kept


BINARY = st.tuples(st.integers(0, 2), st.binary(max_size=3))


def typed_run(rows: list[tuple[int, Any, bytes]], kind: pa.DataType, path: Path | None) -> Run:
    """A run of (split, key, record) rows in two segments a split."""
    rows = sorted(rows, key=lambda row: row[:2])
    keys = pa.array([row[1] for row in rows], kind)
    records = pa.array([row[2] for row in rows], pa.large_binary())
    batch = pa.RecordBatch.from_arrays([keys, records], schema=run_schema(kind))
    counts = [sum(row[0] == split for row in rows) for split in range(3)]
    sample = None if kind == pa.uint64() else (b"\x40", b"\x80")
    ends = Segments((2, 2, 2), sample).ends(counts, batch.column(0))
    return hold_run(batch, ends) if path is None else spill_run(str(path), batch, ends)


@given(st.data(), st.sampled_from([pa.uint64(), pa.large_binary()]), st.integers(0, 200))
def test_whatever_is_merged_at_a_time_all_comes_in_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: pa.DataType, most: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    pairs = data.draw(
        st.lists(
            st.lists(ROW if kind == pa.uint64() else BINARY, max_size=9), min_size=1, max_size=5
        )
    )
    numbered = [
        [
            (split, key, f"{part}-{row}".encode() * (row % 4))
            for row, (split, key) in enumerate(rows)
        ]
        for part, rows in enumerate(pairs)
    ]
    expected = [r[2] for r in sorted((r for p in numbered for r in p), key=lambda r: r[:2])]
    for spilled in (0, 1, 2):
        runs = [
            typed_run(rows, kind, folder / f"{spilled}-{n}" if spilled > n % 2 else None)
            for n, rows in enumerate(numbered)
        ]
        found = []
        for split in range(3):
            for cut in cuts(runs, range(2 * split, 2 * split + 2), most):
                batch = merge_cut(runs, cut)
                assert batch is not None or cut.parts is None
                found += [] if batch is None else batch.column(1).to_pylist()
                size = sum(len(key) if kind != pa.uint64() else 0
                           for key in batch.column(0).to_pylist()) if batch else 0  # fmt: skip
                size += sum(16 + len(r) for r in batch.column(1).to_pylist()) if batch else 0
                assert size <= most or batch is None or batch.num_rows == 1
        assert found == expected
        merged_run = merge_runs(runs, str(folder / f"{spilled}-merged"), most)
        assert merged([merged_run], Segments((2, 2, 2))) == expected
        assert merged_run.ends.tolist() == np.sum([run.ends for run in runs], axis=0).tolist()


@given(st.data(), st.sampled_from([pa.uint64(), pa.large_binary()]))
def test_rows_of_a_run_are_read_by_position(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: pa.DataType
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    pairs = data.draw(st.lists(ROW if kind == pa.uint64() else BINARY, min_size=1, max_size=12))
    rows = [(split, key, str(n).encode()) for n, (split, key) in enumerate(pairs)]
    held, spilled = typed_run(rows, kind, None), typed_run(rows, kind, folder / "run")
    for segment in range(6):
        count = held.rows_of(segment)
        assert spilled.rows_of(segment) == count
        assert kind == pa.uint64() or spilled.key_bytes(segment) == held.key_bytes(segment)
        for first in range(count):
            last = data.draw(st.integers(first + 1, count))
            parts = [part_of(run, segment, first, last) for run in (held, spilled)]
            whole = merge_cut([held], Cut(segment, segment + 1))
            assert whole is not None
            expected = whole.slice(first, last - first).to_pydict()
            assert parts[0] == parts[1] == expected
            (keys, sizes), (others, same) = (
                run.keys(segment, first, 40) for run in (held, spilled)
            )
            assert keys.to_pylist()[: len(others)] == others.to_pylist()
            assert sizes.tolist()[: len(same)] == same.tolist() != []
    found = [merge_cut([run], Cut(0, 6)) for run in (held, spilled)]
    assert [batch and batch.column(1).to_pylist() for batch in found] == [
        [r[2] for r in sorted(rows, key=lambda r: r[:2])]
    ] * 2


def part_of(run: Run, segment: int, first: int, last: int) -> dict[str, list[Any]]:
    size = int(run.keys(segment, first, 2**30)[1][: last - first].sum())
    cut = Cut(segment, segment + 1, ((0, first, last),), size)
    return merge_cut([run], cut).to_pydict()


def test_runs_travel() -> None:
    segments = Segments((2,))
    run = run_of([(0, 1 << 63, b"b"), (0, 5, b"a")], segments)
    assert merged([pickle.loads(pickle.dumps(run))], segments) == [b"a", b"b"]


def test_a_run_that_is_cut_or_gone_is_an_error_in_one_line(tmp_path: Path) -> None:
    segments = Segments((1,))
    run = run_of([(0, 1, b"abc" * 100)], segments, tmp_path / "run")
    data = (tmp_path / "run").read_bytes()
    (tmp_path / "run").write_bytes(data[:200])
    with pytest.raises(DatasetError, match="cut short"):
        merge_cut([run], Cut(0, 1))
    (tmp_path / "run").unlink()
    with pytest.raises(DatasetError, match="--temp-dir"):
        merge_cut([run], Cut(0, 1))


def test_a_run_that_others_wrote_into_is_an_error_in_one_line(tmp_path: Path) -> None:
    for kind, key in ((pa.uint64(), 1 << 63), (pa.large_binary(), b"key")):
        run = typed_run([(0, key, b"abc" * 100), (0, key, b"de")], kind, tmp_path / "run")
        data = (tmp_path / "run").read_bytes()
        segment = run.ends.tolist().index(2)
        part = Cut(segment, segment + 1, ((0, 0, 2),), run.size)
        # Where two records begin and end, then where their keys do, if they are not numbers.
        for at in range(0, 24 if kind == pa.uint64() else 48, 8):
            for number in (-(2**63), -1, 1 << 40, 1 << 62, 2**63 - 1):
                broken = data[:at] + number.to_bytes(8, "little", signed=True) + data[at + 8 :]
                (tmp_path / "run").write_bytes(broken)
                for cut in (Cut(segment, segment + 1), part):
                    with pytest.raises(DatasetError, match=r"damaged .* Run again\.$"):
                        merge_cut([run, run], cut)
                with pytest.raises(DatasetError, match=r"damaged .* Run again\.$"):
                    _ = [run.keys(segment, first, 1 << 30) for first in (0, 1)]
                if at == 40:
                    with pytest.raises(DatasetError, match=r"damaged .* Run again\.$"):
                        run.key_bytes(segment)


def all_rows(runs: list[Run], segments: range, most: int) -> list[bytes]:
    """All records in order, merged a little at a time."""
    batches = [merge_cut(runs, cut) for cut in cuts(runs, segments, most)]
    return [record for b in batches if b is not None for record in b.column(1).to_pylist()]


@pytest.mark.parametrize("kind", [pa.uint64(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("how", ["written", "merged", "left"])
def test_every_flipped_byte_of_a_run_is_noticed(tmp_path: Path, kind: Any, how: str) -> None:
    """Wherever it is: in a number or a key it would be another order, in a record another shard."""
    path = tmp_path / "run"
    keys = [1 << 60, 3 << 60, 1 << 63] if kind == pa.uint64() else [b"a", b"bcd", b"e"]
    run = typed_run([(0, key, b"record %d" % n) for n, key in enumerate(keys)], kind, path)
    if how == "merged":
        run = merge_runs([run, run], str(tmp_path / "merged"), 60)
    elif how == "left":
        leave_index(run)
        run = run_at(str(path), range(len(run.ends)), kind)
    path, total = Path(run.path), range(len(run.ends))
    right = path.read_bytes()
    whole, parts = list(cuts([run], total, 1 << 30)), list(cuts([run], total, 30))
    assert [cut.parts is None for cut in whole] == [True]
    assert any(cut.parts is not None for cut in parts)
    assert len(right) == run.size
    for at in range(len(right)):
        path.write_bytes(right[:at] + bytes([right[at] ^ 4]) + right[at + 1 :])
        with pytest.raises(DatasetError, match=rf"{run.path}: damaged .* Run again\.$"):
            merge_cut([run], whole[0])
        with pytest.raises(DatasetError, match=rf"{run.path}: damaged .* Run again\.$"):
            all_rows([run], total, 30)
    path.write_bytes(right)
    assert sum(cut.rows([run]) for cut in cuts([run], total, 30)) == run.rows


@pytest.mark.parametrize("at", range(0, 80, 8))
def test_an_index_with_another_number_is_noticed(tmp_path: Path, at: int) -> None:
    path, segments = str(tmp_path / "run"), Segments((3,))
    rows = [(0, n << 60, b"x" * n) for n in range(15)]
    leave_index(run_of(rows, segments, Path(path)))
    right = Path(index_path(path)).read_bytes()
    assert len(right) == 8 * (3 * segments.total + 1)
    Path(index_path(path)).write_bytes(right[:at] + bytes([right[at] ^ 1]) + right[at + 1 :])
    run = run_at(path, range(segments.total), pa.uint64())
    with pytest.raises(DatasetError, match=rf"{path}: damaged"):
        all_rows([run], range(segments.total), 1 << 30)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sort_by": "text"}], ids=str)
def test_a_run_that_is_damaged_on_the_disk_ends_the_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    table = pa.table({"text": [f"row {n * 37 % 1000}" for n in range(1000)]})
    pq.write_table(table, tmp_path / "t.parquet")
    replace = os.replace

    def damaging(draft: str, path: str) -> None:
        data = bytearray(Path(draft).read_bytes())
        if os.path.basename(path).startswith("run-") and len(data) > 1000:
            data[len(data) // 2] ^= 1
            Path(draft).write_bytes(data)
        replace(draft, path)

    monkeypatch.setattr("tfrec_cli.shuffle.runfile.os.replace", damaging)
    with pytest.raises(DatasetError, match=r"run-[^ ]*: damaged or cut short, .* Run again\.$"):
        tfrec_cli.convert(str(tmp_path / "t.parquet"), str(tmp_path / "d"), memory=20000, **options)
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_what_memory_holds_goes_to_files_and_what_is_in_files_stays(tmp_path: Path) -> None:
    segments, held = Segments((2,)), {0, 3, 4, 6}
    rows = [(0, (n * 5 % 7) << 61, str(n).encode()) for n in range(28)]
    stack = RunStack(str(tmp_path), 100, 40)
    for number in range(7):
        path = None if number in held else tmp_path / f"run-{number}"
        run = run_of(rows[number * 4 : number * 4 + 4], segments, path)
        stack.add(Sorted(4 * number, 4, (run,)))
    before = {n: (tmp_path / f"run-{n}").stat().st_ino for n in (1, 2, 5)}
    stack.spill()
    assert all(run.held is None for run in stack.runs)
    assert len(stack.runs) == 6
    assert {n: (tmp_path / f"run-{n}").stat().st_ino for n in (1, 2, 5)} == before
    assert merged(stack.runs, segments) == [r[2] for r in sorted(rows, key=lambda r: r[1])]


def test_a_run_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"cannot be kept there.*--temp-dir"):
        run_of([(0, 1, b"a")], Segments((1,)), tmp_path / "none" / "run")


def test_segments_by_a_sample_of_binary_keys() -> None:
    segments = Segments((3, 1), (b"b", b"d", b"f"))
    keys = pa.array([b"a", b"d", b"e", b"g", b"a", b"z"], pa.large_binary())
    assert segments.ends([4, 2], keys).tolist() == [1, 3, 4, 6]
    assert [list(segments.of(split)) for split in (0, 1)] == [[0, 1, 2], [3]]


def test_rows_are_sorted_by_split_then_key() -> None:
    splits = np.array([1, 0, 1, 0], np.uint8)
    for keys in (
        pa.array([1, 2, 0, 2], pa.uint64()),
        pa.array([b"b", b"c", b"a", b"c"], pa.large_binary()),
    ):
        assert sorted_rows(keys, splits).tolist() == [1, 3, 2, 0]
        assert sorted_rows(keys).tolist() == [2, 0, 1, 3]


def test_records_and_arrays_are_each_other() -> None:
    batch = batch_of([1, 2, 3], [b"a", b"", b"bcd"])
    for part in (batch, batch.slice(1), batch.slice(1, 1), batch.slice(0, 0)):
        found = encoded(part)
        assert records_of(found).to_pylist() == part.column(1).to_pylist()
        assert bytes(found.data) == b"".join(part.column(1).to_pylist())
    assert len(encoded(None).ends) == 0


def test_room_is_given_away_once() -> None:
    room = Room(100)
    assert [room.take(size) for size in (60, 40, 0)] == [True, True, True]
    assert not room.full
    assert not room.take(1)
    assert room.full
    room.empty(50, direct=30)
    assert [room.take(size) for size in (30, 29, 21)] == [False, True, True]
    assert not room.full


def test_the_budget_is_kept_whatever_the_jobs() -> None:
    for memory in (1, 2**20, 2**27, 2**32):
        for jobs in (1, 7, 64):
            for size in (0.0, memory / 3, 1e12):
                budget = plan_memory(memory, jobs, size)
                assert budget.held + budget.workers * budget.run * 6 <= max(memory, 6)
                assert (3 * budget.workers + 1) * budget.segment <= max(memory, 4)
                assert (budget.held == 0) == (size == 1e12 or memory == 1)


def test_memory_is_held_to_when_the_plan_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that turn out larger, or smaller, than the sample are cut by what they are."""
    sizes = [20] * 300 + [4000] * 60
    for name, rows in (("grows", sizes), ("shrinks", sizes[::-1])):
        table = pa.table({"n": range(360), "x": [bytes([n % 251]) * n for n in rows]})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=45)
        for sort_by in ((), ("x",), ("n",)):
            order: dict[str, Any] = {"sort_by": sort_by, "shuffle": not sort_by, "shards": 2}
            source = str(tmp_path / f"{name}.parquet")
            tfrec_cli.convert(source, str(tmp_path / "a"), name="d", overwrite=True, **order)
            for mean in (10.0, 1e5):
                monkeypatch.setattr("tfrec_cli.plan.record_sizes", lambda *_, m=mean: Sizes(m))
                taken = list[int]()
                monkeypatch.setattr("tfrec_cli.ordering.merge_cut", watched(taken))
                options = order | {"memory": 60_000, "jobs": 1, "overwrite": True, "force": True}
                tfrec_cli.convert(source, str(tmp_path / "b"), name="d", **options)
                monkeypatch.undo()
                assert max(taken) <= 15_000
                assert [p.read_bytes() for p in sorted((tmp_path / "a").glob("*.tfrecord-*"))] == [
                    p.read_bytes() for p in sorted((tmp_path / "b").glob("*.tfrecord-*"))
                ]


def watched(taken: list[int]) -> Any:
    """`merge_cut`, noting the bytes of records that it merges at a time."""

    def merge(runs: list[Run], cut: Cut) -> pa.RecordBatch | None:
        batch = merge_cut(runs, cut)
        taken.append(0 if batch is None else batch.nbytes)
        return batch

    return merge


def test_more_jobs_do_not_cut_a_large_dataset_into_ever_smaller_reads() -> None:
    for size in (2**30, 2**32, 2**34):
        budget = plan_memory(2**27, 64, size)
        reads = (size / budget.run) * (size / budget.segment)
        assert reads < 201_000 or budget.workers == 2
    assert plan_memory(2**32, 64, 2**30).workers == 64


def test_map_tasks_travel_and_may_run_twice(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "a.csv").write_text("n,c\n" + "".join(f"{n},{n % 3}\n" for n in range(400)))
    options = ConvertOptions(
        (str(tmp_path / "a.csv"),), str(tmp_path / "out"), shuffle=True, stratify="c",
        split="a=0.5,b=0.5", shards=1,
    )  # fmt: skip
    run = prepare(parse_dest(options.dest), options, SILENT)
    segments = plan_segments(run.plan, 4000, None)
    shared = MapWork(run.work, segments, str(tmp_path / "runs"), 3000, run.plan.mean_size)
    found = []
    for copy in (shared, pickle.loads(pickle.dumps(shared)), shared):
        pieces = pickle.loads(pickle.dumps(run.plan.pieces))
        receipts = [
            make_runs(copy, Room(0), (part,)) for p in pieces for part in cut_piece(copy, p)
        ]
        assert len(receipts) > 5
        assert sum(receipt.rows for receipt in receipts) == 400
        runs = [run for receipt in receipts for run in receipt.runs]
        assert len(list((tmp_path / "runs").iterdir())) == len(runs)
        found.append(merged(runs, segments))
    assert found[0] == found[1] == found[2]
    tfrec_cli.convert(
        options.sources, options.dest, shuffle=True, stratify="c", split=options.split
    )
    written = [p.read_bytes() for p in sorted((tmp_path / "out").glob("*.tfrecord-*"))]
    assert b"".join(found[0]) == b"".join(written)


@pytest.mark.parametrize("kind", [pa.uint64(), pa.large_binary()])
def test_calls_that_write_or_read_less_than_asked_are_made_again(
    tmp_path: Path, kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As systems do near a full disk, beyond 2 GiB, and on network disks."""
    writev, readv = os.writev, os.readv
    calls = {"writev": 0, "readv": 0}

    def some(buffers: list[memoryview]) -> list[memoryview]:
        """The first seven bytes, which end in the middle of a number or behind a buffer's end."""
        assert max(calls.values()) < 500
        found, left = [], 7
        for buffer in buffers:
            data = buffer.cast("B") if buffer.nbytes else memoryview(b"")
            found.append(data[:left])
            left -= len(found[-1])
        return found

    def short_writev(file: int, buffers: list[memoryview]) -> int:
        calls["writev"] += 1
        return writev(file, some(buffers))

    def short_readv(file: int, buffers: list[memoryview]) -> int:
        calls["readv"] += 1
        return readv(file, some(buffers))

    keys: list[Any] = (
        [n * 77 for n in range(9)] if kind == pa.uint64() else [b"k" * n for n in range(9)]
    )
    rows = [(n % 3, key, b"r%d" % n * (n % 4)) for n, key in enumerate(keys)]
    whole = typed_run(rows, kind, tmp_path / "whole")
    expected = merged([whole], Segments((2, 2, 2)))
    monkeypatch.setattr("os.writev", short_writev)
    monkeypatch.setattr("os.readv", short_readv)
    run = typed_run(rows, kind, tmp_path / "run")
    assert (tmp_path / "run").read_bytes() == (tmp_path / "whole").read_bytes()
    assert merged([run], Segments((2, 2, 2))) == expected
    assert min(calls.values()) > 20


def test_where_runs_lie() -> None:
    assert run_path("/x", "7") == "/x/run-7"
