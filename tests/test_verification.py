"""Every kind of damage is found, and named where it is; what is sound passes."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfrec_cli
from tfrec_cli import _kernel
from tfrec_cli._kernel import FeatureColumn
from tfrec_cli.errors import DamageError, DatasetError, SchemaError, UsageError
from tfrec_cli.reading.targets import Target
from tfrec_cli.records.framing import frame
from tfrec_cli.verification import Report, VerifyOptions, verify
from tfrec_cli.verification.files import check_file

PACK: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zlib": zlib.compress,
}


def examples(**columns: Any) -> list[bytes]:
    """Serialized Examples: a column is a list of values, or an Arrow array."""
    arrays = {k: v if isinstance(v, pa.Array) else pa.array(v) for k, v in columns.items()}
    arrays = {
        k: a.cast(pa.float32()) if pa.types.is_float64(a.type) else a for k, a in arrays.items()
    }
    arrays = {
        k: a.cast(pa.binary()) if pa.types.is_string(a.type) else a for k, a in arrays.items()
    }
    encoded = _kernel.encode([FeatureColumn(k, a) for k, a in arrays.items()])
    starts, data = [0, *encoded.ends.tolist()], bytes(encoded.data)
    return [data[a + 12 : b - 4] for a, b in itertools.pairwise(starts)]


def framed(records: list[bytes]) -> bytes:
    return b"".join(map(frame, records))


RECORDS = examples(x=[1, 2, 3, 4], name=["a", "bb", "", "dddd"])
PLAIN = framed(RECORDS)
ENDS = np.cumsum([len(frame(record)) for record in RECORDS]).tolist()
STARTS = [0, *ENDS[:-1]]


def run(*paths: Path | str, **options: Any) -> Report:
    return verify(VerifyOptions(tuple(map(str, paths)), **options))


def look(path: Path, data: bytes, **options: Any) -> Report:
    path.write_bytes(data)
    return run(path, **options)


def kinds(report: Report) -> list[str]:
    return [finding.kind for finding in report.findings]


def places(report: Report) -> list[tuple[str, int | None, int | None]]:
    return [(f.kind, f.record, f.offset) for f in report.findings]


def flipped(data: bytes, at: int, bits: int = 0x10) -> bytes:
    changed = bytearray(data)
    changed[at] ^= bits
    return bytes(changed)


def record_at(offset: int) -> int:
    return sum(offset >= end for end in ENDS)


# What is sound


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("name", ["a.tfrecord", "a", "part-r-00000"])
def test_sound_files_pass_whatever_they_are_called(tmp_path: Path, kind: str, name: str) -> None:
    report = look(tmp_path / name, PACK[kind](PLAIN))
    assert (report.findings, report.exit_code) == ((), 0)
    (file,) = report.files
    assert (file.records, file.examples, file.compression) == (4, 4, kind)
    assert file.content_bytes == len(PLAIN)
    assert len(report.notices) == (kind != "none")


def test_gzip_members_are_one_file(tmp_path: Path) -> None:
    named = tmp_path / "named"
    named.write_bytes(PLAIN[: ENDS[1] + 5])
    with gzip.open(tmp_path / "name.gz", "wb") as file:  # a header with name and time
        file.write(PLAIN[: ENDS[1] + 5])
    data = (tmp_path / "name.gz").read_bytes() + gzip.compress(PLAIN[ENDS[1] + 5 :])
    report = look(tmp_path / "x.tfrecord.gz", data + gzip.compress(b""))
    assert (report.findings, report.records, report.notices) == ((), 4, ())


def test_files_without_records_pass(tmp_path: Path) -> None:
    for name, data in (("a", b""), ("b.gz", gzip.compress(b"")), ("c.zz", zlib.compress(b""))):
        assert look(tmp_path / name, data).findings == ()


def test_payloads_that_are_no_example_are_named_once(tmp_path: Path) -> None:
    data = framed([b"\xff not protobuf", *RECORDS, b"\x0b"])
    report = look(tmp_path / "a.tfrecord", data)
    assert (report.findings, report.records) == ((), 6)
    (notice,) = report.notices
    assert "2 of 6 records are no tf.train.Example" in notice
    (notice,) = look(tmp_path / "b.tfrecord", framed([b"a"])).notices
    assert "1 of 1 record is no tf.train.Example" in notice
    assert "record 0" in notice


def test_sequence_examples_are_named(tmp_path: Path) -> None:
    report = look(tmp_path / "a.tfrecord", framed([RECORDS[0], RECORDS[1] + b"\x12\x00"]))
    assert report.findings == ()
    assert "1 of 2 records is tf.train.SequenceExample" in report.notices[0]


# Damage to records


def test_every_flipped_byte_of_a_plain_file_is_found_and_placed(tmp_path: Path) -> None:
    for at in range(len(PLAIN)):
        for bits in (1, 0x80):
            report = look(tmp_path / "a.tfrecord", flipped(PLAIN, at, bits))
            number = record_at(at)
            kind = "length checksum" if at - STARTS[number] < 12 else "data checksum"
            assert places(report) == [(kind, number, STARTS[number])]
            assert report.records == (number if kind == "length checksum" else 3)
            assert report.exit_code == 3


def test_every_cut_of_a_plain_file_is_found_and_placed(tmp_path: Path) -> None:
    for cut in range(len(PLAIN)):
        report = look(tmp_path / "a.tfrecord", PLAIN[:cut])
        number = record_at(cut)
        expected = [] if cut in (0, *ENDS) else [("truncated", number, STARTS[number])]
        assert (places(report), report.records) == (expected, number)
        if expected:
            silent = cut - STARTS[number] < 12
            said = "without an error" if silent else f"truncated record at {STARTS[number]}"
            assert said in report.findings[0].tensorflow


def test_many_bad_records_are_all_found(tmp_path: Path) -> None:
    data = framed(RECORDS * 100)
    for start in range(0, len(data), ENDS[-1]):
        data = flipped(data, start + 13)
    report = look(tmp_path / "a.tfrecord", data)
    assert kinds(report) == ["data checksum"] * 100
    assert report.records == 300
    assert [f.record for f in report.findings] == list(range(0, 400, 4))


def test_findings_of_one_kind_are_counted_beyond_a_limit(tmp_path: Path) -> None:
    data = b"".join(flipped(frame(b"x"), 12) for _ in range(150))
    report = look(tmp_path / "a.tfrecord", data)
    assert len(report.findings) == 101
    assert report.findings[-1].records == 50


def test_a_length_no_file_can_have(tmp_path: Path) -> None:
    length = (2**63).to_bytes(8, "little")
    header = length + _kernel.masked_crc32c(length).to_bytes(4, "little")
    report = look(tmp_path / "a.tfrecord", PLAIN + header + bytes(20))
    assert places(report) == [("length", 4, len(PLAIN))]


def test_records_too_long_to_hold_are_checked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kernel, "MAX_RECORD_BYTES", 1000)
    giant = bytes(range(256)) * 20
    data = framed([b"", giant]) + PLAIN
    path = tmp_path / "a.tfrecord"
    for block in (64, 700, 4096):
        path.write_bytes(data)
        report = check_in_blocks(path, block)
        if block < len(giant):
            assert [(f.kind, f.record, f.offset) for f in report.findings] == [("too large", 1, 16)]
        assert report.total == 6
        path.write_bytes(flipped(data, 1000))
        report = check_in_blocks(path, block)
        assert [(f.kind, f.record) for f in report.findings] == [("data checksum", 1)]
        path.write_bytes(data[:2000])
        report = check_in_blocks(path, block)
        assert [(f.kind, f.record) for f in report.findings] == [("truncated", 1)]


@pytest.mark.parametrize("data", [examples(x=["x" * (48 << 20)])[0], b"\xff" * (48 << 20)])
def test_a_large_record_is_in_memory_once(tmp_path: Path, data: bytes) -> None:
    """The reference takes parts of a record out of it, and so has it twice."""
    (tmp_path / "a").write_bytes(frame(data))
    most = len(data) * (1 if _kernel.BODY == "native" else 2)
    tracemalloc.start()
    try:
        assert run(tmp_path / "a").records == 1
        assert tracemalloc.get_traced_memory()[1] < most + (16 << 20)
    finally:
        tracemalloc.stop()


def check_in_blocks(path: Path, block: int) -> Any:
    return check_file(Target(str(path)), None, (), threading.Event(), block)


@given(
    records=st.lists(st.sampled_from(RECORDS) | st.binary(max_size=200), max_size=12),
    flips=st.lists(st.integers(0, 10_000), max_size=2),
    block=st.integers(1, 500),
    kind=st.sampled_from(list(PACK)),
)
def test_blocks_of_any_size_find_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[bytes], flips: list[int], block: int, kind: str,
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("blocks") / "a"
    data = PACK[kind](framed(records))
    for at in flips:
        data = flipped(data, at % len(data)) if data else data
    path.write_bytes(data)
    small, large = check_in_blocks(path, block), check_in_blocks(path, 1 << 20)
    assert small.summary == large.summary
    assert small.findings == large.findings
    assert small.tally.keys == large.tally.keys
    assert (small.tally.facts == large.tally.facts).all()
    assert (small.tally.places == large.tally.places).all()


# Damage to the compression around them


def test_every_flipped_byte_of_a_gzip_file_is_found(tmp_path: Path) -> None:
    data = PACK["gzip"](PLAIN)
    harmless = range(4, 10)  # time, level and system, which nothing protects and nobody reads
    for at in range(len(data)):
        report = look(tmp_path / "a.tfrecord.gz", flipped(data, at, 0x40))
        if at in harmless:
            assert (report.findings, report.records) == ((), 4)
            continue
        first = report.findings[0]
        assert report.exit_code == 3
        assert first.record is not None
        if at < 3:
            assert first.kind == "compression"
        elif at == 3:
            assert (first.kind, first.record) == ("header", 0)
        elif at >= len(data) - 8:
            assert places(report) == [("trailer", 4, len(PLAIN))]
            assert report.records == 4


def test_every_flipped_byte_of_a_zlib_file_is_found(tmp_path: Path) -> None:
    data = zlib.compress(PLAIN)
    for at in range(len(data)):
        report = look(tmp_path / "a.tfrecord.zz", flipped(data, at, 0x40))
        assert report.exit_code == 3, at
        assert report.findings[0].record is not None
        if at >= len(data) - 4:
            assert places(report) == [("trailer", 4, len(PLAIN))]


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_every_cut_of_a_compressed_file_is_found_and_placed(tmp_path: Path, kind: str) -> None:
    data = PACK[kind](PLAIN)
    header, trailer = (10, 8) if kind == "gzip" else (2, 4)
    for cut in range(1, len(data)):
        report = look(tmp_path / ("a.gz" if kind == "gzip" else "a.zz"), data[:cut])
        (first, *_) = report.findings
        body = data[header : max(header, min(cut, len(data) - trailer))]
        inflated = len(zlib.decompressobj(-15).decompress(body))
        number = record_at(inflated) if inflated < len(PLAIN) else 4
        assert (first.record, report.records) == (number, number), cut
        if cut >= len(data) - trailer:
            assert first.kind == "trailer"
        elif cut > header:
            assert places(report) == [("truncated", number, [*STARTS, len(PLAIN)][number])]


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_records_before_a_fault_in_compressed_data_are_read(tmp_path: Path, kind: str) -> None:
    records = [np.random.default_rng(i).bytes(100) for i in range(5000)]
    data = bytearray(PACK[kind](framed(records)))
    middle = len(data) // 2
    data[middle : middle + 2000] = b"\xff" * 2000
    report = look(tmp_path / "a", bytes(data))
    first = report.findings[0]
    assert first.record is not None
    assert 2000 < report.records <= first.record + 1 < 3000


def test_damage_inside_a_sound_container_is_placed(tmp_path: Path) -> None:
    for kind in ("gzip", "zlib"):
        report = look(tmp_path / "a", PACK[kind](flipped(PLAIN, STARTS[2] + 12)))
        assert places(report) == [("data checksum", 2, STARTS[2])]
        assert f"corrupted record at {STARTS[2] + 12}" in report.findings[0].tensorflow
        assert "decompressed byte" in str(report.findings[0])


@pytest.mark.parametrize("after", [b"\0" * 20, b"junk", b"\x1f\x8c", b"\x00"])
def test_what_follows_the_members_is_found(tmp_path: Path, after: bytes) -> None:
    report = look(tmp_path / "a.gz", PACK["gzip"](PLAIN) + after)
    assert places(report) == [("trailing data", 4, len(PLAIN))]
    assert f"{len(after)} byte{'s' * (len(after) > 1)} behind" in report.findings[0].text
    assert ("zero" in report.findings[0].text) == (not after.strip(b"\0"))


def test_empty_members_before_others_are_found(tmp_path: Path) -> None:
    first, rest, empty = (gzip.compress(d) for d in (PLAIN[: ENDS[0]], PLAIN[ENDS[0] :], b""))
    assert places(look(tmp_path / "a.gz", first + empty + rest)) == [("empty member", 1, ENDS[0])]
    assert places(look(tmp_path / "b.gz", empty + first + rest)) == [("empty member", 0, 0)]
    assert places(look(tmp_path / "c.gz", first + rest + empty)) == []


TEXT = framed(examples(x=range(20000)))


@pytest.mark.parametrize(
    ("kind", "parts", "wrong"),
    [
        ("empty member", [PLAIN, b"", b"", TEXT], {}),
        ("empty member", [b"", PLAIN], {}),
        ("header", [PLAIN, PLAIN], {2: 0}),
        ("trailer", [PLAIN, PLAIN], {-5: 0}),
        ("trailer", [PLAIN, PLAIN], {-1: 0xFF}),
    ],
)
def test_what_is_around_the_records_has_its_place(
    tmp_path: Path, kind: str, parts: list[bytes], wrong: dict[int, int]
) -> None:
    """The place is that of the second member, where the first is not the empty one."""
    members = [bytearray(gzip.compress(part)) for part in parts]
    for at, byte in wrong.items():
        members[1][at] = byte
    begin = len(members[0]) if parts[0] else 0
    if kind == "trailer":
        begin += len(members[1]) - 8
    (finding,) = look(tmp_path / "a.gz", b"".join(members)).findings
    assert finding.kind == kind
    assert f"(byte {begin:,} of the file)" in finding.text


def test_the_place_of_a_zlib_trailer(tmp_path: Path) -> None:
    data = zlib.compress(PLAIN)
    for end in (flipped(data[-4:], 3), data[-4:-2]):
        (finding,) = look(tmp_path / "a.zz", data[:-4] + end).findings
        assert f"(byte {len(data) - 4:,} of the file)" in finding.text


@pytest.mark.parametrize(("suffix", "bits"), [("gz", 31), ("zz", 15)])
@pytest.mark.parametrize("count", [1, 1000, 20000])
def test_compressed_data_is_wrong_where_it_cannot_be_inflated(
    tmp_path: Path, suffix: str, bits: int, count: int
) -> None:
    pack = zlib.compressobj(wbits=bits)
    data = pack.compress(TEXT[: 44 * count]) + pack.flush(zlib.Z_FULL_FLUSH)
    (finding, *_) = look(tmp_path / f"a.{suffix}", data + b"\xff" * 70_000).findings
    assert finding.kind == "compressed data"
    (place,) = re.findall(r"\(byte ([\d,]+) of the file\)", finding.text)
    assert len(data) - 8 <= int(place.replace(",", "")) <= len(data) + 1


def test_a_second_zlib_stream_is_found(tmp_path: Path) -> None:
    data = zlib.compress(PLAIN[: ENDS[1]]) + zlib.compress(PLAIN[ENDS[1] :])
    report = look(tmp_path / "a.zz", data)
    assert places(report) == [("trailing data", 2, ENDS[1])]
    assert "second ZLIB stream" in report.findings[0].text


def test_names_that_promise_another_compression_are_found(tmp_path: Path) -> None:
    for name, kind in (("a.gz", "none"), ("a.gz", "zlib"), ("a.zz", "gzip"), ("a.zlib", "none")):
        report = look(tmp_path / name, PACK[kind](PLAIN))
        assert places(report) == [("compression", 0, 0)]
        assert report.records == 4


def test_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    report = look(tmp_path / "a.tfrecord", b"id,name\n1,Ada\n2,Bo\n")
    assert places(report) == [("length checksum", 0, 0)]
    assert "Is this even a TFRecord file" in report.findings[0].tensorflow


def test_a_damaged_length_that_looks_like_zlib_is_a_damaged_length(tmp_path: Path) -> None:
    data = framed([bytes(0x178), b"more"])
    assert data[:2] == b"\x78\x01"
    assert places(look(tmp_path / "a.tfrecord", flipped(data, 9))) == [("length checksum", 0, 0)]


# Features


def test_one_kind_over_the_whole_dataset(tmp_path: Path) -> None:
    (tmp_path / "a-00000-of-00002").write_bytes(framed(examples(x=[1, 2, 3])))
    (tmp_path / "a-00001-of-00002").write_bytes(framed([*examples(x=[4]), *examples(x=[0.5])]))
    (finding,) = run(tmp_path).findings
    assert (finding.kind, finding.feature, finding.records) == ("kind", "x", 1)
    assert finding.file.endswith("a-00001-of-00002")
    assert (finding.record, finding.offset) == (1, len(frame(examples(x=[4])[0])))
    assert "float in 1 record, but int64 in 4" in finding.text


def test_a_feature_twice_in_a_record_is_found(tmp_path: Path) -> None:
    records = [RECORDS[0], RECORDS[1] + RECORDS[2]]
    report = look(tmp_path / "a", framed(records))
    assert {(f.kind, f.feature, f.record) for f in report.findings} == {
        ("repeated feature", "x", 1),
        ("repeated feature", "name", 1),
    }


SCHEMA = """
version: 1
features:
  x: int64
  v: {type: float, separator: " ", shape: [3]}
  y: {type: int64, missing: omit}
  label: {labels: [a, b, c], unknown: {default: -5}}
