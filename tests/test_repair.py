"""Repairing saves every record that damage did not touch, and invents none."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import read_records
from hypothesis import given
from hypothesis import strategies as st

import tfrec_cli
from tfrec_cli.errors import DatasetError, UsageError
from tfrec_cli.options import Compression
from tfrec_cli.records.compression import Container, compress_block
from tfrec_cli.records.framing import frame
from tfrec_cli.records.framing import read_records as read_intact
from tfrec_cli.repair import RepairOptions, RepairReport, repair
from tfrec_cli.repair.content import Content
from tfrec_cli.repair.salvage import Saved, salvage
from tfrec_cli.repair.search import find_headers, header_length
from tfrec_cli.verification import VerifyOptions, verify


def run(*paths: Path, **options: object) -> RepairReport:
    *files, dest = map(str, paths)
    return repair(RepairOptions(tuple(files), dest, **options))  # type: ignore[arg-type]


def saved(dest: Path) -> list[bytes]:
    """The records at a DEST that is one file."""
    return list(read_intact(dest))


def salvaged(data: bytes, window: int = 1 << 12) -> tuple[list[bytes], int]:
    """The records saved from plain content, and how many bytes were lost."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        pieces = list(salvage(Content("x", "none", len(data), _file=file), window))
    runs = [piece for piece in pieces if isinstance(piece, Saved)]
    kept = b"".join(piece.data for piece in runs)
    records = []
    while kept:
        size = int.from_bytes(kept[:8], "little")
        records.append(kept[12 : 12 + size])
        assert frame(records[-1]) == kept[: size + 16]
        kept = kept[size + 16 :]
    assert len(records) == sum(piece.records for piece in runs)
    return records, sum(p.bytes for p in pieces if not isinstance(p, Saved))


def numbered(sizes: Iterable[int], seed: int = 0) -> list[bytes]:
    """Records that differ from each other, with bytes of all values."""
    draw = random.Random(seed)
    return [number.to_bytes(4, "big") + draw.randbytes(size) for number, size in enumerate(sizes)]


SIZES = st.lists(st.integers(0, 300), min_size=1, max_size=30)


@given(sizes=SIZES, data=st.data())
def test_damage_in_place_costs_the_records_it_touches(
    sizes: list[int], data: st.DataObject
) -> None:
    records = numbered(sizes)
    ends = [0]
    for record in records:
        ends.append(ends[-1] + len(record) + 16)
    content = bytearray(b"".join(map(frame, records)))
    touched = set()
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content) - 1))
        size = data.draw(st.integers(1, 400))
        for place in range(start, min(start + size, len(content))):
            content[place] ^= data.draw(st.sampled_from([1, 128, 255])) if size < 4 else 0x5A
            touched.add(next(n for n, end in enumerate(ends[1:]) if place < end))
    found, _ = salvaged(bytes(content))
    untouched = [record for n, record in enumerate(records) if n not in touched]
    assert Counter(found) - Counter(records) == Counter()
    assert Counter(untouched) - Counter(found) == Counter()
    assert found == [record for record in records if record in set(found)]


@given(sizes=SIZES, data=st.data())
def test_bytes_lost_or_put_in_cost_the_records_they_touch(
    sizes: list[int], data: st.DataObject
) -> None:
    records = numbered(sizes, 1)
    content = b"".join(map(frame, records))
    start = data.draw(st.integers(0, len(content)))
    size = data.draw(st.integers(0, 1000))
    junk = data.draw(st.binary(max_size=50))
    # A cut at the very end of a frame leaves the frame whole.
    stop = min(start + size, len(content))
    found, _ = salvaged(content[:start] + junk + content[stop:])
    end, untouched = 0, []
    for record in records:
        begin, end = end, end + len(record) + 16
        if end <= start or begin >= stop:
            untouched.append(record)
    assert Counter(found) - Counter(records) == Counter()
    assert Counter(untouched) - Counter(found) == Counter()


