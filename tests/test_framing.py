import gzip
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.errors import DamageError
from tfrec_cli.records.framing import RecordDamage, frame, read_records, sniff, sniff_file

RECORDS = [b"first", b"", b"third" * 10]
PLAIN = b"".join(map(frame, RECORDS))
PACKED = {"none": PLAIN, "gzip": gzip.compress(PLAIN), "zlib": zlib.compress(PLAIN)}


def read(path, data):
    path.write_bytes(data)
    return list(read_records(path))


def damage(path, data):
    with pytest.raises(RecordDamage) as caught:
        read(path, data)
    assert isinstance(caught.value, DamageError)
    assert str(path) in str(caught.value)
    return caught.value.record, caught.value.offset, caught.value.kind


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz", "a"])
def test_records_are_read_whatever_the_suffix_says(tmp_path, kind, name):
    assert read(tmp_path / name, PACKED[kind]) == RECORDS
    assert sniff_file(tmp_path / name) == kind


@given(records=st.lists(st.binary(max_size=300), max_size=6))
def test_what_is_framed_is_what_is_read(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("framing") / "r"
    assert read(path, b"".join(map(frame, records))) == records


def test_the_frame_is_tensorflows():
    # crc32c("123456789") is 0xe3069283, the check value of CRC-32C in RFC 3720 and elsewhere.
    framed = frame(b"123456789")
    masked = ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert framed[:8] == struct.pack("<Q", 9)
    assert framed[12:21] == b"123456789"
    assert framed[21:] == struct.pack("<I", masked)


@pytest.mark.parametrize("length", [0x8B1F, 0x088B1F, 0x9C78])
def test_a_length_that_looks_like_a_magic_number_is_a_length(tmp_path, length):
    record = bytes(length)
    assert sniff(frame(record)[:12]) == "none"
    assert read(tmp_path / "r", frame(record)) == [record]


def test_records_larger_than_any_buffer_are_whole(tmp_path):
    record = bytes(range(256)) * 20_000
    assert read(tmp_path / "r", gzip.compress(frame(record) * 2, 1)) == [record, record]


def test_nothing_holds_no_records(tmp_path):
    for data in (b"", gzip.compress(b""), zlib.compress(b"")):
        assert read(tmp_path / "r", data) == []


def test_every_flipped_byte_is_found_and_placed(tmp_path):
    ends = [len(frame(RECORDS[0])), len(frame(RECORDS[0])) + len(frame(RECORDS[1]))]
    for at in range(len(PLAIN)):
        flipped = bytearray(PLAIN)
        flipped[at] ^= 0x40
        record = sum(at >= end for end in ends)
        start = (0, *ends)[record]
        kind = "length checksum" if at - start < 12 else "data checksum"
        assert damage(tmp_path / "r", bytes(flipped)) == (record, start, kind)


def test_every_cut_within_a_record_is_found_and_placed(tmp_path):
    ends = [0, 21, 37, len(PLAIN)]
    for end in range(len(PLAIN)):
        if end in ends:
            assert len(read(tmp_path / "r", PLAIN[:end])) == ends.index(end)
        else:
            record = sum(end > e for e in ends[1:])
            assert damage(tmp_path / "r", PLAIN[:end]) == (record, ends[record], "truncated")


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_every_cut_of_a_compressed_file_is_found(tmp_path, kind):
    for end in range(3, len(PACKED[kind])):
        assert damage(tmp_path / "r", PACKED[kind][:end])[2] == "truncated"


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_every_flipped_byte_of_a_compressed_body_is_found(tmp_path, kind):
    for at in range(10, len(PACKED[kind])):
        flipped = bytearray(PACKED[kind])
        flipped[at] ^= 0x10
        with pytest.raises(RecordDamage):
            read(tmp_path / "r", bytes(flipped))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PACKED["gzip"] + bytes(8), "trailing data"),
        (PACKED["gzip"] + gzip.compress(b"", mtime=0), "empty member"),
        (gzip.compress(b"", mtime=0) + PACKED["gzip"], "empty member"),
        (PACKED["zlib"] + PACKED["zlib"], "trailing data"),
    ],
    ids=["zeros behind", "empty member behind", "empty member before", "second zlib stream"],
)
def test_what_tensorflow_would_silently_lose_is_damage(tmp_path, data, kind):
    assert damage(tmp_path / "r", data)[2] == kind


def test_a_file_of_another_kind_is_said_to_be_one(tmp_path):
    with pytest.raises(RecordDamage, match="no TFRecord file"):
        read(tmp_path / "r", b"a,b\n1,2\n3,4\n5,6\n")
