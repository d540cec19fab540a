"""Index files tell where records are, and records are read by number through them."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import read_manifest, run_with
from hypothesis import given
from hypothesis import strategies as st

import tfrec_cli
from tfrec_cli.errors import DamageError, DatasetError, UsageError
from tfrec_cli.indexing import write_indexes
from tfrec_cli.reading.places import places_of
from tfrec_cli.reading.random_access import Records as ByNumber
from tfrec_cli.records.framing import frame, read_records
from tfrec_cli.records.index import index_name, index_text, read_index
from tfrec_cli.verification import VerifyOptions, verify

BOTH = ("dali", "tfindex")


def numbered(path: Path, split: str | None = None) -> ByNumber:
    return tfrec_cli.open_dataset(path).by_number(split)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A source of 250 rows."""
    rows = "".join(f"{n},{'x' * (1 + n % 40)},{n / 7}\n" for n in range(250))
    (tmp_path / "people.csv").write_text("id,name,score\n" + rows)
    return tmp_path / "people.csv"


def convert(source: Path, dest: str, **options: object) -> Path:
    path = source.parent / dest
    tfrec_cli.convert(source, path, **options)  # type: ignore[arg-type]
    return path


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def lines(path: Path) -> list[tuple[int, int]]:
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()]  # type: ignore[misc]


def is_sound(*paths: Path) -> bool:
    report = verify(VerifyOptions(tuple(map(str, paths))))
    assert report.findings == ()
    return True


@pytest.mark.parametrize("dest", ["people", "people.tfrecord"])
def test_an_index_says_where_each_record_is(people: Path, dest: str) -> None:
    more = {} if dest.endswith("d") else {"shards": 3}
    path = convert(people, dest, index="dali,tfindex", **more)
    home = path if path.is_dir() else people.with_name(".people-tfrecord.tfrec.d")
    shards = sorted(path.glob("*.tfrecord-*")) if path.is_dir() else [path]
    assert len(files(home / "index")) == 2 * len(shards)
    for shard in shards:
        data = shard.read_bytes()
        for suffix in (".idx", ".tfindex"):
            index = home / "index" / (shard.name.replace(".tfrecord", "-tfrecord") + suffix)
            found = [data[start : start + size] for start, size in lines(index)]
            assert found == [frame(record) for record in read_records(shard)]
    assert is_sound(path)


def test_no_pattern_for_data_matches_an_index(people: Path) -> None:
    path = convert(people, "people", index="dali,tfindex")
    assert len([p for p in path.rglob("*.tfrec*") if p.is_file()]) == 1


def test_the_manifest_has_the_indexes(people: Path) -> None:
    path = convert(people, "people", index="tfindex")
    assert "index/people-train-tfrecord-00000-of-00001.tfindex" in {
        file["name"] for file in read_manifest(path)["files"]
    }
    (index,) = (path / "index").iterdir()
    index.write_text("0 10\n")
    (finding,) = verify(VerifyOptions((str(path),))).findings
    assert (finding.kind, finding.file) == ("side file", str(index))