@given(sizes=SIZES, data=st.data())
def test_bytes_that_are_there_twice_cost_the_record_they_fall_into(
    sizes: list[int], data: st.DataObject
) -> None:
    records = numbered(sizes, 2)
    content = b"".join(map(frame, records))
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, len(content)))
    found, _ = salvaged(content[:stop] + content[start:])
    end, untouched = 0, []
    for record in records:
        begin, end = end, end + len(record) + 16
        untouched += [record] * ((end <= stop) + (begin >= start))
    assert set(found) <= set(records)
    assert Counter(untouched) - Counter(found) == Counter()


@given(sizes=SIZES, cut=st.integers(0, 10_000))
def test_a_cut_file_keeps_the_records_before_the_cut(sizes: list[int], cut: int) -> None:
    records = numbered(sizes)
    content = b"".join(map(frame, records))[:cut]
    whole, end = 0, 0
    for record in records:
        end += len(record) + 16
        whole += end <= cut
    found, lost = salvaged(content)
    assert found == records[:whole]
    assert lost == len(content) - sum(len(record) + 16 for record in found)


INNER = b"".join(map(frame, numbered([5, 40, 0, 7], 3)))


@pytest.mark.parametrize("place", ["data", "footer", "length", "cut"])
def test_a_payload_of_framed_records_is_not_taken_apart(place: str) -> None:
    outer = [b"first", b"head" + INNER + b"tail", b"last"]
    frames = [frame(record) for record in outer]
    begin = len(frames[0])
    content = bytearray(b"".join(frames))
    if place == "cut":
        del content[begin + len(frames[1]) - 2 :]
        assert salvaged(bytes(content))[0] == [b"first"]
        return
    at = {"data": begin + 13, "footer": begin + len(frames[1]) - 1, "length": begin + 1}[place]
    content[at] ^= 4
    # With only its length damaged, a record is saved with the rest.
    expected = outer if place == "length" else [b"first", b"last"]
    assert salvaged(bytes(content))[0] == expected


def test_a_damaged_length_is_written_anew(tmp_path: Path) -> None:
    records = numbered([10, 20, 30])
    content = bytearray(b"".join(map(frame, records)))
    content[4] ^= 1
    content[30 + 40 + 9] ^= 1
    (tmp_path / "x.tfrecord").write_bytes(content)
    report = run(tmp_path / "x.tfrecord", tmp_path / "saved.tfrecord")
    assert (report.records, report.mended, report.exit_code) == (3, 2, 0)
    assert saved(tmp_path / "saved.tfrecord") == records


def test_records_longer_than_a_window_are_saved() -> None:
    records = numbered([5000, 3, 20_000, 1, 9000])
    content = bytearray(b"".join(map(frame, records)))
    assert salvaged(bytes(content)) == (records, 0)
    content[5000 + 20 + 19 + 100] ^= 1
    assert salvaged(bytes(content))[0] == [records[0], records[1], records[3], records[4]]


def test_what_is_no_record_at_all_is_lost() -> None:
    for data in (b"\0" * 50_000, b"no record " * 3000, b"x", bytes(range(256)) * 40):
        assert salvaged(data) == ([], len(data))
    assert salvaged(b"") == ([], 0)


@given(st.binary(max_size=200), st.lists(st.integers(0, 3000), max_size=4))
def test_headers_are_found_at_any_byte(noise: bytes, lengths: list[int]) -> None:
    data, places = noise, []
    for length in lengths:
        places.append(len(data))
        data += frame(bytes(length))[:12] + noise
    room = len(data) + 10_000
    assert set(places) <= set(find_headers(data, room).tolist())
    assert find_headers(data, 0).tolist() == []


PIECES = [b"\0" * 9, frame(b""), frame(b"x" * 300)[:12], b"\1", b"\xff" * 7]


@given(st.lists(st.sampled_from(PIECES)), st.integers(-20, 400))
def test_headers_are_those_whose_checksum_holds_and_whose_record_fits(
    parts: list[bytes], more: int
) -> None:
    data = b"".join(parts)
    room = len(data) + more
    lengths = {at: header_length(data[at : at + 12]) for at in range(len(data))}
    fitting = [at for at, n in lengths.items() if n is not None and at + n + 16 <= room]
    assert find_headers(data, room).tolist() == fitting


