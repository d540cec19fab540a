"""Each compressor writes what every reader of the format reads, and the manifest says which."""

from __future__ import annotations

import gzip
import random
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import compression_of, read_manifest, read_records, shard_paths
from hypothesis import given
from hypothesis import strategies as st

import tfrec_cli
from tfrec_cli.dataset.manifest import Manifest
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.errors import UsageError
from tfrec_cli.options import DEFAULT_LEVELS, LEVELS, Compression
from tfrec_cli.records import compressors
from tfrec_cli.records.compression import BLOCK_SIZE, Container, compress_block
from tfrec_cli.records.compressors import compressor, is_installed
from tfrec_cli.records.framing import frame, sniff

pytest.importorskip("isal", reason="the extra `fast` is not installed")
pytest.importorskip("deflate", reason="the extra `fast` is not installed")

PAIRS = [
    *(("gzip", name) for name in ("zlib", "isal", "libdeflate")),
    *(("zlib", name) for name in ("zlib", "isal")),
]
ALL = [Compression(kind, level, name) for kind, name in PAIRS for level in LEVELS[name]]
TEXT = b"".join(b"%d,%d;" % (i, i * i % 977) for i in range(60_000))
NOISE = random.Random(1).randbytes(300_000)


def name_of(compression: Compression) -> str:
    return f"{compression.kind}:{compression.level}-{compression.compressor}"


def packed(blocks: list[bytes], compression: Compression) -> bytes:
    container = Container(compression)
    parts = [container.start()]
    parts += [bytes(container.add(compress_block(block, compression))) for block in blocks]
    return b"".join([*parts, container.finish()])


def unpacked(data: bytes, kind: str) -> bytes:
    return gzip.decompress(data) if kind == "gzip" else one_stream(data)


def one_stream(data: bytes) -> bytes:
    """The content of a ZLIB file that is one stream and no more."""
    stream = zlib.decompressobj()
    content = stream.decompress(data)
    assert stream.eof
    assert stream.unused_data == b""
    return content


@pytest.mark.parametrize("compression", ALL, ids=name_of)
@given(blocks=st.lists(st.binary(min_size=1, max_size=2000), max_size=4))
def test_blocks_come_back(compression: Compression, blocks: list[bytes]) -> None:
    assert unpacked(packed(blocks, compression), compression.kind) == b"".join(blocks)


@pytest.mark.parametrize("compression", ALL, ids=name_of)
def test_large_blocks_of_text_and_noise_come_back(compression: Compression) -> None:
    blocks = [TEXT, NOISE, b"\0" * 400_000]
    data = packed(blocks, compression)
    assert unpacked(data, compression.kind) == b"".join(blocks)
    assert sniff(data[:12]) == compression.kind


