import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.dataset.naming import (
    MAX_NAME,
    check_split,
    identifier,
    parse_dest,
    shard_names,
    shard_rows,
)
from tfrec_cli.errors import UsageError
from tfrec_cli.options import Compression

GZIP, ZLIB, NONE = Compression("gzip"), Compression("zlib"), Compression()


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("out", "folder", "out"),
        ("runs/my data-2", "folder", "my_data_2"),
        ("out/", "folder", "out"),
        ("x.tfrecord/", "folder", "x_tfrecord"),
        ("v1.0", "folder", "v1_0"),
        ("2024", "folder", "data_2024"),
        ("café", "folder", "cafe"),
        ("数据", "folder", "data"),
        ("a/train.tfrecord", "file", "train"),
        ("train.tfrecords", "file", "train"),
        ("train.TFREC", "file", "train"),
        ("-", "stdout", "data"),
    ],
)
def test_dest_is_a_folder_a_file_or_standard_output(text, kind, name):
    dest = parse_dest(text)
    assert (dest.kind, dest.name, dest.compression) == (kind, name, NONE)
    assert kind == "stdout" or dest.path.is_absolute()


@pytest.mark.parametrize(
    ("text", "asked", "agreed"),
    [
        ("a.tfrecord.gz", None, GZIP),
        ("a.tfrecords.zz", None, ZLIB),
        ("a.tfrecord.gz", Compression("gzip", 9), Compression("gzip", 9)),
        ("a.tfrec", NONE, NONE),
        ("out", GZIP, GZIP),
        ("-", ZLIB, ZLIB),
    ],
)
def test_suffix_and_option_agree_on_the_compression(text, asked, agreed):
    assert parse_dest(text, asked).compression == agreed


@pytest.mark.parametrize(
    ("text", "asked"),
    [("a.tfrecord", GZIP), ("a.tfrecord.gz", NONE), ("a.tfrecord.gz", ZLIB), ("a.tfrec.zz", GZIP)],
)
def test_a_suffix_that_disagrees_is_refused(text, asked):
    with pytest.raises(UsageError, match=f"--compression {asked.kind}"):
        parse_dest(text, asked)


@pytest.mark.parametrize(
    "text",
    ["b.csv", "b.CSV.gz", "t.parquet", "p/x.jpg", "x.PNG", "rows.jsonl", "schema.yaml"],
)
def test_a_dest_called_like_a_source_is_a_forgotten_dest(text):
    with pytest.raises(UsageError, match="looks like a source"):
        parse_dest(text)


def test_a_source_itself_is_no_dest(tmp_path):
    table = tmp_path / "table"
    table.write_text("a\n1\n")
    link = tmp_path / "other"
    link.symlink_to(table)
    for given_dest in (str(table), str(link), f"{tmp_path}/./table"):
        with pytest.raises(UsageError, match="is a source"):
            parse_dest(given_dest, sources=[object(), "-", str(table)])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "empty"),
        ("a\0b", "empty"),
        ("/", "root"),
        ("s3://bucket/out", "local"),
        ("x.record", "x.tfrecord"),
        ("x.tfrecord.zst", "x.tfrecord"),
        ("out.gz", "out.tfrecord"),
        ("d-train.tfrecord-00000-of-00002.gz", "numbered by tfrec"),
    ],
)
def test_names_that_are_nearly_right_are_refused_with_the_right_one(text, hint):
    with pytest.raises(UsageError, match=re.escape(hint)):
        parse_dest(text)


def test_an_existing_folder_may_be_called_as_it_likes(tmp_path):
    (tmp_path / "x.csv").mkdir()
    assert parse_dest(str(tmp_path / "x.csv")).kind == "folder"


def test_the_name_can_be_chosen_and_is_checked():
    assert parse_dest("out", name="my_data").shards("train", 1) == (
        "my_data-train.tfrecord-00000-of-00001",
    )
    with pytest.raises(UsageError, match='such as "my_data"'):
        parse_dest("out", name="my-data")


@given(st.text())
def test_any_text_gives_a_name_that_readers_accept(text):
    name = identifier(text)
    assert re.fullmatch(r"[a-zA-Z]\w*", name, re.ASCII)
    assert len(name) <= MAX_NAME
    assert identifier(name) == name


def test_shards_are_numbered_from_zero_with_five_digits():
    assert shard_names("d", "train", 2, GZIP) == (
        "d-train.tfrecord-00000-of-00002.gz",
        "d-train.tfrecord-00001-of-00002.gz",
    )
    assert shard_names("d", "test", 100_001, ZLIB)[-1] == ("d-test.tfrecord-100000-of-100001.zz")
    assert parse_dest("x/a.tfrecord").shards("train", 1) == ("a.tfrecord",)


@pytest.mark.parametrize("split", ["", "a b", "train/x", "é", "x" * 61, "a.b"])
def test_odd_split_names_are_refused(split):
    with pytest.raises(UsageError, match="split name"):
        check_split(split)
    assert check_split("train-2_A") == "train-2_A"


@given(st.integers(0, 10**12), st.integers(1, 500))
def test_shards_differ_by_one_record_at_most_larger_first(total, shards):
    rows = shard_rows(total, shards)
    assert (sum(rows), len(rows)) == (total, shards)
    assert rows == sorted(rows, reverse=True)
    assert rows[0] - rows[-1] <= 1


def test_hidden_names_are_apart_and_match_no_reader_pattern():
    from fnmatch import fnmatch

    files = ["a.tfrecord", "a.tfrecord.gz", "a.tfrecords", "a.tfrec", "a.b.tfrec.zz"]
    homes = [parse_dest(f).home.name for f in files]
    assert len(set(homes)) == len(files)
    for home in homes:
        assert home.startswith(".")
        assert not fnmatch(home, "*.tfrecord*")
        assert not fnmatch(home, "*.tfrec")


def test_symbolic_links_in_dest_are_kept(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert parse_dest(os.fspath(tmp_path / "link")).path == tmp_path / "link"