@pytest.mark.parametrize("filler", [b"\0" * 8, b"\1" + b"\0" * 7, b"\xff" * 8])
def test_looking_through_a_gap_takes_little_memory(filler: bytes) -> None:
    data = frame(b"first") + filler * (2 << 20) + frame(b"last")
    tracemalloc.start()
    try:
        assert find_headers(data, len(data)).tolist() == [0, len(data) - 20]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert salvaged(data, 4 << 20) == ([b"first", b"last"], len(filler) << 21)


@dataclass
class CountedContent(Content):
    """Content that knows how many bytes were read of it."""

    taken: int = 0

    def read(self, offset: int, size: int) -> bytes:
        data = super().read(offset, size)
        self.taken += len(data)
        return data


@pytest.mark.parametrize("places", [(3,), (30,), (3, 30)])
def test_work_grows_with_the_file_and_not_with_damage_times_file(places: tuple[int, ...]) -> None:
    """Half of all records are damaged, in their length, their data, or both."""
    records = numbered([200] * 4000)
    frames = [bytearray(frame(record)) for record in records]
    for one in frames[1::2]:
        for place in places:
            one[place] ^= 1
    data = b"".join(frames)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        content = CountedContent("x", "none", len(data), _file=file)
        pieces = list(salvage(content))
    kept = sum(piece.records for piece in pieces if isinstance(piece, Saved))
    assert kept == (4000 if places == (3,) else 2000)
    # What mending may look at in vain is bounded by itself: sixteen times 4 MiB.
    assert content.taken < 60 * len(data) + (130 << 20)