@pytest.mark.parametrize("dest", ["people", "people.tfrecord"])
def test_the_command_adds_what_convert_would_have_written(people: Path, dest: str) -> None:
    with_index = convert(people, dest, index="dali,tfindex", name="n")
    later = convert(people, f"later/{dest}", name="n")
    write_indexes([str(later)], BOTH)
    write_indexes([str(later)], BOTH)
    assert is_sound(later)
    for file in with_index.parent.rglob("*.idx"):
        if "later" not in file.parts:
            twin = later.parent / file.relative_to(with_index.parent)
            assert twin.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    "more", [{}, {"shuffle": True}, {"split": "train=0.6,test=0.4"}, {"jobs": 1}]
)
def test_indexes_are_written_while_the_shards_are(
    people: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    def found(path: object) -> np.ndarray:
        raise AssertionError(f"{path} was read again")

    plain = convert(people, "plain/people", shards=4, **more)
    write_indexes([str(plain)], BOTH)
    monkeypatch.setattr("tfrec_cli.dataset.indexes.find_records", found)
    path = convert(people, "people", shards=4, index="dali,tfindex", **more)
    assert files(path) == files(plain)
    for name in files(path):
        assert name == "manifest.json" or (path / name).read_bytes() == (plain / name).read_bytes()
    assert is_sound(path)


@pytest.mark.parametrize("limit", [1, 2, 4, 5])
def test_shards_without_records_have_empty_indexes(people: Path, limit: int) -> None:
    path = convert(people, "people", shards=4, limit=limit, index="dali")
    counts = [len(lines(index)) for index in sorted((path / "index").iterdir())]
    assert sum(counts) == limit
    assert len(counts) == len(list(path.glob("*.tfrecord-*")))


def test_a_dataset_with_indexes_is_replaced_as_a_whole(people: Path) -> None:
    path = convert(people, "people", index="dali", shards=2)
    convert(people, "people", shards=3, overwrite=True)
    assert not (path / "index").exists()
    convert(people, "people", shards=3, overwrite=True, index="tfindex")
    convert(people, "people", shards=1, overwrite=True, index="tfindex")
    assert len(list((path / "index").iterdir())) == 1
    (path / "index" / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match=r"index/notes\.txt"):
        convert(people, "people", overwrite=True)
    assert (path / "index" / "notes.txt").read_text() == "mine"


def test_an_index_that_the_manifest_does_not_have_is_ours(people: Path) -> None:
    """As a killed `tfrec index` leaves it."""
    path = convert(people, "people")
    before = (path / "manifest.json").read_bytes()
    write_indexes([str(path)], BOTH)
    (path / "manifest.json").write_bytes(before)
    convert(people, "people", overwrite=True)
    assert is_sound(path)


@pytest.mark.parametrize("calls", range(4))
def test_a_run_that_is_cut_short_leaves_a_dataset(
    people: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    path = convert(people, "people", shards=2, index="dali")
    replace, left = os.replace, calls

    def cut_short(source: object, target: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        replace(source, target)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", cut_short)
        with pytest.raises(KeyboardInterrupt):
            write_indexes([str(path)], BOTH)
    assert is_sound(path)
    assert not list(path.parent.glob(".people.tfrec-????????"))
    write_indexes([str(path)], BOTH)
    assert len(list((path / "index").iterdir())) == 4
    assert is_sound(path)


def test_indexes_move_into_a_folder_that_cannot_be_replaced(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = people.with_name("here")
    place.mkdir()
    monkeypatch.chdir(place)
    for shards in (1, 2):
        tfrec_cli.convert(people, ".", index="dali", shards=shards, overwrite=True)
        assert len(list((place / "index").iterdir())) == shards
        assert is_sound(place)
    write_indexes(["."], BOTH)
    assert is_sound(place)


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_compressed_shards_are_refused(people: Path, kind: str) -> None:
    with pytest.raises(UsageError, match="compressed"):
        convert(people, "people", index="dali", compression=kind)
    assert not people.with_name("people").exists()
    path = convert(people, "people", compression=kind)
    before = files(path)
    with pytest.raises(UsageError, match="compressed"):
        write_indexes([str(path)], BOTH)
    with pytest.raises(UsageError, match="compressed"):
        numbered(path)
    assert files(path) == before


def test_other_words_are_refused(people: Path) -> None:
    for words in ("dala", "", "dali,", "dali,tfrecord"):
        with pytest.raises(UsageError, match="index format"):
            convert(people, "people", index=words)


def test_files_of_any_origin_and_payload(tmp_path: Path) -> None:
    records = [b"", b"no message", bytes(5000)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(frame, records)))
    (tmp_path / "b.record").write_bytes(b"")
    (done,) = write_indexes([str(tmp_path)], BOTH)
    assert (done.records, done.files, len(done.indexes)) == (3, 2, 4)
    assert lines(tmp_path / "index" / "a-tfrecord.idx") == [(0, 16), (16, 26), (42, 5016)]
    assert (tmp_path / "index" / "b.record.tfindex").read_text() == ""
    assert list(numbered(tmp_path)) == records
    write_indexes([str(tmp_path / "a.tfrecord")], ("dali",))
    (tmp_path / "index" / "a-tfrecord.idx").write_text("my notes\n")
    with pytest.raises(DatasetError, match="is no index"):
        write_indexes([str(tmp_path)], ("dali",))
    assert (tmp_path / "index" / "a-tfrecord.idx").read_text() == "my notes\n"


def test_damage_is_refused(people: Path) -> None:
    path = convert(people, "people", shards=2)
    shards = sorted(path.glob("*.tfrecord-*"))
    data = shards[1].read_bytes()
    before = files(path)
    for wrong in (data[:-1], data[:50] + b"?" + data[51:]):
        shards[1].write_bytes(wrong)
        with pytest.raises(DamageError):
            write_indexes([str(path)], BOTH)
        assert is_sound(shards[0])
        assert set(files(path)) - set(before) <= {
            f"index/{index_name(shards[0].name, k)}" for k in BOTH
        }
    shards[1].unlink()
    with pytest.raises(DamageError, match="not there"):
        write_indexes([str(path)], BOTH)
    with pytest.raises(DatasetError, match="nothing is there"):
        write_indexes([str(people.with_name("nothing"))], BOTH)


@given(st.lists(st.integers(16, 2**40), max_size=20))
def test_text_of_an_index_made_in_parts(sizes: list[int]) -> None:
    ends = np.cumsum(np.array(sizes, np.int64) + 16)
    starts = [0, *ends.tolist()]
    whole = "".join(f"{start} {end - start}\n" for start, end in itertools.pairwise(starts))
    assert index_text(ends) == whole.encode()
    half = len(sizes) // 2
    assert index_text(ends[:half]) + index_text(ends[half:], starts[half]) == whole.encode()


@given(st.lists(st.integers(16, 2**40), max_size=20))
def test_indexes_are_read_back(sizes: list[int]) -> None:
    import tempfile

    ends = np.cumsum(sizes, dtype=np.int64)
    with tempfile.NamedTemporaryFile() as file:
        file.write(index_text(ends))
        file.flush()
        found = [end for part in read_index(file.name) for end in part.tolist()]
    assert found == ends.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "1 20\n",
        "0 20\n21 30\n",
        "x y\n",
        "0\n",
        "0 5\n",
        "0 99999999999999999999\n",
        "\n",
        "0 20 x\n",
        "0 9223372036854775807\n",
    ],
)
def test_what_is_no_index_is_not_used(people: Path, text: str) -> None:
    path = convert(people, "people", index="dali")
    records = list(numbered(path))
    for index in (path / "index").iterdir():
        index.write_text(text)
        with pytest.raises(ValueError, match="is no index"):
            list(read_index(index))
    assert list(numbered(path)) == records


def test_records_by_number(people: Path) -> None:
    path = convert(people, "people", shards=4, shuffle=True)
    expected = [r for shard in sorted(path.glob("*.tfrecord-*")) for r in read_records(shard)]
    for _ in range(2):
        records = numbered(path)
        assert len(records) == 250
        assert [records[n] for n in (249, 0, 100, -1, -250)] == [
            expected[n] for n in (249, 0, 100, -1, -250)
        ]
        assert records[10:20:3] == expected[10:20:3]
        assert list(records) == expected
        for wrong in (250, -251):
            with pytest.raises(IndexError):
                records[wrong]
        write_indexes([str(path)], ("tfindex",))


def test_records_by_number_are_those_that_iterating_gives(people: Path) -> None:
    path = convert(people, "people", shards=4, shuffle=True)
    dataset = tfrec_cli.open_dataset(path)
    assert [dataset[n] for n in range(250)] == list(dataset)
    assert dataset[-1] == dataset[249]
    with pytest.raises(IndexError):
        dataset[250]
    again = pickle.loads(pickle.dumps(dataset))
    assert again[7] == dataset[7]


def test_records_of_one_split(people: Path) -> None:
    path = convert(people, "people", split="train=0.7,test=0.3")
    train, test = (numbered(path, split) for split in ("train", "test"))
    assert len(train) + len(test) == len(numbered(path)) == 250
    with pytest.raises(UsageError, match='Did you mean "train"'):
        numbered(path, "trian")


def _record(records: ByNumber, number: int) -> bytes:
    return records[number]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_records_in_other_processes(people: Path, method: str) -> None:
    records = numbered(convert(people, "people", shards=2))
    first = records[0]
    assert pickle.loads(pickle.dumps(records))[0] == first
    with ProcessPoolExecutor(2, mp_context=get_context(method)) as pool:
        found = list(pool.map(_record, itertools.repeat(records), range(0, 250, 50)))
    assert found == [records[n] for n in range(0, 250, 50)]


def test_a_damaged_record_is_told_when_it_is_read(people: Path) -> None:
    path = convert(people, "people", index="dali")
    (shard,) = path.glob("*.tfrecord-*")
    data = bytearray(shard.read_bytes())
    data[14] ^= 1
    shard.write_bytes(data)
    records = numbered(path)
    assert records[1]
    with pytest.raises(DamageError, match="record 0, byte 0"):
        records[0]


READ_THROUGH_INDEX = """
import json, sys
from tfrecord.reader import tfrecord_loader
wanted = {"id": "int", "name": "byte", "score": "float"}
found = []
for part in range(7):
    for r in tfrecord_loader(sys.argv[1], sys.argv[2], wanted, (part, 7)):
        found.append((int(r["id"][0]), len(r["name"]), float(r["score"][0])))
print(json.dumps(found))
"""


def test_the_tfrecord_package_reads_through_a_tfindex(people: Path) -> None:
    path = convert(people, "people", index="tfindex")
    (shard,), (index,) = path.glob("*.tfrecord-*"), (path / "index").iterdir()
    found = json.loads(run_with("tfrecord", READ_THROUGH_INDEX, shard, index))
    assert found == [[n, 1 + n % 40, float(np.float32(n / 7))] for n in range(250)]


WRITE_INDEX = (
    "import sys; from tfrecord.tools.tfrecord2idx import create_index as f; f(*sys.argv[1:])"
)


def test_the_tfrecord_package_writes_the_same_index(people: Path) -> None:
    path = convert(people, "people", index="tfindex")
    (shard,), (index,) = path.glob("*.tfrecord-*"), (path / "index").iterdir()
    run_with("tfrecord", WRITE_INDEX, shard, people.with_name("theirs"))
    assert people.with_name("theirs").read_bytes() == index.read_bytes()


def tfrec(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfrec_cli", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_commands(people: Path) -> None:
    folder = people.parent
    assert tfrec("convert", "people.csv", "a", "-q", "--index", "dali", cwd=folder).returncode == 0
    assert tfrec("convert", "people.csv", "b", "--index", "dull", cwd=folder).returncode == 2
    assert tfrec("convert", "people.csv", "-", "--index", "dali", cwd=folder).returncode == 2
    done = tfrec("index", "a", cwd=folder)
    assert done.stdout == "a: 250 records in 1 file, 2 index files in a/index\n"
    document = json.loads(tfrec("index", "a", "--json", "--format", "dali", cwd=folder).stdout)
    assert document["datasets"][0]["indexes"] == ["a/index/a-train-tfrecord-00000-of-00001.idx"]
    assert tfrec("index", "nothing", cwd=folder).returncode == 1
    assert tfrec("index", "a", "--format", "x", cwd=folder).returncode == 2
    assert os.listdir(folder / "a" / "index")


def test_records_of_more_files_than_may_be_open(people: Path) -> None:
    path = convert(people, "people", shards=90)
    script = (
        "import resource, sys, tfrec_cli\n"
        "records = tfrec_cli.open_dataset(sys.argv[1]).by_number()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), 4096))\n"
        "for _ in range(2): print(len(set(records)), end=' ')\n"
    )
    for limit in ("80", "30"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(path), limit],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.split() == ["250", "250"]


def test_a_file_that_has_gone_is_named(people: Path) -> None:
    path = convert(people, "people", shards=3, index="dali")
    records = numbered(path)
    gone = sorted(path.glob("*.tfrecord-*"))[1]
    gone.unlink()
    assert records[0]
    with pytest.raises(DatasetError, match=f"{gone.name}: No such file"):
        records[100]


@pytest.mark.parametrize("wrong", [1.5, "1", None, (0, 1)])
def test_a_number_is_a_whole_number(people: Path, wrong: Any) -> None:
    dataset = tfrec_cli.open_dataset(convert(people, "people"))
    for numbered_records in (dataset, dataset.by_number()):
        with pytest.raises(TypeError):
            numbered_records[wrong]


def test_slices_are_lists(people: Path) -> None:
    dataset = tfrec_cli.open_dataset(convert(people, "people", shards=3))
    every, numbers = list(dataset), np.int64(7)
    assert dataset[numbers] == every[7]
    for some in (slice(0, 2), slice(None, None, -50), slice(240, 999), slice(5, 5)):
        assert dataset[some] == every[some]


def sizes_of(small: int, large: int) -> list[int]:
    """Sizes of records, among them some that are larger than a stretch."""
    return [large if n % 97 == 5 else n % small for n in range(1000)]


@pytest.mark.parametrize("small", [1, 40, 3000])
@pytest.mark.parametrize("large", [0, 4096 - 16, 4097 - 16, 20_000])
@pytest.mark.parametrize("part", [1, 7, 1000])
def test_places_of_some_records_find_all(tmp_path: Path, small: int, large: int, part: int) -> None:
    records = [bytes([n % 251]) * size for n, size in enumerate(sizes_of(small, large))]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(frame, records)))
    ends = np.cumsum([16 + len(record) for record in records])
    places = places_of(np.array_split(ends, range(part, 1000, part)), 4096)
    assert (len(places), places.end) == (1000, ends[-1])
    starts = np.concatenate(([0], ends))
    assert places.starts.tolist() == starts[places.numbers].tolist()
    for first, after in itertools.pairwise(places.numbers.tolist()):
        assert after == first + 1 or starts[after] - starts[first] < 2 * 4096
    assert len(places.starts) <= 2 + ends[-1] // 4096 + 2 * sum(len(r) + 16 > 4096 for r in records)
    found = numbered(tmp_path)
    order = list(range(1000))
    random.Random(small).shuffle(order)
    assert [found[n] for n in order] == [records[n] for n in order]