"""


def vectors(values: list[list[float]]) -> pa.Array:
    return pa.array(values, pa.list_(pa.float32()))


def schema_file(folder: Path, text: str = SCHEMA) -> str:
    (folder / "s.yaml").write_text(text)
    return str(folder / "s.yaml")


GOOD = {"x": [1, 2], "v": vectors([[1, 2, 3], [4, 5, 6]]), "y": [None, 7], "label": [2, -5]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"x": [1.5, 2.5]}, [("kind", "x", 0)]),
        ({"x": [1, None]}, [("presence", "x", 1)]),
        ({"x": None}, [("presence", "x", 0)]),
        ({"y": None}, []),
        ({"v": vectors([[1, 2, 3], [4, 5]])}, [("shape", "v", 1)]),
        ({"v": vectors([[1, 2, 3], []])}, [("shape", "v", 1)]),
        ({"v": pa.array([[b"a"] * 3, [b"a"] * 2])}, [("kind", "v", 0)]),
        ({"label": [0, 3]}, [("label", "label", 1)]),
        ({"label": [-5, -1]}, [("label", "label", 1)]),
        ({"z": [None, 1]}, [("unknown feature", "z", 1)]),
    ],
)
def test_features_are_held_to_a_schema(
    tmp_path: Path, change: dict[str, Any], expected: list[Any]
) -> None:
    columns = {k: v for k, v in (GOOD | change).items() if v is not None}
    path = tmp_path / "a.tfrecord"
    path.write_bytes(framed(examples(**columns)))
    report = run(path, schema=schema_file(tmp_path))
    assert [(f.kind, f.feature, f.record) for f in report.findings] == expected
    for finding in report.findings:
        assert finding.offset == (0, len(frame(examples(**columns)[0])))[finding.record or 0]


def test_scalars_of_tables_have_one_value(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(framed(examples(x=[[1], [1, 2]])))
    schema = "version: 1\nsource: {name: csv}\nfeatures: {x: int64}\n"
    assert places(run(path, schema=schema_file(tmp_path, schema)))[0][:2] == ("shape", 1)
    assert (
        run(path, schema=schema_file(tmp_path, "version: 1\nfeatures: {x: int64}\n")).findings == ()
    )


def test_a_feature_without_a_kind_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(framed([b"\n\x07\n\x05\n\x01x\x12\x00"]))
    assert run(path).findings == ()
    schema = schema_file(tmp_path, "version: 1\nfeatures: {x: int64}\n")
    assert [(f.kind, f.records) for f in run(path, schema=schema).findings] == [("presence", 1)]


def test_with_a_schema_every_record_is_an_example(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(framed([b"\xff", *examples(x=[1]), b"\xff"]))
    schema = schema_file(tmp_path, "version: 1\nfeatures: {x: int64}\n")
    (finding,) = run(path, schema=schema).findings
    assert (finding.kind, finding.record, finding.records) == ("not an Example", 0, 2)


def test_a_wrong_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(PLAIN)
    with pytest.raises(SchemaError, match="int46"):
        run(tmp_path / "a", schema=schema_file(tmp_path, "version: 1\nfeatures: {x: int46}\n"))


# Datasets and their manifests


@pytest.fixture(params=["none", "gzip", "zlib"])
def dataset(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    frame_ = pa.table({"x": range(30), "s": ["abc"] * 29 + [None], "v": [[1.5, 2.5]] * 30})
    tfrec_cli.convert(frame_, str(tmp_path / "d"), shards=3, compression=request.param)
    return tmp_path / "d"


def shards(dataset: Path) -> list[Path]:
    return sorted(dataset.glob("*.tfrecord-*"))


def test_a_dataset_as_it_was_written_passes(dataset: Path) -> None:
    report = run(dataset)
    assert (report.findings, report.notices, report.records) == ((), (), 30)
    assert report.datasets[0].schema == "manifest"
    assert run(*shards(dataset)).findings == ()
    assert run(str(dataset / "*.tfrecord-*")).datasets[0].files == 3
    assert run(*dataset.iterdir()).findings == ()
    assert run(dataset, schema=str(dataset / "schema.yaml")).findings == ()


def test_missing_and_extra_shards_are_found(dataset: Path) -> None:
    first, second, third = shards(dataset)
    third.rename(dataset / "more.tfrecord")
    assert [(f.kind, Path(f.file)) for f in run(dataset).findings] == [
        ("missing shard", third),
        ("extra shard", dataset / "more.tfrecord"),
    ]
    assert run(first, second).findings == ()
    assert kinds(run(first, third)) == ["missing shard"]


def test_a_shard_cut_between_records_is_found(dataset: Path) -> None:
    path = shards(dataset)[1]
    (finding, *_) = look_at_cut(path, dataset)
    assert finding.kind in ("record count", "truncated", "trailer")
    assert Path(finding.file) == path


def look_at_cut(path: Path, dataset: Path) -> list[Any]:
    data = path.read_bytes()
    plain = {"": bytes, ".gz": gzip.decompress, ".zz": zlib.decompress}[
        path.suffix if path.suffix in (".gz", ".zz") else ""
    ](data)
    pack = {"": "none", ".gz": "gzip", ".zz": "zlib"}
    kept = int(_kernel.scan(plain).ends[-2])
    path.write_bytes(PACK[pack.get(path.suffix, "none")](plain[:kept]))
    findings = list(run(dataset).findings)
    assert findings[0].kind == "record count"
    assert findings[0].records == 1
    return findings


def test_emptied_shards_are_found(dataset: Path) -> None:
    path = shards(dataset)[0]
    path.write_bytes(b"")
    assert kinds(run(dataset)) == ["record count", "file size"]


def test_swapped_shards_are_found(tmp_path: Path) -> None:
    dest = tmp_path / "d"
    tfrec_cli.convert(pa.table({"x": range(30)}), str(dest), shards=3)
    first, second, _ = shards(dest)
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    assert [(f.kind, Path(f.file)) for f in run(dest).findings] == [
        ("swapped shards", first),
        ("swapped shards", second),
    ]


def test_other_sound_records_are_found(tmp_path: Path) -> None:
    dest = tmp_path / "d"
    tfrec_cli.convert(pa.table({"x": [1, 2, 3]}), str(dest))
    (path,) = shards(dest)
    path.write_bytes(framed(examples(x=[1, 2, 4])))
    assert kinds(run(dest)) == ["file checksum"]


def test_every_flipped_byte_of_a_shard_is_found(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"x": [1, 2]}), str(tmp_path / "d"), compression="gzip")
    (path,) = shards(tmp_path / "d")
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(flipped(data, at))
        assert run(tmp_path / "d").exit_code == 3, at


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_every_cut_of_a_shard_is_found(tmp_path: Path, compression: str) -> None:
    tfrec_cli.convert(pa.table({"x": [1, 2]}), str(tmp_path / "d"), compression=compression)
    (path,) = shards(tmp_path / "d")
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert run(tmp_path / "d").exit_code == 3, size


def test_recompressed_shards_are_found(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"x": [1, 2]}), str(tmp_path / "d"))
    (path,) = shards(tmp_path / "d")
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert kinds(run(tmp_path / "d")) == ["compression", "file size"]


def test_side_files_are_compared(dataset: Path) -> None:
    (dataset / "schema.yaml").write_text("version: 1\nfeatures: {x: int64}\n")
    assert [(f.kind, Path(f.file).name) for f in run(dataset).findings] == [
        ("side file", "schema.yaml")
    ]
    (dataset / "schema.yaml").unlink()
    assert kinds(run(dataset)) == ["side file"]


def test_a_damaged_manifest_is_a_finding(dataset: Path) -> None:
    manifest = dataset / "manifest.json"
    manifest.write_text(manifest.read_text()[:-20])
    report = run(dataset)
    assert kinds(report) == ["manifest"]
    assert report.records == 30


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{}", "null", '{"name": "x"}', "\xff", "[" * 10**5]
)
def test_a_manifest_of_any_other_content_is_a_finding(dataset: Path, text: str) -> None:
    (dataset / "manifest.json").write_text(text, "latin-1")
    report = run(dataset)
    assert kinds(report) == ["manifest"]
    assert "manifest.json" in str(report.findings[0])


def test_a_single_file_whose_manifest_is_emptied(tmp_path: Path) -> None:
    dest = tmp_path / "one.tfrecord"
    tfrec_cli.convert(pa.table({"x": [1, 2]}), dest)
    (manifest,) = tmp_path.rglob("manifest.json")
    manifest.write_bytes(b"")
    assert kinds(run(dest)) == ["manifest"]


def test_what_others_call_a_manifest_is_theirs(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(PLAIN)
    (tmp_path / "manifest.json").write_text('[{"file": "a.tfrecord"}]')
    report = run(tmp_path)
    assert kinds(report) == []
    assert report.notices == ()


def test_a_schema_without_its_manifest_is_noted(dataset: Path) -> None:
    (dataset / "manifest.json").unlink()
    report = run(dataset)
    assert kinds(report) == []
    (notice,) = report.notices
    assert "no manifest.json" in notice


def test_features_are_held_to_the_manifest(tmp_path: Path) -> None:
    dest = tmp_path / "d"
    tfrec_cli.convert(pa.table({"x": [1, 2, 3]}), str(dest))
    (path,) = shards(dest)
    path.write_bytes(framed(examples(x=[1, 2], y=[1, 1])))
    assert kinds(run(dest)) == ["unknown feature", "record count", "file size"]


def test_labels_with_defaults_beside_them_pass(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('c\na\nb\n?!\n\n""\na\n')
    schema = {
        "features": {
            "c": {"labels": ["a", "b"], "unknown": {"default": -9}, "missing": {"default": 77}}
        }
    }
    tfrec_cli.convert(str(tmp_path / "t.csv"), str(tmp_path / "d"), schema=schema)
    assert run(tmp_path / "d").findings == ()


def test_lists_of_every_form_pass(tmp_path: Path) -> None:
    nested = pa.array([[[1], [2, 3]], [], [[]]], pa.list_(pa.list_(pa.int64())))
    table = pa.table(
        {
            "n": nested,
            "r": pa.array([[1.5], [], None], pa.list_(pa.float32())),
            "f": pa.array([[1, 2]] * 3, pa.list_(pa.int64(), 2)),
            "s": pa.array([{"a": 1, "b": "x"}] * 3),
            "t": pa.array([1, 2, None], pa.timestamp("us")),
        }
    )
    tfrec_cli.convert(table, str(tmp_path / "d"), verify=True)
    assert run(tmp_path / "d").findings == ()
    schema = tmp_path / "d" / "schema.yaml"
    assert run(tmp_path / "d", schema=str(schema)).findings == ()


def test_single_files_have_manifests_too(tmp_path: Path) -> None:
    dest = tmp_path / "one.tfrecord"
    tfrec_cli.convert(pa.table({"x": [1, 2, 3]}), str(dest))
    assert run(dest).datasets[0].manifest
    dest.write_bytes(framed(examples(x=[1, 2])))
    assert kinds(run(dest)) == ["record count", "file size"]
    dest.unlink()
    assert kinds(run(dest)) == ["missing shard"]


def test_numbers_in_names_tell_of_missing_shards(tmp_path: Path) -> None:
    for number in (0, 2):
        (tmp_path / f"train-{number:05d}-of-00004").write_bytes(PLAIN)
    assert [(f.kind, Path(f.file).name) for f in run(tmp_path).findings] == [
        ("missing shard", "train-00001-of-00004"),
        ("missing shard", "train-00003-of-00004"),
    ]


def found_in(report: Report) -> list[tuple[str, str]]:
    return [(finding.kind, Path(finding.file).name) for finding in report.findings]


def test_single_files_have_their_manifests_in_folders_too(tmp_path: Path) -> None:
    for name in ("a-train.tfrecord", "a-test.tfrecord"):
        tfrec_cli.convert(pa.table({"x": [1, 2, 3]}), str(tmp_path / name))
    (tmp_path / "other.tfrecord").write_bytes(PLAIN)
    report = run(tmp_path)
    assert [(one.manifest, one.files) for one in report.datasets] == [(1, 1), (1, 1), (0, 1)]
    assert (report.findings, report.records) == ((), 10)
    (tmp_path / "a-train.tfrecord").write_bytes(framed(examples(x=[1, 2])))
    assert kinds(run(tmp_path)) == ["record count", "file size"]
    assert run(tmp_path, tmp_path / "a-train.tfrecord") == run(tmp_path)
    (tmp_path / "a-train.tfrecord").unlink()
    assert found_in(run(tmp_path)) == [("missing shard", "a-train.tfrecord")]
    manifest = tmp_path / ".a-test-tfrecord.tfrec.d" / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"x"', "x"))
    assert set(found_in(run(tmp_path))) == {
        ("missing shard", "a-train.tfrecord"), ("manifest", "manifest.json"),
    }  # fmt: skip


def test_patterns_and_lists_tell_of_missing_and_extra_shards(tmp_path: Path) -> None:
    dest = tmp_path / "d"
    tfrec_cli.convert(pa.table({"x": range(30)}), str(dest), shards=4)
    first, second, third, fourth = shards(dest)
    second.rename(dest / "d-train.tfrecord-00004-of-00004")
    (dest / "notes.txt").write_text("no records")
    lost = ("missing shard", second.name)
    more = ("extra shard", "d-train.tfrecord-00004-of-00004")
    assert found_in(run(dest)) == [lost, more]
    for pattern in ("*", "d-train*"):
        report = run(str(dest / pattern))
        assert (found_in(report), report.notices) == ([lost, more], ())
        assert [one.files for one in report.datasets] == [4]
    report = run(str(dest / "*-0000[1-2]-*"))
    assert found_in(report) == [lost]
    assert report.notices == (f"{third}: 2 of 4 shards were named",)
    report = run(*dest.glob("*-of-00004"))
    assert found_in(report) == [more]
    assert len(report.notices) == 1
    assert "3 of 4 shards were named" in report.notices[0]
    report = run(first, first, fourth)
    assert (report.findings, report.records) == ((), len(range(30)) // 2)
    assert report.datasets[0].path == f"{first} … {fourth}"


def test_patterns_pass_over_folders_without_records(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"x": range(30)}), str(tmp_path / "d"), index="tfindex")
    assert (tmp_path / "d" / "index").is_dir()
    assert run(str(tmp_path / "d" / "*")) == replace(
        run(tmp_path / "d"), datasets=run(str(tmp_path / "d" / "d-*")).datasets
    )
    for path in (tmp_path / "d" / "index", tmp_path / "d" / "i*"):
        with pytest.raises(DatasetError):
            run(str(path))


def test_patterns_and_lists_of_numbered_files(tmp_path: Path) -> None:
    for number in (0, 2, 3):
        (tmp_path / f"t-{number:05d}-of-00004").write_bytes(PLAIN)
    lost = [("missing shard", "t-00001-of-00004")]
    assert found_in(run(tmp_path)) == lost
    report = run(str(tmp_path / "*"))
    assert (found_in(report), report.notices) == (lost, ())
    stem = tmp_path / "t-*-of-00004"
    for paths, count in [
        ([str(tmp_path / "t-0000[23]-*")], "2 of 4 shards were"),
        ([str(tmp_path / "t-00000-of-00004")], "1 of 4 shards was"),
        (list(tmp_path.iterdir()), "3 of 4 shards were"),
    ]:
        report = run(*paths)
        assert (report.findings, report.notices) == ((), (f"{stem}: {count} named",))


def test_a_name_may_promise_any_number_of_files(tmp_path: Path) -> None:
    (tmp_path / "t-00000-of-999999999999").write_bytes(PLAIN)
    assert len(run(tmp_path).findings) == 1000


KILLED_WHILE_PUTTING = """
import os, signal, sys
import pyarrow as pa
import tfrec_cli
from tfrec_cli.dataset import staging

