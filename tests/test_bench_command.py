"""`tfrec bench` reads with all readers and says what that means. Rates are not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from test_kernel_examples import entry, example, ints, texts

import tfrec_cli
from tfrec_cli.errors import DamageError, DatasetError, UsageError
from tfrec_cli.records.framing import frame
from tfrec_cli.throughput import Benchmark, BenchOptions, measure
from tfrec_cli.throughput.measurement import _parallel, _steps
from tfrec_cli.throughput.rates import Rate


def bench(path: Path, tensorflow: bool = False, jobs: int = 3) -> Benchmark:
    return measure(BenchOptions(str(path), jobs, 0.02, tensorflow))


def readers(found: Benchmark) -> list[tuple[str, int]]:
    return [(rate.reader, rate.parallel) for rate in found.rates]


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_all_readers_for_one_and_more_parallel_reads(tmp_path: Path, compression: str) -> None:
    table = pa.table({"x": range(3000)})
    tfrec_cli.convert(table, tmp_path / "d", shards=2, compression=compression)
    found = bench(tmp_path / "d", tensorflow=True)
    own = [("records", 1), ("records", 2), ("columns", 1), ("columns", 2), ("columns", 3)]
    assert readers(found) == [*own, ("tf.data", 1), ("tf.data", 2)]
    assert all(rate.records > 0 and rate.bytes > 0 for rate in found.rates)
    assert (found.files, found.records, found.compression) == (2, 3000, compression)
    each = found.content_bytes / found.records
    assert all(abs(rate.bytes / rate.records - each) < 1 for rate in found.rates)


def test_records_that_are_no_examples_have_no_columns(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(b"no message") * 10)
    (tmp_path / "b.tfrecord").write_bytes(b"")
    assert readers(bench(tmp_path)) == [("records", 1)]


@pytest.mark.parametrize("odd", [b"no message", example(entry(b"x", texts(b"a")))])
def test_records_that_are_not_alike_have_no_columns(tmp_path: Path, odd: bytes) -> None:
    records = [*[example(entry(b"x", ints(n))) for n in range(9)], odd]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(frame, records)))
    assert readers(bench(tmp_path)) == [("records", 1)]


def test_compression_is_weighed_against_what_it_saves(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([b"text " * 2000] * 1500)})
    tfrec_cli.convert(table, tmp_path / "d", compression="gzip:1", shards=1)
    (line,) = [text for text in bench(tmp_path / "d").advice if text.startswith("GZIP")]
    assert "times smaller" in line
    assert "MB/s" in line


def test_what_more_files_at_a_time_bring() -> None:
    rates = [Rate("records", n, 1000 * n, 1000, 1.0) for n in (1, 2, 4)]
    rates += [Rate("tf.data", n, 1000 // n, 1000, 1.0) for n in (1, 2)]
    fast, slow = _parallel(rates)
    assert "4 files at a time are 4.0 times as fast" in fast
    assert "no faster than one" in slow
    assert [_steps(n) for n in (1, 2, 3, 8)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4, 8]]


def test_the_shards_are_judged(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"x": range(100)}), tmp_path / "d", shards=5)
    assert any("fewer shards" in text for text in bench(tmp_path / "d").advice)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="nothing is there"):
        bench(tmp_path / "nothing")
    (tmp_path / "a.tfrecord").write_bytes(b"")
    with pytest.raises(DatasetError, match="no records"):
        bench(tmp_path / "a.tfrecord")
    (tmp_path / "a.tfrecord").write_bytes(frame(b"x") + frame(b"y")[:-1])
    with pytest.raises(DamageError):
        bench(tmp_path / "a.tfrecord")
    with pytest.raises(UsageError):
        measure(BenchOptions(str(tmp_path), 1, 0))


def test_the_command(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"x": range(100)}), tmp_path / "d")
    command = [sys.executable, "-m", "tfrec_cli", "bench", "d", "--seconds", "0.02", "-j", "1"]
    command.append("--no-tensorflow")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    first, heading, *rest = done.stdout.splitlines()
    assert first.startswith("d: 100 records in 1 file, uncompressed, ")
    assert heading.split() == ["reader", "parallel", "records/s", "MB/s"]
    assert rest[0].startswith("tfrec, bytes of records")
    done = subprocess.run(
        [*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    document = json.loads(done.stdout)
    assert [rate["reader"] for rate in document["rates"]] == ["records", "columns"]
    assert document["rates"][0]["records_per_second"] > 0