@pytest.mark.parametrize("compression", [c for c in ALL if c.kind == "gzip"], ids=name_of)
def test_members_have_neither_name_nor_time(compression: Compression) -> None:
    data = packed([b"a" * 100, b"b" * 100], compression)
    members = []
    while data:
        assert data[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
        member = zlib.decompressobj(wbits=31)
        members.append(member.decompress(data))
        assert member.eof
        data = member.unused_data
    assert members == [b"a" * 100, b"b" * 100]


@pytest.mark.parametrize("name", LEVELS)
def test_checksums_are_those_of_the_format(name: str) -> None:
    used = compressor(name)  # type: ignore[arg-type]
    for data in (b"", b"123456789", TEXT):
        assert used.crc32(data) == zlib.crc32(data)
        assert used.adler32(data) == zlib.adler32(data)


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_bytes_do_not_depend_on_cuts_or_threads(tmp_path: Path, kind: str, name: str) -> None:
    compression = Compression.parse(kind, name)  # type: ignore[arg-type]
    data = memoryview((TEXT * 12)[: 2 * BLOCK_SIZE + 5000])
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with ShardWriter(whole, compression) as writer:
        writer.write(data, 1)
    with ThreadPoolExecutor(3) as pool, ShardWriter(parts, compression, pool) as writer:
        for start in range(0, len(data), 999_983):
            writer.write(data[start : start + 999_983], 1)
    assert parts.read_bytes() == whole.read_bytes()
    assert unpacked(whole.read_bytes(), kind) == data


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_tensorflow_reads_every_record(tmp_path: Path, kind: str, name: str) -> None:
    import tensorflow as tf

    compression = Compression.parse(kind, name)  # type: ignore[arg-type]
    records = [TEXT[:size] for size in range(0, 360_000, 12_000)] + [NOISE]
    path = tmp_path / f"shard{compression.suffix}"
    with ShardWriter(path, compression) as writer:
        for record in records:
            writer.write(frame(record), 1)
    assert sum(map(len, records)) > BLOCK_SIZE
    dataset = tf.data.TFRecordDataset(str(path), compression_of(path))
    assert list(dataset.as_numpy_iterator()) == records


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_an_empty_shard_of_isal_has_no_records_for_tensorflow(tmp_path: Path, kind: str) -> None:
    import tensorflow as tf

    path = tmp_path / "shard"
    ShardWriter(path, Compression.parse(kind, "isal")).close()
    assert list(tf.data.TFRecordDataset(str(path), kind.upper())) == []


def test_higher_levels_are_smaller() -> None:
    for name in ("isal", "libdeflate"):
        sizes = [len(packed([TEXT], Compression("gzip", level, name))) for level in (1, 3)]  # type: ignore[arg-type]
        assert sizes[0] > sizes[1], name


def test_noise_grows_at_isal_level_0_only() -> None:
    for compression in ALL:
        grown = len(packed([NOISE], compression)) / len(NOISE)
        assert (grown > 1.01) == (compression.compressor == "isal" and compression.level == 0)


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_left_out_is_the_compressors_own(name: str) -> None:
    assert Compression.parse("gzip", name).level == DEFAULT_LEVELS[name]  # type: ignore[arg-type, index]
    low, high = LEVELS[name][0], LEVELS[name][-1]  # type: ignore[index]
    assert Compression.parse(f"gzip:{low}", name).level == low  # type: ignore[arg-type]
    assert Compression.parse(f"GZIP:{high}", name).level == high  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"{name} has no level {high + 1}.* {low} to {high}"):
        Compression.parse(f"gzip:{high + 1}", name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("zlib", "libdeflate", "whole streams only"),
        ("none", "isal", "nothing is compressed"),
        ("gzip", "izal", 'Did you mean "isal"'),
        ("gzip:fast", "isal", "level from 0 to 3"),
        ("gzip:", "zlib", "level from 0 to 9"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(text: str, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Compression.parse(text, name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["isal", "libdeflate"])
def test_an_absent_package_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in ("isal", "isal.isal_zlib", "deflate"):
        monkeypatch.setitem(sys.modules, module, None)
    compressors.compressor.cache_clear()
    assert not is_installed(name)  # type: ignore[arg-type]
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(UsageError, match=r"pip install 'tfrec-cli\[fast\]'"):
        tfrec_cli.convert(
            tmp_path / "a.csv",
            str(tmp_path / "out"),
            compression="gzip",
            compressor=name,  # type: ignore[arg-type]
        )
    assert not (tmp_path / "out").exists()
    compressors.compressor.cache_clear()


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_a_dataset_says_what_compressed_it(tmp_path: Path, kind: str, name: str) -> None:
    rows = "".join(f"{i},word {i % 7}\n" for i in range(500))
    (tmp_path / "a.csv").write_text("x,y\n" + rows)
    out = tmp_path / "out"
    manifest = tfrec_cli.convert(
        tmp_path / "a.csv",
        str(out),
        compression=f"{kind}:3",
        compressor=name,  # type: ignore[arg-type]
    )
    document = read_manifest(out)
    assert document["compression"] == {"kind": kind, "level": 3, "compressor": name}
    assert document["libraries"][name] == compressor(name).version  # type: ignore[arg-type]
    assert Manifest.from_json((out / "manifest.json").read_bytes()) == manifest
    plain = tmp_path / "plain"
    tfrec_cli.convert(tmp_path / "a.csv", str(plain))
    assert read_records(out) == read_records(plain)
    assert shard_paths(out)[0].endswith({"gzip": ".gz", "zlib": ".zz"}[kind])


def test_a_manifest_from_before_there_was_a_choice_is_zlibs() -> None:
    text = (
        '{"tfrec": {"format": 1, "version": "0.1.0"}, "name": "a", '
        '"compression": {"kind": "gzip", "level": 9}, "splits": []}'
    )
    assert Manifest.from_json(text).compression == Compression("gzip", 9, "zlib")


def test_the_suffix_of_one_file_goes_with_a_compressor(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    path = tmp_path / "a.tfrecord.gz"
    manifest = tfrec_cli.convert(tmp_path / "a.csv", str(path), compressor="isal")
    assert manifest.compression == Compression("gzip", DEFAULT_LEVELS["isal"], "isal")
    assert len(read_records(path)) == 2
    with pytest.raises(UsageError, match="nothing is compressed"):
        tfrec_cli.convert(tmp_path / "a.csv", str(tmp_path / "b"), compressor="isal")
    with pytest.raises(UsageError, match="whole streams only"):
        tfrec_cli.convert(
            tmp_path / "a.csv", str(tmp_path / "a.tfrecord.zz"), compressor="libdeflate"
        )
