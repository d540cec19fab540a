import errno
import io
import os
import random
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import crc32c
import pytest

from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.errors import DatasetError
from tfrec_cli.options import Compression
from tfrec_cli.records.compression import BLOCK_SIZE
from tfrec_cli.records.framing import frame, read_records, sniff_file

KINDS = ["none", "gzip", "zlib"]


def many(count, size):
    source = random.Random(count)
    return [source.randbytes(8) * (size // 8) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_holds_what_was_written_and_says_so(tmp_path, kind):
    records = many(50, 4000)
    path = tmp_path / "shard"
    with ShardWriter(path, Compression(kind)) as writer:
        for record in records:
            writer.write(frame(record), 1)
        shard = writer.close()
    assert list(read_records(path)) == records
    assert sniff_file(path) == kind
    data = path.read_bytes()
    assert (shard.name, shard.records) == ("shard", 50)
    assert (shard.bytes, shard.crc32c) == (len(data), crc32c.crc32c(data))


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_depend_neither_on_the_calls_nor_on_threads(tmp_path, kind):
    data = b"".join(map(frame, many(3, BLOCK_SIZE - 1000)))
    compression = Compression(kind, 1)
    cuts = [[len(data)], [1, 2, BLOCK_SIZE, BLOCK_SIZE, 5], [BLOCK_SIZE + 1] * 3]
    written = set()
    with ThreadPoolExecutor(2) as pool:
        for number, sizes in enumerate(cuts):
            for executor in (None, pool):
                path = tmp_path / f"{number}{executor is None}"
                with ShardWriter(path, compression, executor, ahead=2) as writer:
                    at = 0
                    for size in [*sizes, len(data)]:
                        writer.write(memoryview(data)[at : at + size], 0)
                        at += size
                written.add(path.read_bytes())
    assert len(written) == 1
    assert len(list(read_records(path))) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_without_records_is_a_valid_file(tmp_path, kind):
    shard = ShardWriter(tmp_path / "s", Compression(kind)).close()
    assert (shard.records, list(read_records(tmp_path / "s"))) == (0, [])
    assert shard.bytes == (tmp_path / "s").stat().st_size


def test_standard_output_is_left_open():
    stream = io.BytesIO()
    shard = ShardWriter(stream, Compression("gzip")).close()
    assert (shard.name, shard.bytes) == ("-", len(stream.getvalue()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("records", [0, 2])
def test_a_stream_ends_once(tmp_path, kind, records):
    """TensorFlow reads nothing behind a ZLIB stream or an empty GZIP member."""
    stream = io.BytesIO()
    with ShardWriter(stream, Compression(kind)) as writer:
        for record in many(records, 80):
            writer.write(frame(record), 1)
        shard = writer.close()
        assert writer.close() == shard
    (tmp_path / "s").write_bytes(stream.getvalue())
    assert list(read_records(tmp_path / "s")) == many(records, 80)
    with ShardWriter(tmp_path / "t", Compression(kind)) as writer:
        for record in many(records, 80):
            writer.write(frame(record), 1)
    assert stream.getvalue() == (tmp_path / "t").read_bytes()
    assert shard.bytes == len(stream.getvalue())


def test_a_closed_pipe_is_told_as_such():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as stream:
        writer = ShardWriter(stream, Compression())
        with pytest.raises(BrokenPipeError):
            writer.write(frame(bytes(2**20)), 1)


def test_an_error_in_the_block_gives_up_at_once(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        writer = ShardWriter(tmp_path / "s", Compression("zlib"), pool)
        with suppress(RuntimeError), writer:
            writer.write(bytes(3 * BLOCK_SIZE), 1)
            raise RuntimeError
    with pytest.raises(ValueError, match="closed"):
        writer.close()


def test_a_file_that_is_there_is_not_written_over(tmp_path):
    (tmp_path / "s").write_text("mine")
    with pytest.raises(DatasetError):
        ShardWriter(tmp_path / "s", Compression())
    assert (tmp_path / "s").read_text() == "mine"


def test_a_refused_write_is_one_clear_line(tmp_path):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with (
            pytest.raises(DatasetError, match=r"^out: s cannot be written: the file would"),
            ShardWriter(tmp_path / "s", Compression(), shown="out: s") as writer,
        ):
            writer.write(bytes(3_000_000), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_failing_sync_is_a_failing_shard(tmp_path, monkeypatch):
    def fail(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    writer = ShardWriter(tmp_path / "s", Compression())
    with pytest.raises(DatasetError, match="disk is full"):
        writer.close()
