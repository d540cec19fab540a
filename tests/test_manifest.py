import json
from fnmatch import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tfrec_cli.dataset.manifest import (
    FeatureFacts,
    Manifest,
    Rows,
    Shard,
    SideFile,
    SourceFile,
    Split,
    library_versions,
    load_manifest,
    side_files,
)
from tfrec_cli.dataset.plainform import plain_form
from tfrec_cli.errors import DamageError
from tfrec_cli.options import Compression

names = st.text(min_size=1, max_size=20) | st.just("x\udcff.csv")
files = names.filter(lambda name: not {"/", "\0"} & set(name) and name not in (".", ".."))
dataset_names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,149}", fullmatch=True)
split_names = st.from_regex(r"[A-Za-z0-9_-]{1,60}", fullmatch=True)
sizes = st.integers(0, 2**63)
crcs = st.integers(0, 2**32 - 1)
shards = st.builds(Shard, files, sizes, sizes, crcs)
manifests = st.builds(
    Manifest,
    name=dataset_names,
    compression=st.builds(
        Compression, st.sampled_from(["none", "gzip", "zlib"]), st.integers(0, 9)
    ),
    splits=st.lists(
        st.builds(Split, split_names, st.lists(shards, max_size=3).map(tuple)), max_size=3
    ).map(tuple),
    features=st.lists(
        st.builds(
            FeatureFacts,
            key=names,
            type=st.sampled_from(["int64", "float", "bytes"]),
            shape=st.none() | st.lists(sizes, max_size=2).map(tuple),
            row_lengths=st.lists(names, max_size=2).map(tuple),
            labels=st.none() | st.lists(names, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    rows=st.builds(Rows, sizes, sizes, sizes, sizes),
    files=st.lists(st.builds(SideFile, files, sizes, crcs), max_size=2).map(tuple),
    options=st.dictionaries(names, st.none() | st.booleans() | names | st.integers(), max_size=3),
    libraries=st.dictionaries(names, names, max_size=2),
    notices=st.lists(names, max_size=2).map(tuple),
    sources=st.lists(st.builds(SourceFile, names, sizes, sizes, st.none() | crcs), max_size=3).map(
        tuple
    ),
)


@given(manifests)
def test_what_is_written_is_what_is_read(manifest):
    text = manifest.to_json()
    again = Manifest.from_json(text)
    assert again == manifest
    assert again.to_json() == text
    assert text.isascii()


@st.composite
def changed(draw):
    """The entries of a manifest, one of them, or of what is in it, replaced or taken away."""
    entries = json.loads(draw(manifests).to_json())
    place = entries
    while True:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.booleans()):
            break
        place = inner
    if draw(st.booleans()):
        del place[key]
    else:
        scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
        others = st.sampled_from([[], {}, "1", 1.0, 2**70, ["1"], {"a": 1}, "none", "int64"])
        place[key] = draw(scalars | others)
    return entries


@given(changed())
def test_manifests_that_need_no_lenience_are_read_alike_without(entries):
    found = plain_form(Manifest, entries)
    if found is not None:
        assert found == TypeAdapter(Manifest).validate_python(entries)


@given(manifests)
def test_what_is_written_needs_no_lenience(manifest):
    assert plain_form(Manifest, json.loads(manifest.to_json())) == manifest


def small():
    train = Split("train", (Shard("d-train.tfrecord-00000-of-00001", 3, 99, 7),))
    return Manifest("d", Compression("gzip"), (train,), files=(SideFile("schema.yaml", 2, 1),))


def test_it_is_plain_json_with_counts_and_without_a_time():
    entries = json.loads(small().to_json())
    assert entries["splits"][0]["records"] == 3
    assert entries["splits"][0]["shards"][0] == {
        "name": "d-train.tfrecord-00000-of-00001",
        "records": 3,
        "bytes": 99,
        "crc32c": 7,
    }
    assert entries["compression"] == {"kind": "gzip", "level": 6, "compressor": "zlib"}
    assert small().to_json() == small().to_json()
    assert small().names == ("d-train.tfrecord-00000-of-00001", "schema.yaml", "manifest.json")


def test_it_is_read_back_from_a_folder_and_from_beside_a_file(tmp_path):
    assert load_manifest(tmp_path) is None
    assert load_manifest(tmp_path / "nothing") is None
    (tmp_path / "manifest.json").write_text(small().to_json())
    assert load_manifest(tmp_path) == small()
    home = tmp_path / ".a-tfrecord-gz.tfrec.d"
    home.mkdir()
    (home / "manifest.json").write_text(small().to_json())
    (tmp_path / "a.tfrecord.gz").write_bytes(b"")
    assert load_manifest(str(tmp_path / "a.tfrecord.gz")) == small()
    assert load_manifest(tmp_path / "a.tfrecord") is None


@pytest.mark.parametrize("text", ["", "{}", '{"name": "my web app", "icons": []}', "\0\0"])
def test_another_programs_manifest_is_not_ours(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    assert load_manifest(tmp_path) is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"records": 3, "bytes"', '"records": "x", "bytes"', "splits.0.shards.0.records"),
        ('"name": "d"', '"nome": "d"', "name"),
        ('"kind": "gzip"', '"kind": "zstd"', "compression.kind"),
        ('"name": "schema.yaml"', '"name": "../schema.yaml"', "not a file name"),
        ('"name": "d"', '"name": "../d"', '"../d" is not a dataset name'),
        ('"name": "d"', '"name": "d\\n\\u0000"', "is not a dataset name"),
        ('"name": "train"', '"name": "../x"', '"../x" is not a split name'),
        ('"name": "train"', '"name": "/tmp/x"', '"/tmp/x" is not a split name'),
        ('"name": "train"', '"name": ""', "is not a split name"),
        ("\n", "", None),
        ("}\n", "", "is damaged"),
        ('"format": 1', '"format": 2', "newer"),
        ('"version"', '"varsion"', None),
    ],
)
def test_a_damaged_manifest_of_ours_is_named(tmp_path, old, new, says):
    text = small().to_json()
    assert old in text
    (tmp_path / "manifest.json").write_text(text.replace(old, new))
    if says is None:
        load_manifest(tmp_path)
        return
    with pytest.raises(DamageError, match=says) as caught:
        load_manifest(tmp_path)
    assert str(tmp_path / "manifest.json") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_cut_of_a_manifest_is_damage_or_not_ours(tmp_path):
    text = small().to_json()
    for end in range(len(text) - 2):
        (tmp_path / "manifest.json").write_text(text[:end])
        try:
            assert load_manifest(tmp_path) is None
        except DamageError:
            assert end >= len('{"tfrec":')


def test_label_files_are_named_by_their_feature():
    files = side_files("version: 1\n", {"image/class/label": ["cat", "dog\nhouse"]})
    assert files == {
        "schema.yaml": "version: 1\n",
        "image.class.label.labels.txt": "cat\ndog\\nhouse\n",
    }


def test_label_files_are_never_mistaken_hidden_or_lost():
    features = ["a/b", "a.b", "A/B", ".x", "../y", "z.tfrecord-0", "n\0l", "é" * 300, "\udcff"]
    files = side_files("version: 1", {feature: [feature[:1]] for feature in features})
    assert len({name.lower() for name in files}) == len(features) + 1
    for name in files:
        assert not name.startswith(".")
        assert not fnmatch(name, "*.tfrec*")
        assert "/" not in name
        assert "\0" not in name
        assert len(name.encode()) < 255


def test_libraries_are_recorded():
    assert set(library_versions(Compression())) == {"pyarrow"}
    assert set(library_versions(Compression("zlib"))) == {"pyarrow", "zlib"}
