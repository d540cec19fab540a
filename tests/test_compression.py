import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.options import Compression
from tfrec_cli.records.compression import (
    BLOCK_SIZE,
    Container,
    adler32_combine,
    compress_block,
)

kinds = st.sampled_from(["none", "gzip", "zlib"])


def packed(blocks, compression):
    container = Container(compression)
    parts = [container.start()]
    parts += [bytes(container.add(compress_block(block, compression))) for block in blocks]
    return b"".join([*parts, container.finish()])


def unpacked(data, kind):
    return {"none": bytes, "gzip": gzip.decompress, "zlib": zlib.decompress}[kind](data)


@given(st.lists(st.binary(min_size=1, max_size=2000), max_size=5), kinds, st.integers(0, 9))
def test_blocks_come_back_as_one_run_of_bytes(blocks, kind, level):
    data = packed(blocks, Compression(kind, level))
    assert unpacked(data, kind) == b"".join(blocks)


@given(st.binary(), st.binary())
def test_checksums_of_parts_give_that_of_the_whole(first, second):
    combined = adler32_combine(zlib.adler32(first), zlib.adler32(second), len(second))
    assert combined == zlib.adler32(first + second)


def test_checksums_combine_beyond_all_moduli():
    first, second = b"\xff" * 300_000, b"\xfe" * BLOCK_SIZE
    combined = adler32_combine(zlib.adler32(first), zlib.adler32(second), len(second))
    assert combined == zlib.adler32(first + second)


@pytest.mark.parametrize("level", range(10))
def test_zlib_is_one_stream_with_a_right_header(level):
    data = packed([b"a" * 1000, b"b" * 1000], Compression("zlib", level))
    stream = zlib.decompressobj()
    assert stream.decompress(data) == b"a" * 1000 + b"b" * 1000
    assert stream.eof
    assert stream.unused_data == b""
    assert data[:2] == zlib.compress(b"", level)[:2]


def test_gzip_members_have_neither_name_nor_time_and_are_never_empty():
    data = packed([b"a" * 100, b"b" * 100], Compression("gzip"))
    members = []
    while data:
        assert data[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
        member = zlib.decompressobj(wbits=31)
        members.append(member.decompress(data))
        assert member.eof
        data = member.unused_data
    assert members == [b"a" * 100, b"b" * 100]


@pytest.mark.parametrize("kind", ["none", "gzip", "zlib"])
def test_a_file_without_records_is_a_valid_one(kind):
    assert unpacked(packed([], Compression(kind)), kind) == b""


def test_the_level_counts():
    text = b"".join(b"%d," % (i * i) for i in range(20_000))
    assert len(packed([text], Compression("gzip", 9))) < len(packed([text], Compression("gzip", 1)))