def test_damage_of_one_record_does_not_matter_to_those_around_it(tmp_path: Path) -> None:
    records = [bytes([n]) * 20 for n in range(100)]
    data = bytearray(b"".join(map(frame, records)))
    (tmp_path / "a.tfrecord").write_bytes(data)
    write_indexes([str(tmp_path)], ("dali",))
    data[36 * 40 + 15] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    os.utime(tmp_path / "index" / "a-tfrecord.idx")
    found = numbered(tmp_path)
    assert [found[n] for n in range(100) if n != 40] == records[:40] + records[41:]
    with pytest.raises(DamageError, match="record 40, byte 1440:"):
        found[40]
    # Behind a length that is damaged nobody knows where records begin, but in the next stretch.
    data[36 * 50] ^= 1
    more = [bytes([n]) * 5000 for n in range(3)]
    (tmp_path / "a.tfrecord").write_bytes(data + b"".join(map(frame, more)))
    text = index_text(np.cumsum([36] * 100 + [5016] * 3))
    (tmp_path / "index" / "a-tfrecord.idx").write_bytes(text)
    found = numbered(tmp_path)
    assert found[49] == records[49]
    for number in (50, 51):
        with pytest.raises(DamageError, match=f"record {number}, byte 1800:"):
            found[number]
    assert found[100:] == more


