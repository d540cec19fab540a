"""What others have found in the output folders of converters, and what is in those of tfrec."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest
from conftest import content, read_records

import tfrec_cli
from tfrec_cli.errors import DatasetError


def write(path: Path, numbers: range) -> Path:
    path.write_text("a\n" + "".join(f"{n}\n" for n in numbers))
    return path


def test_fewer_shards_than_before_are_never_beside_the_old_ones(tmp_path: Path) -> None:
    first = write(tmp_path / "first.csv", range(20))
    second = write(tmp_path / "second.csv", range(100, 105))
    out = tmp_path / "out"
    tfrec_cli.convert(first, out, shards=4)
    before = content(out)
    with pytest.raises(DatasetError, match="out holds a finished dataset"):
        tfrec_cli.convert(second, out, shards=2)
    assert content(out) == before
    tfrec_cli.convert(second, out, shards=2, overwrite=True)
    assert sorted(content(out)) == [
        "manifest.json",
        "out-train.tfrecord-00000-of-00002",
        "out-train.tfrecord-00001-of-00002",
        "schema.yaml",
    ]
    assert len(read_records(out)) == 5


def test_a_pattern_for_shards_finds_nothing_but_shards(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("a,c\n1,x\n2,y\n")
    schema = tmp_path / "s.yaml"
    schema.write_text("version: 1\nfeatures: {a: int64, c: {type: int64, labels: auto}}\n")
    out = tmp_path / "out"
    options = {"index": "dali,tfindex", "metadata": "tfds,tfmd"}
    tfrec_cli.convert(source, out, schema=schema, **options)
    assert len(content(out)) > 6
    shard = "out-train.tfrecord-00000-of-00001"
    assert [p.name for p in out.rglob("*.tfrecord*") if p.is_file()] == [shard]
    assert len(read_records(out)) == 2


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_the_same_run_twice_makes_the_same_bytes(tmp_path: Path, compression: str) -> None:
    source = tmp_path / "k.csv"
    source.write_text("zeta,alpha,mid\n1,2,3\n4,5,6\n")
    for name in ("one", "two"):
        tfrec_cli.convert(source, tmp_path / name, name="k", compression=compression)
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_a_single_record_is_written_to_its_last_byte(tmp_path: Path, compression: str) -> None:
    source = tmp_path / "one.csv"
    source.write_text("t\nstart\n")
    tfrec_cli.convert(source, tmp_path / "out", compression=compression)
    (shard,) = (tmp_path / "out").glob("*.tfrecord-*")
    opened = {"none": bytes, "gzip": gzip.decompress, "zlib": zlib.decompress}[compression]
    assert shard.name.endswith({"none": "1", "gzip": ".gz", "zlib": ".zz"}[compression])
    # The end of a compressed file is checked by these.
    assert b"start" in opened(shard.read_bytes())
    assert len(read_records(tmp_path / "out")) == 1