staging.put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
tfrec_cli.convert(pa.table({"x": range(5)}), sys.argv[1], overwrite=True)
"""


def test_what_a_killed_run_had_finished_is_put_in_place_first(tmp_path: Path) -> None:
    dest = tmp_path / "d"
    tfrec_cli.convert(pa.table({"x": [1, 2, 3]}), str(dest))
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_PUTTING, str(dest)], check=False)
    assert done.returncode == -signal.SIGKILL
    report = run(dest)
    assert (report.findings, report.records) == ((), 5)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".d.tfrec-")][1:]


def test_folders_hold_datasets_and_files_beside_them(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"x": [1]}), str(tmp_path / "all" / "a"))
    (tmp_path / "all" / "b").mkdir()
    (tmp_path / "all" / "b" / "part").write_bytes(PLAIN)  # known by its content
    (tmp_path / "all" / "b" / "readme.md").write_text("no records")
    (tmp_path / "all" / "b" / ".hidden.tfrecord").write_text("no records")
    report = run(tmp_path / "all", tmp_path / "all" / "a")
    assert report.findings == ()
    assert [dataset.files for dataset in report.datasets] == [1, 1]


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    for pattern in (tmp_path, tmp_path / "none", tmp_path / "*.tfrecord"):
        with pytest.raises(DatasetError):
            run(pattern)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "good.tfrecord").write_bytes(PLAIN)
    (tmp_path / "gone.tfrecord").symlink_to(tmp_path / "nowhere")
    report = run(tmp_path)
    assert (report.exit_code, report.records, len(report.unread)) == (1, 4, 1)


def test_the_report_does_not_depend_on_jobs(tmp_path: Path) -> None:
    for number in range(8):
        data = framed(examples(x=[number] * 50))
        (tmp_path / f"{number}.tfrecord").write_bytes(flipped(data, 700) if number % 3 else data)
    assert run(tmp_path, jobs=1) == run(tmp_path, jobs=4)
    assert len(run(tmp_path).findings) == 5


# Leaks


def split_files(folder: Path, **splits: Any) -> Path:
    for name, values in splits.items():
        (folder / f"d-{name}.tfrecord").write_bytes(framed(examples(who=values)))
    return folder


def test_values_in_two_splits_are_found(tmp_path: Path) -> None:
    split_files(tmp_path, train=["a", "b", "b", "c"], test=["d", "b", "a"], validation=["e"])
    assert run(tmp_path).findings == ()
    (finding,) = run(tmp_path, leak=("who",)).findings
    assert (finding.kind, finding.feature) == ("leak", "who")
    assert "2 values are in test and in train" in finding.text
    assert '"a", "b"' in finding.text
    assert (Path(finding.file).name, finding.record) == ("d-train.tfrecord", 0)


def test_numbers_and_long_values_leak_too(tmp_path: Path) -> None:
    long = "x" * 500
    (tmp_path / "n").mkdir()
    split_files(tmp_path / "n", train=[1, 2], test=[2, 3])
    assert (
        "1 value is in test and in train: 2;" in run(tmp_path / "n", leak=("who",)).findings[0].text
    )
    split_files(tmp_path, train=[long + "a"], test=[long + "b"])
    assert run(str(tmp_path / "*.tfrecord"), leak=("who",)).findings == ()
    split_files(tmp_path, train=[long + "a"], test=[long + "a"])
    assert kinds(run(str(tmp_path / "*.tfrecord"), leak=("who",))) == ["leak"]


def test_leaks_need_splits_and_the_feature(tmp_path: Path) -> None:
    split_files(tmp_path, train=["a"])
    with pytest.raises(UsageError, match="all files are of one"):
        run(tmp_path, leak=("who",))
    split_files(tmp_path, test=["b"])
    with pytest.raises(UsageError, match='Did you mean "who"'):
        run(tmp_path, leak=("whom",))


# Before the commit


def test_what_was_not_meant_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfrec_cli.dataset.shards import ShardWriter

    close = ShardWriter.close

    def close_and_spoil(self: ShardWriter) -> Any:
        shard = close(self)
        path = self._path
        assert path is not None
        path.write_bytes(flipped(path.read_bytes(), 20))
        return shard

    monkeypatch.setattr(ShardWriter, "close", close_and_spoil)
    table = pa.table({"x": [1, 2, 3]})
    with pytest.raises(DamageError, match="data checksum"):
        tfrec_cli.convert(table, str(tmp_path / "d"), verify=True)
    assert list(tmp_path.glob("d*")) == []
    tfrec_cli.convert(table, str(tmp_path / "d"))
    assert kinds(run(tmp_path / "d")) == ["data checksum"]


def test_the_json_document_holds_everything(dataset: Path) -> None:
    shutil.copy(shards(dataset)[0], dataset / "more.tfrecord")
    document = json.loads(json.dumps(run(dataset).document()))
    assert document["ok"] is False
    assert document["records"] == sum(file["records"] for file in document["files"])
    assert {f["kind"] for f in document["findings"]} >= {"extra shard"}
    assert set(document["findings"][0]) == {
        "file", "record", "offset", "kind", "feature", "text", "tensorflow", "records",
    }  # fmt: skip