@pytest.fixture
def indexed(tmp_path: Path) -> tuple[Path, list[bytes]]:
    """A file of other origin with an index, and its records: of many sizes, two large ones."""
    rng = random.Random(3)
    records = [b"%d-" % n * rng.randrange(1, 60) for n in range(3000)]
    records[1000:1000] = [b"large" * 2000, b"larger" * 2000]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(frame, records)))
    write_indexes([str(tmp_path / "a.tfrecord")], ("dali",))
    return tmp_path / "a.tfrecord", records


def age(path: Path, seconds: int) -> None:
    """Make a file older than it is."""
    then = path.stat().st_mtime_ns - seconds * 10**9
    os.utime(path, ns=(then, then))


def index_of(file: Path) -> Path:
    return file.parent / "index" / "a-tfrecord.idx"


def rewrite(index: Path, change: Any) -> None:
    """Change the sizes that an index tells."""
    text = index_text(np.cumsum(change([size for _, size in lines(index)])))
    index.write_bytes(text)


def test_an_index_older_than_its_file_is_not_used(indexed: tuple[Path, list[bytes]]) -> None:
    file, records = indexed
    random.Random(5).shuffle(records)
    file.write_bytes(b"".join(map(frame, records)))
    age(index_of(file), 5)
    assert list(numbered(file)) == records


