"""`tfrec plan` tells what convert then does, and leaves nothing behind."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import read_examples, read_manifest
from PIL import Image

import tfrec_cli
from tfrec_cli.cli import cli
from tfrec_cli.cli.plan import _trial_line
from tfrec_cli.estimates import comparison, sample
from tfrec_cli.estimates.advice import advise_shards
from tfrec_cli.estimates.comparison import Trial, Workload, compare, recommend
from tfrec_cli.estimates.forecast import Forecast, forecast
from tfrec_cli.options import Compression, ConvertOptions


def tfrec(*args: str, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tfrec_cli", *args]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, check=False)


def planned(source: Any, dest: Path, compare: bool = False, **options: Any) -> Forecast:
    options.setdefault("jobs", 2)
    return forecast(ConvertOptions((str(source),), str(dest), **options), compare)


def tree(folder: Path) -> list[str]:
    return sorted(str(p) for p in folder.rglob("*"))


def written(dest: Path) -> int:
    splits = read_manifest(dest)["splits"]
    return sum(shard["bytes"] for split in splits for shard in split["shards"])


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Tables of several kinds; `longer` is of many files, its rows longer and longer."""
    source, rows = np.random.default_rng(1), 6000
    words = np.array(["alpha", "bravo", "écho", "delta", "naïve", "foxtrot"])
    narrow = pa.table(
        {
            "small": source.integers(0, 101, rows),
            "big": source.integers(-(2**63), 2**63 - 1, rows),
            "score": source.standard_normal(rows).astype(np.float32),
            "name": words[source.integers(0, 6, rows)],
        }
    )
    wide = {f"I{i}": np.floor(np.exp(source.normal(i, 1.2, rows))).astype(int) for i in range(12)}
    wide |= {f"C{i}": source.integers(0, 50, rows).astype(str) for i in range(8)}
    vectors = list(source.standard_normal((rows, 64)).astype(np.float32))
    (tmp_path / "longer").mkdir()
    for part in range(40):
        texts = [f"{n:x}" * (n // 50) for n in range(part * 150, part * 150 + 150)]
        pq.write_table(pa.table({"text": texts}), tmp_path / "longer" / f"{part:02}.parquet")
    for name, table in {
        "narrow": narrow,
        "wide": pa.table(wide),
        "vector": pa.table({"id": np.arange(rows), "vec": vectors}),
    }.items():
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=400)
    return tmp_path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    source = random.Random(3)
    for number in range(12):
        folder = tmp_path / "photos" / f"class_{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.frombytes("RGB", (80, 60), source.randbytes(80 * 60 * 3))
        image.save(folder / f"{number}.jpg", quality=88)
    return tmp_path / "photos"


@pytest.mark.parametrize("name", ["penguins.csv", "penguins.parquet", "digits", "digits.csv"])
@pytest.mark.parametrize("text", [None, "gzip", "zlib:1"])
@pytest.mark.parametrize("shards", [None, 3])
def test_it_tells_what_convert_does(
    examples: Path, name: str, text: str | None, shards: int | None
) -> None:
    way = None if text is None else Compression.parse(text)
    dest = examples / "dest"
    found = planned(examples / name, dest, compression=way, shards=shards)
    tfrec_cli.convert(examples / name, str(dest), compression=text, shards=shards)
    manifest = read_manifest(dest)
    assert [(s.name, s.records) for split in found.splits for s in split.shards] == [
        (s["name"], s["records"]) for split in manifest["splits"] for s in split["shards"]
    ]
    assert found.sample_whole
    assert found.bytes == pytest.approx(written(dest), rel=1e-9 if text is None else 0.03)


@pytest.mark.parametrize("name", ["narrow", "wide", "vector", "longer"])
@pytest.mark.parametrize("text", [None, "gzip:1"])
def test_a_sample_tells_the_size_within_a_tenth(
    tables: Path, name: str, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "SOURCE_BYTES", 1 << 12)
    monkeypatch.setattr(sample, "EXCERPT_BYTES", 1 << 18)
    source = tables / (name if name == "longer" else f"{name}.parquet")
    dest = tables / "out"
    way = None if text is None else Compression.parse(text)
    found = planned(source, dest, compression=way, shards=3)
    tfrec_cli.convert(source, str(dest), compression=text, shards=3)
    assert not found.sample_whole
    assert 0 < found.sampled_rows < found.rows
    assert found.bytes == pytest.approx(written(dest), rel=0.1)
    assert found.records == 6000


@pytest.mark.parametrize("where", [lambda n: n % 3000 > 2100, lambda n: n > 20_000])
def test_rows_that_compress_otherwise_than_others_are_met_wherever_they_are(
    tmp_path: Path, where: Callable[[int], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of each row group, or of the source."""
    monkeypatch.setattr(sample, "SOURCE_BYTES", 1 << 20)
    monkeypatch.setattr(sample, "EXCERPT_BYTES", 1 << 22)
    draw = np.random.default_rng(1)
    cells = [draw.bytes(400) if where(n) else b"over and over %d " % n * 25 for n in range(30_000)]
    pq.write_table(pa.table({"x": cells}), tmp_path / "a.parquet", row_group_size=3000)
    way, dest = Compression("gzip", 1), tmp_path / "out"
    found = planned(tmp_path / "a.parquet", dest, compression=way)
    tfrec_cli.convert(tmp_path / "a.parquet", str(dest), compression="gzip:1")
    assert found.bytes == pytest.approx(written(dest), rel=0.1)
    assert 0 < found.margin < 0.5
    assert abs(found.bytes - written(dest)) < found.margin * found.bytes
    assert planned(tmp_path / "a.parquet", dest).margin == 0


def test_how_sure_a_size_is_follows_from_how_stretches_differ() -> None:
    even, noise = b"abcd" * 4000, np.random.default_rng(1).bytes(16_000)
    assert comparison.margin([even] * 9, 0.1) == 0
    once = comparison.margin([even] * 32 + [noise] * 32, 0.5)
    often = comparison.margin([even, noise] * 32, 0.5)
    assert 0 < once < often < 1
    assert comparison.margin([even, noise] * 128, 0.5) < often


def test_what_no_stretch_stands_for_may_compress_not_at_all() -> None:
    even = b"abcd" * 4000
    assert comparison.margin([], 1.0) == comparison.margin([even], 0.8) == 1
    assert comparison.margin([even], 0.1) == pytest.approx(9)
    assert comparison.margin([even] * 9, 0.1, 0.5) == pytest.approx(4.5)


def framed(data: bytes) -> Iterator[bytes]:
    """The records of a file, each with its framing."""
    while data:
        size = int.from_bytes(data[:8], "little") + 16
        yield data[:size]
        data = data[size:]


@pytest.mark.parametrize("group", [1, 40])
@pytest.mark.parametrize("jobs", [1, 3])
def test_of_large_records_few_are_tried(
    tmp_path: Path, group: int, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row twice, and no more bytes than are told; also where later rows are larger still."""
    monkeypatch.setattr(sample, "SOURCE_BYTES", 1 << 18)
    monkeypatch.setattr(sample, "EXCERPT_BYTES", 1 << 18)
    excerpts = list[list[bytes]]()

    def tried(parts: list[bytes], *rest: float) -> float:
        excerpts.append(parts)
        return 0.5

    monkeypatch.setattr(sys.modules["tfrec_cli.estimates.forecast"], "margin", tried)
    draw = np.random.default_rng(1)
    for sizes in ([1 << 16] * 40, [1 << 10] * 20 + [1 << 18] * 20, [1 << 19] * 40):
        cells = [draw.bytes(size) for size in sizes]
        pq.write_table(pa.table({"x": cells}), tmp_path / "a.parquet", row_group_size=group)
        way = Compression("gzip", 1)
        found = planned(tmp_path / "a.parquet", tmp_path / "out", compression=way, jobs=jobs)
        parts = excerpts.pop()
        records = [record for part in parts for record in framed(part)]
        assert len(set(records)) == len(records) > 0
        assert sum(map(len, records)) - max(map(len, records)) < 1 << 18
        assert found.bytes == pytest.approx(sum(sizes), rel=0.1)


@pytest.mark.parametrize("looked", [1 << 18, 1 << 30])
def test_rows_that_lie_too_deep_to_be_tried_are_allowed_for(
    tmp_path: Path, looked: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A compressed file is read from its start, and its end may compress otherwise."""
    monkeypatch.setattr(sample, "SOURCE_BYTES", 1 << 16)
    monkeypatch.setattr(sample, "EXCERPT_BYTES", 1 << 18)
    monkeypatch.setattr(sample, "LOOKED_BYTES", looked)
    draw = random.Random(1)
    rows = ["over and over " * 20 if n < 9000 else draw.randbytes(140).hex() for n in range(60_000)]
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress("\n".join(["x", *rows]).encode(), 1))
    dest = tmp_path / "out"
    found = planned(tmp_path / "a.csv.gz", dest, compression=Compression("gzip", 1))
    tfrec_cli.convert(tmp_path / "a.csv.gz", str(dest), compression="gzip:1")
    assert abs(found.bytes - written(dest)) <= found.margin * found.bytes
    deep = looked == 1 << 18
    assert (found.unseen > 0.5) == deep
    assert (found.unseen == 0) == (not deep)
    assert (abs(found.bytes / written(dest) - 1) < 0.1) == (not deep)
    with pytest.raises(SystemExit):
        cli(["plan", str(tmp_path / "a.csv.gz"), str(tmp_path / "b"), "--compression", "gzip:1"])
    assert ("too deep in the source" in capsys.readouterr().out) == deep


def test_shuffled_records_compress_as_such(tmp_path: Path) -> None:
    rows = "".join(f"{n // 40},{n // 40 * 7919 % 1000}\n" for n in range(20_000))
    (tmp_path / "a.csv").write_text("group,value\n" + rows)
    way, dest = Compression("gzip", 6), tmp_path / "out"
    plain = planned(tmp_path / "a.csv", dest, compression=way)
    found = planned(tmp_path / "a.csv", dest, compression=way, shuffle=True)
    tfrec_cli.convert(tmp_path / "a.csv", str(dest), compression="gzip", shuffle=True)
    assert found.bytes == pytest.approx(written(dest), rel=0.1)
    assert found.bytes > 1.2 * plain.bytes


@pytest.mark.parametrize("rows", [2**30, 1])
@pytest.mark.parametrize("source", ["apart", "together"])
def test_sorted_records_compress_as_such(
    tmp_path: Path, source: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only a part of them is tried, if the keys of all can be held."""
    monkeypatch.setattr(sample, "EXCERPT_BYTES", 1 << 19)
    monkeypatch.setattr(sample, "SORTED_ROWS", rows)
    draw = random.Random(1)
    texts = [draw.randbytes(200).hex() for _ in range(200)]
    groups = [n % 200 if source == "apart" else n // 40 for n in range(8000)]
    table = pa.table({"group": groups, "text": [texts[group] for group in groups]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000)
    way, dest, by = Compression("gzip", 6), tmp_path / "out", ("group",)
    found = planned(tmp_path / "a.parquet", dest, compression=way, sort_by=by)
    tfrec_cli.convert(tmp_path / "a.parquet", str(dest), compression="gzip:6", sort_by=by)
    if rows == 1:
        assert found.thin
        assert found.margin >= 1
        assert found.bytes > written(dest)
    else:
        assert found.bytes == pytest.approx(written(dest), rel=0.3)
        assert (found.thin, found.margin < 0.5) == (False, True)
    whole = planned(tmp_path / "a.parquet", dest, compression=Compression(), sort_by=by)
    assert whole.margin == 0


def test_a_margin_as_large_as_the_size_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "a.csv"
    source.write_text("k,t\n" + "".join(f"{n},{n % 7 * 11111}\n" for n in range(20_000)))
    monkeypatch.setattr(sample, "EXCERPT_BYTES", 1 << 16)
    monkeypatch.setattr(sample, "SORTED_ROWS", 1)
    line = ["plan", str(source), str(tmp_path / "out"), "--compression", "gzip", "--sort-by", "t"]
    with pytest.raises(SystemExit):
        cli(line)
    out = capsys.readouterr().out
    assert "at most, perhaps far fewer: sorted rows lie nearer to each other" in out
    assert "%:" not in out


def test_rows_of_a_small_file_that_are_large_together_are_all_met(tmp_path: Path) -> None:
    """A dictionary, which holds a text once, was given up late, as it became large."""
    groups = np.arange(40_000) // 200
    texts = [f"v{group * 7919 % 100_003} " * 200 for group in range(200)]
    texts = [texts[group] for group in groups]
    table = pa.table({"group": groups, "text": texts})
    pq.write_table(table, tmp_path / "a.parquet", dictionary_pagesize_limit=200_000)
    for options in ({}, {"shuffle": True}, {"sort_by": ("group",)}):
        way, dest = Compression("gzip", 6), tmp_path / "out"
        found = planned(tmp_path / "a.parquet", dest, compression=way, **options)
        tfrec_cli.convert(
            tmp_path / "a.parquet", str(dest), compression="gzip:6", overwrite=True, **options
        )
        assert found.unseen == 0
        assert found.bytes == pytest.approx(written(dest), rel=0.2)


def test_asked_splits_are_those_of_convert(examples: Path) -> None:
    fractions = ["--split", "train=0.8,test=0.2", "--split-seed", "3", "--shuffle", "--json"]
    done = tfrec("plan", "penguins.csv", "dest", *fractions, cwd=examples)
    document = json.loads(done.stdout)
    tfrec("convert", "penguins.csv", "dest", *fractions, cwd=examples)
    for split, real in zip(
        document["splits"], read_manifest(examples / "dest")["splits"], strict=True
    ):
        assert (split["name"], split["records"]) == (real["name"], real["records"])
        assert [shard["name"] for shard in split["shards"]] == [s["name"] for s in real["shards"]]
        assert split["bytes"] == pytest.approx(sum(s["bytes"] for s in real["shards"]), rel=0.05)


def test_files_that_cells_name_are_sampled_all_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is small, its pictures are not, and the later the larger."""
    names = [f"{n}.bin" for n in range(300)]
    for n, name in enumerate(names):
        (tmp_path / name).write_bytes(random.Random(n).randbytes(100 + 20 * n))
    (tmp_path / "t.csv").write_text("path\n" + "".join(f"{name}\n" for name in names))
    schema = {"version": 1, "features": {"data": {"column": "path", "load": "file"}}}
    found = planned(tmp_path / "t.csv", tmp_path / "all", schema=schema, shards=1)
    assert (found.sampled_rows, found.sample_whole) == (240, False)
    monkeypatch.setattr(sample, "LOADED_ROWS", 40)
    few = planned(tmp_path / "t.csv", tmp_path / "out", schema=schema, shards=1)
    assert few.sampled_rows == 40
    tfrec_cli.convert(tmp_path / "t.csv", str(tmp_path / "out"), schema=schema, shards=1)
    real = written(tmp_path / "out")
    assert found.bytes == pytest.approx(real, rel=0.05)
    assert few.bytes == pytest.approx(real, rel=0.1)
    assert few.footprint.total == pytest.approx(few.plain_bytes)


def test_it_writes_nothing_at_all(examples: Path) -> None:
    before = tree(examples)
    for args in (["dest"], ["dest", "--compression", "gzip"], ["dest", "--compare-compression"],
                 ["a.tfrecord"], ["dest", "--on-error", "skip"], ["-"]):  # fmt: skip
        done = tfrec("plan", "penguins.csv", *args, cwd=examples)
        assert done.returncode == 0, done.stderr
    assert tree(examples) == before


def test_lines_fit_a_terminal(examples: Path) -> None:
    for source in ("penguins.csv", "digits", "digits.csv"):
        done = tfrec("plan", source, "dest", "--shards", "7", "--compare-compression", cwd=examples)
        assert max(len(line) for line in done.stdout.decode().splitlines()) <= 100
        assert b"00000-of-00007" in done.stdout
        assert b"00006-of-00007" in done.stdout


def test_json_is_one_document_of_whole_bytes(examples: Path) -> None:
    done = tfrec("plan", "penguins.csv", "dest", "--json", "--compare-compression", cwd=examples)
    document = json.loads(done.stdout)
    assert done.stderr == b""
    assert (document["rows"], document["records"], document["sample_whole"]) == (344, 344, True)
    (split,) = document["splits"]
    assert split["shards"][0]["name"] == "dest-train.tfrecord-00000-of-00001"
    assert split["bytes"] == document["bytes"] == document["plain_bytes"]
    places = document["footprint"]
    assert sum(places[name] for name in ("values", "names", "protobuf", "framing")) == (
        pytest.approx(places["total"], abs=2)
    )
    assert document["comparison"]["trials"][0]["compression"]["kind"] == "none"
    assert document["seconds"] > 0


def test_quiet_prints_nothing(examples: Path) -> None:
    done = tfrec("plan", "penguins.csv", "dest", "-q", cwd=examples)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_splits_of_the_source_are_told_apart(tmp_path: Path, photos: Path) -> None:
    split = tmp_path / "split"
    (split / "train").mkdir(parents=True)
    photos.rename(split / "train" / "cats")
    (split / "test" / "cats").mkdir(parents=True)
    Image.new("RGB", (500, 500)).save(split / "test" / "cats" / "flat.png")
    found = planned(split, tmp_path / "out")
    tfrec_cli.convert(split, str(tmp_path / "out"))
    real = {
        s["name"]: sum(shard["bytes"] for shard in s["shards"])
        for s in read_manifest(tmp_path / "out")["splits"]
    }
    assert {s.name: round(s.bytes) for s in found.splits} == real


def test_the_footprint_is_that_of_the_records(examples: Path) -> None:
    """Every record taken apart by TensorFlow's own messages."""
    dest = examples / "dest"
    found = planned(examples / "penguins.csv", dest).footprint
    tfrec_cli.convert(examples / "penguins.csv", str(dest))
    records = read_examples(dest)
    for feature in found.features:
        present = [record[feature.key] for record in records if feature.key in record]
        assert feature.names == len(feature.key) * len(present)
        assert feature.values == sum(value_bytes(v) for values in present for v in values)
    assert found.framing == 16 * len(records)
    assert found.total == pytest.approx(written(dest))
    assert all(feature.other > 0 for feature in found.features)
    # Per record: a tag and a length around all features.
    assert 2 * len(records) <= found.other <= 3 * len(records)


def value_bytes(value: int | float | bytes) -> int:
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, float):
        return 4
    return max(1, -(-value.bit_length() // 7)) if value >= 0 else 10


def test_long_negative_missing_and_listed_values_are_counted(tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": pa.array([-1, None, 2**62, 127, 128]),
            "list": pa.array([[1, 300], [], None, [-5], [0]]),
            "fixed": pa.array([[1.0, 2.0]] * 5, pa.list_(pa.float32(), 2)),
            "blob": pa.array([b"x" * 20_000, b"", None, b"y" * 3_000_000, b"z"]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    found = planned(tmp_path / "t.parquet", tmp_path / "out").footprint
    values = {feature.key: feature.values for feature in found.features}
    assert values == {"n": 10 + 9 + 1 + 2, "list": 3 + 10 + 1, "fixed": 40, "blob": 3_020_001}
    tfrec_cli.convert(tmp_path / "t.parquet", str(tmp_path / "out"))
    assert found.total == written(tmp_path / "out")
    assert 2 * 5 <= found.other <= 5 * 5


def saved(found: Forecast, kind: str) -> float:
    return next(saving.bytes for saving in found.savings if saving.kind == kind)


def test_what_would_save_bytes_does(examples: Path, tables: Path) -> None:
    source = tables / "wide.parquet"
    found = planned(source, tables / "out")
    tfrec_cli.convert(source, str(tables / "plain"))
    plain = written(tables / "plain")

    names = [f"I{i}" for i in range(12)] + [f"C{i}" for i in range(8)]
    letters = {chr(ord("a") + n): {"column": name} for n, name in enumerate(names)}
    types = {f"I{i}": "int64" for i in range(12)} | {f"C{i}": "bytes" for i in range(8)}
    short = {k: v | {"type": types[v["column"]]} for k, v in letters.items()}
    tfrec_cli.convert(source, str(tables / "short"), schema={"version": 1, "features": short})
    assert saved(found, "names") == plain - written(tables / "short")

    vector = {f"C{i}": "bytes" for i in range(8)} | {"I": {"columns": "I[0-9]*", "type": "int64"}}
    tfrec_cli.convert(source, str(tables / "vector"), schema={"version": 1, "features": vector})
    assert saved(found, "vector") == plain - written(tables / "vector")
    (text,) = [saving.text for saving in found.savings if saving.kind == "vector"]
    assert 'I: {columns: "I[0-9]*", type: int64}' in text

    tfrec_cli.convert(source, str(tables / "gzip"), compression="gzip")
    assert saved(found, "gzip") == pytest.approx(plain - written(tables / "gzip"), rel=0.02)


def test_gzip_is_no_saving_where_it_is_at_work(examples: Path) -> None:
    found = planned(examples / "penguins.csv", examples / "d", compression=Compression("gzip"))
    assert "gzip" not in [saving.kind for saving in found.savings]


def test_all_compressions_are_compared_by_what_they_do(examples: Path) -> None:
    dest = examples / "out"
    found = planned(examples / "penguins.csv", dest, True).comparison
    assert found is not None
    for trial in found.trials:
        way = trial.compression
        text = way.kind if way.kind == "none" else f"{way.kind}:{way.level}"
        tfrec_cli.convert(
            examples / "penguins.csv",
            str(dest),
            compression=text,
            compressor=way.compressor,
            overwrite=True,
        )
        assert trial.bytes == pytest.approx(written(dest), rel=0.001), text
        assert trial.write_seconds > 0
        assert trial.read_seconds > 0
    ways = {(t.compression.kind, t.compression.compressor) for t in found.trials}
    assert {("none", "zlib"), ("gzip", "zlib"), ("zlib", "zlib")} <= ways
    assert found.recommended.kind == "gzip"
    assert "Recommended: --compression gzip:" in found.sentence


def test_images_are_left_alone(photos: Path, tmp_path: Path, examples: Path) -> None:
    for source in (photos, examples / "digits"):
        found = planned(source, tmp_path / "out", True)
        assert found.comparison is not None
        assert found.comparison.recommended == Compression()
        assert "Recommended: none." in found.comparison.sentence
        assert "images" in found.comparison.sentence


def test_times_too_short_for_four_digits_are_shown_in_microseconds() -> None:
    trial = Trial(Compression(), 50.0, 1.0, 0.00001, 0.0012)
    assert _trial_line(trial).endswith("10.0 µs    0.0012 s")


def test_noise_is_left_alone() -> None:
    trials = compare(random.Random(1).randbytes(300_000), Workload(3e8, 3e8, 1.0, 2))
    best, sentence = recommend(trials, 0.0)
    assert best == Compression()
    assert "hardly compress" in sentence


def test_isals_lowest_level_is_never_recommended() -> None:
    ways = [Compression(), Compression("gzip", 0, "isal"), Compression("gzip", 6, "zlib")]
    trials = [Trial(way, 50.0, 0.5, 1.0 + n, 1.0) for n, way in enumerate(ways)]
    assert recommend(trials, 0.0)[0] == ways[2]


def test_absent_compressors_are_named(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "is_installed", lambda name: name == "zlib")
    found = planned(examples / "penguins.csv", examples / "out", True).comparison
    assert found is not None
    assert found.absent == ("isal", "libdeflate")
    assert {trial.compression.compressor for trial in found.trials} == {"zlib"}


@pytest.mark.parametrize(
    ("shards", "size", "records", "words"),
    [
        (1, 5e6, 100, "one shard is right"),
        (8, 16e6, 100, "fewer shards. 2.0 MB each"),
        (8, 16e6, 100, "--shards 1 "),
        (2, 270e6, 100, "--shards 10 (27.0 MB each)"),
        (1, 45e6, 100, "--shards 4 "),
        (1, 45e6, 2, "--shards 2 "),
        (20, 2.5e9, 9999, "20 shards of 125.0 MB are right for up to 2 reading hosts"),
        (10, 20e9, 9999, "--shards 200 "),
        (10, 300e6, 9999, "10 shards of 30.0 MB are right for one reading host"),
    ],
)
def test_shards_follow_the_guide(shards: int, size: float, records: int, words: str) -> None:
    assert words in advise_shards("train", shards, size, records)


def test_an_occupied_dest_is_no_error_but_told(examples: Path) -> None:
    tfrec("convert", "penguins.csv", "dest", cwd=examples)
    before = tree(examples)
    other = ["plan", "penguins.csv", "dest", "--limit", "7"]
    done = tfrec(*other, cwd=examples)
    assert done.returncode == 0
    assert b"note: convert would stop now: dest holds a finished dataset" in done.stderr
    assert b"--limit was not given, now it is 7" in done.stderr
    assert b"would stop" not in tfrec(*other, "--overwrite", cwd=examples).stderr
    assert b"would stop" not in tfrec("plan", "penguins.csv", "dest", cwd=examples).stderr
    assert tree(examples) == before


def test_it_fails_as_convert_does(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,age\n1,31\n2,forty\n")
    (tmp_path / "s.yaml").write_text("version: 1\nfeatures: {age: int64}\n")
    for args, code in (
        (["a.csv", "out", "--schema", "s.yaml"], 1),
        (["none.csv", "out"], 1),
        (["a.csv", "out.csv"], 2),
        (["a.csv", "out", "--compression", "lzma"], 2),
        (["a.csv", "out", "--compressor", "isal"], 2),
        (["a.csv", "out.tfrecord", "--shards", "2"], 2),
    ):
        plan, convert = (tfrec(command, *args, cwd=tmp_path) for command in ("plan", "convert"))
        assert (plan.returncode, plan.stderr) == (convert.returncode, convert.stderr)
        assert plan.returncode == code, args
        assert plan.stdout == b""
    assert b"Usage: tfrec plan SOURCE... DEST" in tfrec("plan", "a.csv", cwd=tmp_path).stderr


def test_rows_in_error_are_counted_and_not_listed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,age\n1,31\n2,forty\n3,7\n")
    (tmp_path / "s.yaml").write_text("version: 1\nfeatures: {age: int64, id: int64}\n")
    before = tree(tmp_path)
    options = ["--schema", "s.yaml", "--on-error", "skip", "--json"]
    done = tfrec("plan", "a.csv", "out", *options, cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (document["rows"], document["records"], document["rejected"]) == (3, 2, 1)
    assert tree(tmp_path) == before
    tfrec("convert", "a.csv", "out", *options, cwd=tmp_path)
    assert document["bytes"] == written(tmp_path / "out")


def test_a_limit_counts(examples: Path) -> None:
    found = planned(examples / "penguins.csv", examples / "out", limit=50)
    assert (found.records, found.sampled_rows) == (50, 50)
    tfrec_cli.convert(examples / "penguins.csv", str(examples / "out"), limit=50)
    assert found.bytes == pytest.approx(written(examples / "out"))


def test_standard_input_can_be_planned(tmp_path: Path) -> None:
    done = tfrec("plan", "-", "out", "--source", "csv", cwd=tmp_path, stdin=b"a,b\n1,x\n2,y\n")
    assert done.returncode == 0
    assert b"2 records in 1 shard" in done.stdout
    assert os.listdir(tmp_path) == []


def test_tables_in_memory_can_be_planned(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2, 3]})
    found = forecast(ConvertOptions((table,), str(tmp_path / "out")))
    tfrec_cli.convert(table, str(tmp_path / "out"))
    assert (found.records, round(found.bytes)) == (3, written(tmp_path / "out"))


def test_images_are_known_by_their_bytes() -> None:
    stream = io.BytesIO()
    Image.new("RGB", (9, 9)).save(stream, "PNG")
    table = pa.table({"photo": [stream.getvalue()] * 3, "note": [b"text", None, b""]})
    found = forecast(ConvertOptions((table,), "out"))
    assert found.footprint.images == 3 * len(stream.getvalue())


def test_numbered_features_are_shown_together(examples: Path) -> None:
    found = planned(examples / "digits.csv", examples / "out").footprint
    pixels = [feature for feature in found.features if feature.key.startswith("pixel")]
    assert len(pixels) == 64
    first, last = found.groups
    assert (first.key, last.key) == ("pixel0 … pixel63 (64)", "label")
    assert first.total == sum(feature.total for feature in pixels)


def test_sorted_records_may_be_large_together_so_shards_have_no_size(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n,t\n" + "".join(f"{n},{'x' * n}\n" for n in range(200)))
    where = ["plan", "t.csv", "out", "--sort-by", "n"]
    done = json.loads(tfrec(*where, "--shards", "4", "--json", cwd=tmp_path).stdout)
    (split,) = done["splits"]
    assert [(shard["records"], shard["bytes"]) for shard in split["shards"]] == [(50, None)] * 4
    assert split["bytes"] > 20_000
    text = tfrec(*where, "--shards", "4", cwd=tmp_path).stdout.decode()
    lines = [line for line in text.splitlines() if "-of-00004" in line]
    assert len(lines) == 4
    assert all(line.endswith("  50 records") for line in lines)
    assert planned(tmp_path / "t.csv", tmp_path / "o", sort_by=("n",)).splits[0].shards[0].bytes
    assert planned(tmp_path / "t.csv", tmp_path / "o", shards=4).splits[0].shards[3].bytes


def test_a_line_of_convert_is_a_plan_by_one_word(examples: Path) -> None:
    options = [
        *("--verify", "--rejects", "rejects.jsonl", "--on-error", "skip", "--no-fsync"),
        *("--profile", "--profile-trace", "trace.json", "--profile-tensorboard", "events"),
    ]
    before = sorted(os.listdir(examples))
    for more in (["--overwrite", "--force"], ["--resume"]):
        done = tfrec("plan", "penguins.csv", "dest", *options, *more, cwd=examples)
        assert (done.returncode, done.stdout[:17]) == (0, b"dest: 344 records"), done.stderr
    assert sorted(os.listdir(examples)) == before
    plan, convert = (
        {param.name for param in cli.get_command(click.Context(cli), name).params}  # type: ignore[attr-defined]
        for name in ("plan", "convert")
    )
    assert convert - plan == set()