def blocks(records: list[bytes], kind: str, per_block: int) -> bytes:
    """A compressed file of blocks of so many bytes, as tfrec writes them."""
    compression = Compression.parse(kind)
    content = b"".join(map(frame, records))
    container = Container(compression)
    parts = [container.start()]
    for start in range(0, len(content), per_block):
        block = compress_block(content[start : start + per_block], compression)
        parts.append(bytes(container.add(block)))
    return b"".join([*parts, container.finish()])


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
@pytest.mark.parametrize("seed", range(25))
def test_damage_in_one_block_costs_the_records_of_that_block(
    tmp_path: Path, kind: str, seed: int
) -> None:
    """Text, which deflates to codes in which damage is soon seen."""
    draw = random.Random(seed)
    records = [f"record {n} {draw.random()} {'abc' * (n % 7)}".encode() for n in range(3000)]
    data = bytearray(blocks(records, kind, 20_000))
    suffix = {"gzip": "gz", "zlib": "zz"}[kind]
    for _ in range(draw.randint(1, 20)):
        data[len(data) // 3 + draw.randrange(40)] ^= 1 << draw.randrange(8)
    (tmp_path / f"x.tfrecord.{suffix}").write_bytes(data)
    report = run(tmp_path / f"x.tfrecord.{suffix}", tmp_path / "saved.tfrecord")
    found = saved(tmp_path / "saved.tfrecord")
    assert Counter(found) - Counter(records) == Counter()
    # Blocks hold some 350 records; two may be touched.
    assert len(records) - 2 * 420 <= len(found) < len(records)
    assert found[0] == records[0]
    assert found[-1] == records[-1]
    assert report.exit_code == 3


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_one_stream_gives_what_comes_before_the_damage(tmp_path: Path, pack: object) -> None:
    records = numbered([500] * 400)
    data = bytearray(pack(b"".join(map(frame, records))))  # type: ignore[operator]
    data[len(data) // 2] ^= 0xFF
    del data[-100:]
    (tmp_path / "x").write_bytes(data)
    report = run(tmp_path / "x", tmp_path / "saved.tfrecord")
    found = saved(tmp_path / "saved.tfrecord")
    assert found[:150] == records[:150]
    assert set(found) <= set(records)
    assert report.losses[-1].unit in ("file", "content")


def inflated(data: bytes) -> bytes:
    """What the damaged deflate stream of a GZIP member gives."""
    stream = zlib.decompressobj(-15)
    return stream.decompress(data[10:])


KINDS = [frame(b"kind %d " % kind + bytes([kind]) * 5 * kind) for kind in range(7)]


@pytest.mark.parametrize("seed", range(12))
def test_records_that_are_often_the_same_are_all_saved(tmp_path: Path, seed: int) -> None:
    """Damage in one GZIP member; what it copies on is lost, and no record that is sound."""
    draw = random.Random(seed)
    frames = [draw.choice(KINDS) for _ in range(3000)]
    content = b"".join(frames)
    packed = gzip.compress(content, mtime=0)
    while True:
        data = bytearray(packed)
        data[draw.randrange(500, len(data) - 8)] ^= 1 << draw.randrange(8)
        with contextlib.suppress(zlib.error):
            if len(damaged := inflated(data)) == len(content) and damaged != content:
                break
    (tmp_path / "x.gz").write_bytes(data)
    run(tmp_path / "x.gz", tmp_path / "saved.tfrecord")
    end, sound = 0, []
    for one in frames:
        begin, end = end, end + len(one)
        if damaged[begin:end] == one:
            sound.append(one)
    found = [frame(record) for record in saved(tmp_path / "saved.tfrecord")]
    assert Counter(sound) - Counter(found) == Counter()
    assert set(found) <= set(KINDS)
    assert len(found) <= len(frames)


def test_records_that_may_be_copies_are_saved_and_told(tmp_path: Path) -> None:
    """Between two damaged records stand some that stand before them too."""
    content = bytearray(b"".join(KINDS * 300))
    for place in (20_000, 20_400, 30_000):
        content[place] ^= 1
    stream = zlib.compressobj(wbits=31)
    data = bytearray(stream.compress(content) + stream.flush())
    data[-8] ^= 1
    (tmp_path / "x.gz").write_bytes(data)
    result = tfrec("repair", "x.gz", "saved", cwd=tmp_path)
    assert "saved behind it may be copies of earlier ones" in result.stdout
    report = run(tmp_path / "x.gz", tmp_path / "saved.tfrecord")
    assert report.records == 2100 - 3
    doubts = [loss.doubtful for loss in report.losses]
    assert doubts[0] > 0
    assert doubts[-1] == 0


def test_a_wrong_checksum_of_a_stream_that_lost_nothing_is_told(tmp_path: Path) -> None:
    records = numbered([50] * 20)
    members = [bytearray(gzip.compress(frame(record))) for record in records]
    members[3][-8] ^= 1
    members[4][-8] ^= 1
    (tmp_path / "x.gz").write_bytes(b"".join(members))
    report = run(tmp_path / "x.gz", tmp_path / "saved.tfrecord")
    assert (saved(tmp_path / "saved.tfrecord"), report.losses) == (records, ())
    assert "streams whose checksum does not hold: 2" in report.notices[0]
    (tmp_path / "x.gz").write_bytes(b"".join([members[0], members[3][:-9]]))
    assert run(tmp_path / "x.gz", tmp_path / "saved.tfrecord", overwrite=True).notices == ()


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("seed", range(20))
def test_copies_that_damage_made_are_left_out(tmp_path: Path, pack: object, seed: int) -> None:
    """All records differ, so that what stands there twice is no record that was written."""
    draw = random.Random(seed)
    records = [f"{n} {draw.choice('abc') * draw.randrange(9)}".encode() for n in range(4000)]
    data = bytearray(pack(b"".join(map(frame, records))))  # type: ignore[operator]
    for _ in range(draw.randint(1, 3)):
        data[draw.randrange(len(data) // 4, len(data) - 10)] ^= 1 << draw.randrange(8)
    (tmp_path / "x").write_bytes(data)
    run(tmp_path / "x", tmp_path / "saved.tfrecord")
    found = saved(tmp_path / "saved.tfrecord")
    assert Counter(found) - Counter(records) == Counter()
    assert found[:500] == records[:500]


def test_members_that_stand_alone_are_all_read(tmp_path: Path) -> None:
    records = numbered([100] * 60)
    members = [
        gzip.compress(b"".join(map(frame, records[n : n + 10])), mtime=0) for n in range(0, 60, 10)
    ]
    broken = [bytes(40) + members[1][40:], members[2][:-6], b"junk", members[3][:200]]
    # Header gone; trailer cut; bytes between members; a member cut.
    data = members[0] + broken[0] + broken[1] + members[4] + broken[2] + broken[3] + members[5]
    (tmp_path / "x.gz").write_bytes(data)
    run(tmp_path / "x.gz", tmp_path / "saved.tfrecord")
    found = saved(tmp_path / "saved.tfrecord")
    for whole in (records[:10], records[20:30], records[40:50], records[50:60]):
        assert set(whole) <= set(found)
    assert set(found) <= set(records)


def test_no_record_is_saved_twice(tmp_path: Path) -> None:
    """Bytes lost in stored data make a member run into the next one, whose data is stored too."""
    records = numbered([60] * 200)
    data = blocks(records, "gzip", 800)
    for start in range(100, 1500, 37):
        cut = data[:start] + data[start + 120 :]
        (tmp_path / "x.gz").write_bytes(cut)
        run(tmp_path / "x.gz", tmp_path / "saved.tfrecord", overwrite=True)
        found = saved(tmp_path / "saved.tfrecord")
        assert found == [record for record in records if record in set(found)]
        assert len(found) >= len(records) - 25


def test_a_second_zlib_stream_is_read(tmp_path: Path) -> None:
    records = numbered([30] * 20)
    streams = [zlib.compress(b"".join(map(frame, part))) for part in (records[:9], records[9:])]
    (tmp_path / "x.zz").write_bytes(b"".join(streams))
    assert run(tmp_path / "x.zz", tmp_path / "s.tfrecord").exit_code == 0
    assert saved(tmp_path / "s.tfrecord") == records


def test_a_file_named_gz_whose_first_bytes_are_gone(tmp_path: Path) -> None:
    records = numbered([50] * 100)
    data = blocks(records, "gzip", 2000)
    (tmp_path / "x.tfrecord.gz").write_bytes(b"\0" * 30 + data[30:])
    run(tmp_path / "x.tfrecord.gz", tmp_path / "saved.tfrecord")
    assert saved(tmp_path / "saved.tfrecord")[-60:] == records[-60:]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A dataset of two splits in four shards."""
    rows = "".join(f"{n},name {n},{'ab'[n % 2]}\n" for n in range(200))
    (tmp_path / "people.csv").write_text("id,name,kind\n" + rows)
    tfrec_cli.convert(
        tmp_path / "people.csv", tmp_path / "people", split="train=0.5,test=0.5", shards=2,
        schema={"version": 1, "features": {
            "id": "int64", "name": "bytes", "kind": {"type": "int64", "labels": ["a", "b"]}}},
    )  # fmt: skip
    return tmp_path / "people"


def test_a_dataset_keeps_its_splits_schema_and_labels(people: Path) -> None:
    shard = sorted(people.glob("*test*"))[1]
    data = bytearray(shard.read_bytes())
    data[30] ^= 1
    shard.write_bytes(data)
    dest = people.with_name("saved")
    report = run(people, dest)
    assert (report.records, len(report.losses), report.losses[0].records) == (199, 1, 1)
    assert report.losses[0].file == str(shard)
    before, after = ({p.name for p in folder.iterdir()} for folder in (people, dest))
    assert after == before | {"lost.jsonl"}
    assert verify(VerifyOptions((str(dest),))).exit_code == 0
    (line,) = (dest / "lost.jsonl").read_text().splitlines()
    assert json.loads(line) == report.losses[0].document()
    assert len(read_records(dest)) == 199
    # Record bytes are those of the damaged dataset.
    originals = {r for p in people.glob("*tfrecord-*") if p != shard for r in read_intact(p)}
    assert originals < {r for p in dest.glob("*tfrecord-*") for r in read_intact(p)}


def test_a_missing_shard_is_a_loss(people: Path) -> None:
    sorted(people.glob("*train*"))[0].unlink()
    report = run(people, people.with_name("saved"))
    assert [loss.kind for loss in report.losses] == ["missing shard"]
    assert report.exit_code == 3


def test_what_is_sound_is_copied(people: Path) -> None:
    dest = people.with_name("saved")
    report = run(people, dest)
    assert (report.exit_code, report.records) == (0, 200)
    assert not (dest / "lost.jsonl").exists()
    for shard in people.glob("*tfrecord-*"):
        assert (dest / shard.name).read_bytes() == shard.read_bytes()


def test_any_payload_and_several_files_into_one(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(b"not a message") + frame(b""))
    (tmp_path / "b.record").write_bytes(frame(b"\xff" * 100) + frame(b"cut")[:-1])
    report = run(tmp_path / "a.tfrecord", tmp_path / "b.record", tmp_path / "all.tfrecord.gz")
    assert saved(tmp_path / "all.tfrecord.gz") == [b"not a message", b"", b"\xff" * 100]
    assert [loss.kind for loss in report.losses] == ["truncated"]
    assert verify(VerifyOptions((str(tmp_path / "all.tfrecord.gz"),))).exit_code == 0


def test_nothing_is_ever_written_over(tmp_path: Path) -> None:
    source = tmp_path / "a.tfrecord"
    source.write_bytes(frame(b"x"))
    other = tmp_path / "b.tfrecord"
    other.write_bytes(frame(b"y"))
    with pytest.raises(UsageError):
        run(source, source, overwrite=True)
    with pytest.raises(DatasetError):
        run(source, other, overwrite=True)
    with pytest.raises(DatasetError):
        run(source, tmp_path, overwrite=True)
    with pytest.raises(UsageError):
        run(source, Path("-"))
    assert source.read_bytes() == frame(b"x")
    assert other.read_bytes() == frame(b"y")
    assert sorted(os.listdir(tmp_path)) == ["a.tfrecord", "b.tfrecord"]


def test_a_file_that_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").symlink_to("nowhere")
    with pytest.raises(DatasetError, match=r"a\.tfrecord: it is a link to nowhere"):
        run(tmp_path / "a.tfrecord", tmp_path / "out.tfrecord")
    with pytest.raises(DatasetError, match="nothing is there"):
        run(tmp_path / "b.tfrecord", tmp_path / "out.tfrecord")
    assert os.listdir(tmp_path) == ["a.tfrecord"]


def tfrec(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfrec_cli", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_command_lists_what_was_lost(tmp_path: Path) -> None:
    data = bytearray(b"".join(map(frame, numbered([10, 20, 30]))))
    data[50] ^= 1
    (tmp_path / "x.tfrecord").write_bytes(data)
    result = tfrec("repair", "x.tfrecord", "saved", cwd=tmp_path)
    assert result.returncode == 3
    assert "saved: 2 records saved in 1 shard" in result.stdout
    assert "30 to 70" in result.stdout
    assert "saved/lost.jsonl" in result.stdout
    assert tfrec("repair", "x.tfrecord", "saved", cwd=tmp_path).returncode == 1
    again = tfrec("repair", "x.tfrecord", "saved", "--overwrite", "--json", cwd=tmp_path)
    document = json.loads(again.stdout)
    assert (again.returncode, document["ok"], document["records"]) == (3, False, 2)
    assert document["lost"][0]["bytes"] == 40
    assert tfrec("repair", "saved", "sound.tfrecord", cwd=tmp_path).returncode == 0


def test_the_command_wants_a_file_and_a_dest(tmp_path: Path) -> None:
    assert tfrec("repair", cwd=tmp_path).returncode == 2
    assert tfrec("repair", "x.tfrecord", cwd=tmp_path).returncode == 2


def test_a_file_of_another_kind_is_no_dataset_of_nothing(tmp_path):
    (tmp_path / "notes.txt").write_text("These are notes.\n")
    with pytest.raises(DatasetError, match=r"notes.txt: no TFRecord file: it is text"):
        repair(RepairOptions((str(tmp_path / "notes.txt"),), str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_of_a_named_shard_the_schema_is_kept(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"x": pa.array([1, 2], pa.int8())}), tmp_path / "d")
    (shard,) = (tmp_path / "d").glob("*.tfrecord*")
    run(shard, tmp_path / "out")
    schemas = [(tmp_path / name / "schema.yaml").read_bytes() for name in ("d", "out")]
    assert schemas[0] == schemas[1]