def test_a_file_is_read_where_its_index_turns_out_wrong(
    indexed: tuple[Path, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, records = indexed
    records.reverse()
    file.write_bytes(b"".join(map(frame, records)))
    os.utime(index_of(file))
    # Not a record of these is where its index says, so that the first look tells.
    reads = []
    confirmed = tfrec_cli.reading.places.confirmed

    def counted(*args: Any) -> Any:
        reads.append(args)
        return confirmed(*args)

    monkeypatch.setattr("tfrec_cli.reading.random_access.confirmed", counted)
    found = numbered(file)
    assert [found[n] for n in range(2000, 3002)] == records[2000:]
    assert found[:2000] == records[:2000]
    assert pickle.loads(pickle.dumps(found))[7] == records[7]
    assert len(reads) == 1


def _moved(sizes: list[int]) -> list[int]:
    return [*sizes[:10], sizes[10] + 1, sizes[11] - 1, *sizes[12:]]


def _moved_large(sizes: list[int]) -> list[int]:
    return [*sizes[:1000], sizes[1000] + 1, sizes[1001] - 1, *sizes[1002:]]


@pytest.mark.parametrize("change", [_moved, _moved_large])
def test_places_that_are_wrong_are_no_damage(
    indexed: tuple[Path, list[bytes]], change: Any
) -> None:
    file, records = indexed
    rewrite(index_of(file), change)
    assert list(numbered(file)) == records


def _merged(sizes: list[int]) -> list[int]:
    return [*sizes[:10], sizes[10] + sizes[11], *sizes[12:]]


def _split(sizes: list[int]) -> list[int]:
    return [*sizes[:10], 20, sizes[10] + sizes[11] - 20, *sizes[12:]]


def test_an_index_of_other_records_is_named(indexed: tuple[Path, list[bytes]]) -> None:
    file, _ = indexed
    rewrite(index_of(file), _merged)
    found = numbered(file)
    with pytest.raises(DatasetError, match=r"3,002 records, but its index .*\.idx has 3,001: "):
        found[10]


def test_an_index_is_wrong_and_a_record_damaged(indexed: tuple[Path, list[bytes]]) -> None:
    file, records = indexed
    data = bytearray(file.read_bytes())
    data[14] ^= 1
    file.write_bytes(data)
    os.utime(index_of(file))
    rewrite(index_of(file), _moved)
    found = numbered(file)
    assert found[1:] == records[1:]
    with pytest.raises(DamageError, match="record 0, byte 0:"):
        found[0]
    data[0] ^= 1
    file.write_bytes(data)
    os.utime(index_of(file))
    # What is behind a damaged length cannot be told from the file, so the index is believed there.
    found = numbered(file)
    assert found[1000:] == records[1000:]
    rewrite(index_of(file), lambda sizes: sizes[:1] + sizes[1:][::-1])
    with pytest.raises(DamageError):
        numbered(file)[1500]


@pytest.mark.parametrize("change", [_merged, _split, lambda sizes: sizes[::-1]])
def test_an_index_is_not_used_that_the_manifest_does_not_know(people: Path, change: Any) -> None:
    path = convert(people, "people", index="dali")
    records = list(numbered(path))
    (index,) = (path / "index").iterdir()
    rewrite(index, change)
    assert list(numbered(path)) == records
    (shard,) = path.glob("*.tfrecord-*")
    assert list(numbered(shard)) == records


def test_an_index_of_another_number_of_records_is_not_used(people: Path) -> None:
    path = convert(people, "people")
    records = list(numbered(path))
    (shard,) = path.glob("*.tfrecord-*")
    ends = np.cumsum([len(r) + 16 for r in records])
    (path / "index").mkdir()
    index = path / "index" / index_name(shard.name, "dali")
    index.write_bytes(index_text(np.delete(ends, 200)))
    assert list(numbered(path)) == records


def test_the_index_of_a_copied_dataset_is_used_whatever_its_age(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = convert(people, "people", index="dali")
    (index,) = (path / "index").iterdir()
    age(index, 5)
    records = list(tfrec_cli.open_dataset(path).records())
    monkeypatch.delattr("tfrec_cli.reading.places.find_records")
    assert list(numbered(path)) == records


def test_of_a_folder_with_a_damaged_file_nothing_is_indexed(tmp_path: Path) -> None:
    good = b"".join(frame(bytes(n)) for n in range(100))
    (tmp_path / "a.tfrecord").write_bytes(good)
    (tmp_path / "b.tfrecord").write_bytes(good[:-1])
    with pytest.raises(DamageError, match=r"b\.tfrecord, record 99"):
        write_indexes([str(tmp_path)], BOTH)
    assert sorted(os.listdir(tmp_path)) == ["a.tfrecord", "b.tfrecord"]
    (tmp_path / "b.tfrecord").write_bytes(good)
    write_indexes([str(tmp_path)], BOTH)
    before = {path: path.read_bytes() for path in (tmp_path / "index").iterdir()}
    (tmp_path / "a.tfrecord").write_bytes(good * 2)
    (tmp_path / "b.tfrecord").write_bytes(good + b"\0")
    with pytest.raises(DamageError, match=r"b\.tfrecord, record 100"):
        write_indexes([str(tmp_path)], BOTH)
    assert {path: path.read_bytes() for path in (tmp_path / "index").iterdir()} == before
    assert sorted(os.listdir(tmp_path)) == ["a.tfrecord", "b.tfrecord", "index"]


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(b"x"))
    for make in (lambda p: p.write_text("notes"), lambda p: p.symlink_to(tmp_path / "nowhere")):
        make(tmp_path / "index")
        with pytest.raises(DatasetError, match="index is there and is no folder"):
            write_indexes([str(tmp_path / "a.tfrecord")], BOTH)
        (tmp_path / "index").unlink()
    assert os.listdir(tmp_path) == ["a.tfrecord"]


def test_files_that_would_have_one_index_are_named(tmp_path: Path) -> None:
    for name in ("x.tfrecord", "x-tfrecord"):
        (tmp_path / name).write_bytes(frame(b"a"))
    for paths in ([tmp_path], [tmp_path / "x.tfrecord", tmp_path / "x-tfrecord"]):
        with pytest.raises(DatasetError, match=r"x.tfrecord.* and .*x.tfrecord: the index of"):
            write_indexes(list(map(str, paths)), ("tfindex",))
    assert files(tmp_path) == ["x-tfrecord", "x.tfrecord"]
    write_indexes([str(tmp_path / "x.tfrecord")] * 2, ("tfindex",))


def test_what_a_killed_index_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(b"x") * 10)
    script = (
        "import os, signal, sys\n"
        "from tfrec_cli import indexing\n"
        "indexing.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "indexing.write_indexes([sys.argv[1]], ['dali'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert len(os.listdir(tmp_path)) > 2
    write_indexes([str(tmp_path)], ("tfindex",))
    assert sorted(os.listdir(tmp_path)) == ["a.tfrecord", "index"]
    assert os.listdir(tmp_path / "index") == ["a-tfrecord.tfindex"]


PEAK = """
import resource, sys, tfrec_cli
from tfrec_cli.indexing import write_indexes
if sys.argv[2] == "index":
    write_indexes([sys.argv[1]], ("dali", "tfindex"))
else:
    records = tfrec_cli.open_dataset(sys.argv[1]).by_number()
    assert records[len(records) // 2] == records[-1] == b""
try:
    # Of what was before the program of the process was changed, this knows nothing.
    lines = open("/proc/self/status").read().splitlines()
    print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
except FileNotFoundError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_records(tmp_path: Path) -> None:
    peaks: dict[str, list[int]] = {}
    for count in (100_000, 6_000_000):
        (tmp_path / f"{count}").mkdir()
        (tmp_path / f"{count}" / "a.tfrecord").write_bytes(frame(b"") * count)
        # Read by its records, indexed, read by its index.
        for way in ("read", "index", "jump"):
            command = [sys.executable, "-c", PEAK, str(tmp_path / f"{count}"), way]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peaks.setdefault(way, []).append(int(done.stdout))
    for way, (few, many) in peaks.items():
        assert many - few < 24 * 1024, way
