"""TensorFlow beside `verify`: what one writes passes, what trips the other up is found."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import pytest
import test_kernel_examples as wire

from tfrec_cli.records.framing import frame
from tfrec_cli.verification import Report, VerifyOptions, verify

tf = pytest.importorskip("tensorflow")
protobuf_message = pytest.importorskip("google.protobuf.message")

SUFFIXES = {"": "", "GZIP": ".gz", "ZLIB": ".zz"}
PACK: dict[str, Any] = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


def example(number: int) -> bytes:
    feature = {
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number, -number])),
        "score": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5] * number)),
        "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"n" * number])),
    }
    message = tf.train.Example(features=tf.train.Features(feature=feature))
    return bytes(message.SerializeToString())


RECORDS = [b"short", b"second record", b"x" * 40]
PLAIN = b"".join(map(frame, RECORDS))


def look(path: Path) -> Report:
    return verify(VerifyOptions((str(path),)))


def read(path: Path, compression: str) -> tuple[int, str]:
    """How many records TensorFlow reads, and its error."""
    count = 0
    try:
        for _ in tf.data.TFRecordDataset(str(path), compression):
            count += 1
    except tf.errors.DataLossError as error:
        return count, str(error)
    return count, ""


@pytest.mark.parametrize("compression", SUFFIXES)
@pytest.mark.parametrize("count", [0, 1, 500])
def test_what_tensorflow_writes_passes(tmp_path: Path, compression: str, count: int) -> None:
    path = tmp_path / f"t.tfrecord{SUFFIXES[compression]}"
    options = tf.io.TFRecordOptions(compression_type=compression)
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for number in range(count):
            writer.write(example(number))
    report = look(path)
    assert (report.findings, report.files[0].examples) == ((), count)
    assert not [notice for notice in report.notices if "empty" not in notice]


def test_tensorflow_reads_the_features_as_they_are_surveyed() -> None:
    from tfrec_cli.decoding import decode_example

    for number in (0, 1, 300):
        found = decode_example(example(number))
        assert found["id"].values == (number, -number)
        assert found["score"].values == (0.5,) * number
        assert found["name"].values == (b"n" * number,)


@pytest.mark.parametrize("compression", SUFFIXES)
def test_all_that_tensorflow_trips_over_or_misses_is_found(
    tmp_path: Path, compression: str
) -> None:
    path = tmp_path / f"t.tfrecord{SUFFIXES[compression]}"
    whole = PACK[compression](PLAIN)
    damaged = [whole[:cut] for cut in range(1, len(whole), 3)]
    for at in range(0, len(whole), 5):
        changed = bytearray(whole)
        changed[at] ^= 0x40
        damaged.append(bytes(changed))
    found = 0
    for data in damaged:
        path.write_bytes(data)
        count, error = read(path, compression)
        report = look(path)
        cut_between_records = not compression and data in (PLAIN[:21], PLAIN[:50])
        if error or count < 3:
            assert report.findings or cut_between_records
        if report.findings and not compression:
            # What is said of TensorFlow is what it does.
            said = report.findings[0].tensorflow
            if "without an error" in said:
                assert error == ""
            else:
                assert said.removeprefix('DataLossError "').rstrip('"') in error
            assert count <= report.records
        found += bool(report.findings)
    assert found > 0.8 * len(damaged)


KEY, FIVE = wire.field(1, b"x"), wire.field(2, wire.ints(5))
STRAY = b"\x38\x05"


def parsed_by_protobuf(record: bytes) -> list[int] | None:
    """The values of the feature x, None where the record is refused."""
    try:
        features = tf.train.Example.FromString(record).features.feature
    except protobuf_message.DecodeError:
        return None
    return list(features["x"].int64_list.value) if "x" in features else []


def parsed_by_tensorflow(record: bytes) -> list[int] | None:
    spec = {"x": tf.io.VarLenFeature(tf.int64)}
    try:
        return list(tf.io.parse_example([record], spec)["x"].values.numpy().tolist())
    except tf.errors.InvalidArgumentError:
        return None


@pytest.mark.parametrize(
    ("record", "protobuf", "tensorflow", "is_example"),
    [
        *((wire.padded(level, 5), [5], [5], True) for level in range(6)),
        *((wire.padded(level, 6), None, [5], False) for level in range(6)),
        *((wire.padded(level, 10), None, [5], False) for level in range(6)),
        *(
            (wire.example(wire.field(1, part)), [], None, False)
            for part in (STRAY + KEY + FIVE, KEY + STRAY + FIVE, KEY + FIVE + STRAY)
        ),
        (wire.example(wire.field(1, KEY + wire.field(2, STRAY + wire.ints(5)))), [5], None, True),
        (wire.example(wire.field(1, KEY + FIVE), STRAY), [5], None, True),
        (wire.example(wire.field(1, KEY + KEY + FIVE)), [5], None, True),
        (b"\x8a\x00" + wire.example(wire.field(1, KEY + FIVE))[1:], [5], [], True),
        (
            wire.example(wire.entry(b"\xff", wire.ints(7)), wire.entry(b"x", wire.ints(5))),
            None,
            [5],
            True,
        ),
    ],
)
def test_where_readers_differ(
    tmp_path: Path,
    record: bytes,
    protobuf: list[int] | None,
    tensorflow: list[int] | None,
    is_example: bool,
) -> None:
    """What is an Example is decided by what any of them would meet."""
    parsed = parsed_by_protobuf(record)
    # Earlier releases of protobuf take lengths of more than five bytes.
    assert parsed == protobuf or (protobuf is None and parsed == [5])
    assert parsed_by_tensorflow(record) == tensorflow
    (tmp_path / "a").write_bytes(frame(record))
    report = look(tmp_path / "a")
    assert report.files[0].examples == is_example
    named = [finding.kind for finding in report.findings]
    assert named == (["key"] if b"\xff" in record else [])


@pytest.mark.parametrize(
    ("schema", "spec"),
    [
        ("{x: float}", tf.io.FixedLenFeature([2], tf.float32)),
        ("{x: bytes}", tf.io.FixedLenFeature([2], tf.string)),
        ("{x: {type: int64, separator: a, shape: [3]}}", tf.io.FixedLenFeature([3], tf.int64)),
        (
            "{x: {type: int64, separator: a, shape: [1, 4]}}",
            tf.io.FixedLenFeature([1, 4], tf.int64),
        ),
        ("{y: int64, x: int64}", tf.io.FixedLenFeature([], tf.int64)),
    ],
)
def test_parsing_fails_as_it_is_said_to(tmp_path: Path, schema: str, spec: Any) -> None:
    values = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
    message = tf.train.Example(features=tf.train.Features(feature={"x": values}))
    record = message.SerializeToString()
    (tmp_path / "a").write_bytes(frame(record))
    (tmp_path / "s.yaml").write_text(f"version: 1\nfeatures: {schema}\n")
    options = VerifyOptions((str(tmp_path / "a"),), schema=str(tmp_path / "s.yaml"))
    (finding,) = verify(options).findings
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.io.parse_example([record], {finding.feature: spec})
    said = finding.tensorflow.removeprefix('InvalidArgumentError "').rstrip('"')
    for sentence in said.split(". "):
        assert sentence in " ".join(str(caught.value).split())
