"""The scripts that `tfrec loader` prints read what was written, with the packages themselves."""

from __future__ import annotations

import ast
import gzip
import json
import os
import subprocess
import sys
import zlib
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import EXAMPLES, package_or_skip, run_with
from test_kernel_examples import entry, example, ints

import tfrec_cli
from tfrec_cli.dataset.manifest import FeatureFacts, Shard, Split, load_manifest
from tfrec_cli.errors import DatasetError, UsageError
from tfrec_cli.loaders import FRAMEWORKS, Framework, loader_script
from tfrec_cli.records.framing import frame

ROWS = 60
PACKAGES: dict[Framework, str] = {"tf": "tensorflow", "torch": "torch", "grain": "grain"}


def mixed() -> pa.Table:
    """All that features can be; row n can be told from its id alone."""
    return pa.table({
        "id": pa.array(range(ROWS)),
        "score": pa.array([None if n % 5 == 0 else n / 4 for n in range(ROWS)], pa.float32()),
        "count": pa.array([None if n % 5 == 1 else n for n in range(ROWS)]),
        "word": pa.array([None if n % 5 == 2 else f"w{n}" for n in range(ROWS)]),
        "vector": pa.array(
            [None if n % 5 == 3 else [n, n + 1, n + 2] for n in range(ROWS)],
            pa.list_(pa.float32(), 3),
        ),
        "tokens": pa.array([None if n % 7 == 6 else [n] * (n % 4) for n in range(ROWS)]),
        "words": pa.array([["a"] * (n % 3) for n in range(ROWS)]),
        "nested": pa.array([[[n], [n, n]][: n % 3] for n in range(ROWS)]),
        "it's {odd}": pa.array([n % 2 for n in range(ROWS)]),
    })  # fmt: skip


def example_of(number: int) -> bytes:
    """A serialized Example with the feature `x`."""
    value = b"\x1a\x03\x0a\x01" + bytes([number])
    entry = b"\x0a\x01x\x12" + bytes([len(value)]) + value
    features = b"\x0a" + bytes([len(entry)]) + entry
    return b"\x0a" + bytes([len(features)]) + features


CHECK = """
import json, sys
import numpy as np

def rows(batch, ragged):
    "A batch as records, from what the script gives."
    found = []
    for i in range(len(batch["id"])):
        record = {}
        for key, value in batch.items():
            if key.endswith(("/present", "/lengths")):
                continue
            one = ragged(batch, key, i) if ragged(batch, key, i) is not None else value[i]
            present = batch.get(key + "/present")
            record[key] = one if present is None or present[i] else None
        found.append({k: plain(v) for k, v in record.items()})
    return found

def plain(value):
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value.decode() if isinstance(value, bytes) else value
"""

TORCH = (
    CHECK
    + """
import load
def ragged(batch, key, i):
    value = batch[key]
    return value.rows()[i] if isinstance(value, load.Ragged) else None

def main():
    tests = json.loads(sys.argv[1])
    print(json.dumps([
        [rows(batch, ragged) for batch in load.load(**options)] for options in tests
    ]))

if __name__ == "__main__":
    main()
"""
)

GRAIN = (
    CHECK
    + """
import load
def ragged(batch, key, i):
    lengths = batch.get(key + "/lengths")
    return None if lengths is None else batch[key][i][:lengths[i]]

def main():
    tests = json.loads(sys.argv[1])
    print(json.dumps([
        [rows(batch, ragged) for batch in load.load(**options)] for options in tests
    ]))
    iterator = iter(load.load(batch_size=7, seed=3))
    next(iterator)
    state = iterator.get_state()
    second = next(iterator)
    iterator.set_state(state)
    assert (next(iterator)["id"] == second["id"]).all()

if __name__ == "__main__":
    main()
"""
)


def write_script(dataset: Path, framework: Framework) -> Path:
    """The script as `load.py` in a folder of its own."""
    manifest = load_manifest(dataset)
    assert manifest is not None
    folder = dataset.parent / f"{framework}-{dataset.name}"
    folder.mkdir()
    (folder / "load.py").write_text(FRAMEWORKS[framework](manifest, str(dataset)), "utf-8")
    return folder


def read(dataset: Path, framework: Framework, *options: dict[str, Any]) -> list[Any]:
    """Batches of records, for each set of options of the script's `load`."""
    folder = write_script(dataset, framework)
    check = {"torch": TORCH, "grain": GRAIN}[framework]
    (folder / "check.py").write_text(check, "utf-8")
    script = (
        "import runpy, sys; sys.path.insert(0, '.'); runpy.run_path('check.py', None, '__main__')"
    )
    printed = run_with(PACKAGES[framework], script, json.dumps(options), cwd=folder)
    return json.loads(printed.splitlines()[-1])  # type: ignore[no-any-return]


def flat(batches: list[list[Any]]) -> list[Any]:
    return [record for batch in batches for record in batch]


def expected() -> list[dict[str, Any]]:
    """What all scripts should give, in the order of the source."""
    rows = mixed().to_pylist()
    for row in rows:
        nested = row.pop("nested")
        row["nested"] = [value for inner in nested for value in inner]
        row["nested/row_lengths"] = [len(inner) for inner in nested]
    return rows


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_torch(tmp_path: Path, compression: str) -> None:
    dest = tmp_path / "mixed"
    tfrec_cli.convert(mixed(), dest, shards=3, compression=compression)
    plain, two, five, shuffled, again, other = read(
        dest, "torch",
        {"batch_size": 16},
        {"batch_size": 16, "workers": 2},
        {"batch_size": 4, "workers": 5},
        {"batch_size": 8, "shuffle": 40},
        {"batch_size": 8, "shuffle": 40},
        {"batch_size": 8, "shuffle": 1000, "seed": 1, "workers": 2},
    )  # fmt: skip
    rows = expected()
    assert flat(plain) == rows
    assert [len(batch) for batch in plain] == [16, 16, 16, 12]
    for spread in (two, five, shuffled, other):
        assert sorted(flat(spread), key=lambda r: r["id"]) == rows
    assert shuffled == again
    assert len({json.dumps(flat(b)) for b in (plain, shuffled, other)}) == 3


def test_grain(tmp_path: Path) -> None:
    dest = tmp_path / "mixed"
    tfrec_cli.convert(mixed(), dest, shards=3, index="dali")
    plain, shuffled, again, first, second, twice, workers = read(
        dest, "grain",
        {"batch_size": 16},
        {"batch_size": 16, "seed": 1},
        {"batch_size": 16, "seed": 1},
        {"batch_size": 16, "shard": [0, 2]},
        {"batch_size": 16, "shard": [1, 2]},
        {"batch_size": 16, "epochs": 2, "seed": 2},
        {"batch_size": 16, "workers": 2},
    )  # fmt: skip
    rows = expected()
    assert flat(plain) == rows
    assert shuffled == again != plain
    assert sorted(flat(shuffled), key=lambda r: r["id"]) == rows
    assert flat(first) == rows[::2]
    assert flat(second) == rows[1::2]
    assert sorted(r["id"] for r in flat(twice)) == sorted([*range(ROWS), *range(ROWS)])
    assert sorted(flat(workers), key=lambda r: r["id"]) == rows


@pytest.mark.parametrize(
    ("framework", "dest"), [("tf", "folder"), ("torch", "one.tfrecord"), ("grain", "folder")]
)
def test_scripts_are_programs(tmp_path: Path, framework: Framework, dest: str) -> None:
    path = tmp_path / dest
    splits = {"split": "train=0.5,test=0.5"} if dest == "folder" else {}
    tfrec_cli.convert(EXAMPLES / "penguins.csv", path, **splits)  # type: ignore[arg-type]
    folder = write_script(path, framework)
    script = "import runpy, sys; runpy.run_path('load.py', None, '__main__')"
    printed = run_with(PACKAGES[framework], script, cwd=folder)
    assert "train: " in printed
    assert ("test: " in printed) == (dest == "folder")
    assert "species: " in printed


@pytest.mark.parametrize("framework", ["torch", "grain"])
def test_images_are_decoded(tmp_path: Path, framework: Framework) -> None:
    tfrec_cli.convert(EXAMPLES / "digits", tmp_path / "digits")
    folder = write_script(tmp_path / "digits", framework)
    script = (
        "import sys; sys.path.insert(0, '.'); import load; batch = next(iter(load.load()));"
        "print(load.decode(batch['image/encoded'][0]).shape, load.LABELS['image/class/label'][3])"
    )
    printed = run_with(PACKAGES[framework], script, cwd=folder)
    assert printed.splitlines()[-1] == "(8, 8, 3) 3"


def test_grain_needs_plain_shards(tmp_path: Path) -> None:
    tfrec_cli.convert(mixed(), tmp_path / "d", compression="gzip")
    manifest = load_manifest(tmp_path / "d")
    assert manifest is not None
    with pytest.raises(UsageError, match="GZIP"):
        FRAMEWORKS["grain"](manifest, str(tmp_path / "d"))


TFRECORD_TORCH = """
import json, sys
import torch
from tfrecord.torch.dataset import TFRecordDataset
wanted = {"id": "int", "pair": "float", "name": "byte"}
dataset = TFRecordDataset(sys.argv[1], sys.argv[2], wanted, compression_type=None)
found = [
    (int(i), pair.tolist(), bytes(name).decode())
    for batch in torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2)
    for i, pair, name in [(batch["id"][0], batch["pair"], batch["name"])]
]
print(json.dumps(sorted(found)))
"""


def test_the_tfrecord_package_feeds_a_data_loader(tmp_path: Path) -> None:
    table = pa.table({
        "id": pa.array(range(ROWS)),
        "pair": pa.array([[n, n / 2] for n in range(ROWS)], pa.list_(pa.float32(), 2)),
        "name": pa.array([f"n{n}" for n in range(ROWS)]),
    })  # fmt: skip
    tfrec_cli.convert(table, tmp_path / "d", index="tfindex")
    (shard,), (index,) = (tmp_path / "d").glob("*.tfrecord-*"), (tmp_path / "d/index").iterdir()
    found = json.loads(run_with("tfrecord", TFRECORD_TORCH, shard, index))
    assert found == [[n, [n, n / 2], f"n{n}"] for n in range(ROWS)]


def test_the_command(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "penguins.csv", tmp_path / "p")
    for framework, word in (("tf", "tensorflow"), ("torch", "torch"), ("grain", "grain")):
        command = [sys.executable, "-m", "tfrec_cli", "loader", "p", "--framework", framework]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert f"import {word}" in done.stdout
        compile(done.stdout, "load.py", "exec")


HOSTILE = 'd"""\nraise SystemExit(7)\n"""\u2028{0}\\'


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_text_of_a_dataset_becomes_code(tmp_path: Path, framework: Framework) -> None:
    tfrec_cli.convert(EXAMPLES / "penguins.csv", tmp_path / "d")
    known = load_manifest(tmp_path / "d")
    assert known is not None
    lists = FeatureFacts(HOSTILE + "b", "int64", ragged=2, row_lengths=(HOSTILE, HOSTILE + "c"))
    split = Split(HOSTILE, (Shard(HOSTILE, 1, 1, 1),))
    facts = FeatureFacts(HOSTILE, "int64", labels=(HOSTILE,))
    hostile = replace(known, name=HOSTILE, splits=(split,), features=(facts, lists))
    plain, other = (
        [type(node) for node in ast.walk(ast.parse(FRAMEWORKS[framework](one, path))) if
         isinstance(node, ast.stmt)]
        for one, path in (
            (replace(hostile, name="d", splits=(Split("s", (Shard("s", 1, 1, 1),)),)), "d"),
            (hostile, HOSTILE),
        )
    )  # fmt: skip
    assert plain == other
    file = tmp_path / "d" / "manifest.json"
    file.write_text(file.read_text().replace('"name": "d"', f'"name": {json.dumps(HOSTILE)}'))
    file.write_text(file.read_text().replace('"name": "train"', f'"name": {json.dumps(HOSTILE)}'))
    command = [sys.executable, "-m", "tfrec_cli", "loader", "d", "--framework", framework]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)


def test_a_dataset_without_shards_has_no_script(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "penguins.csv", tmp_path / "d")
    known = load_manifest(tmp_path / "d")
    assert known is not None
    for splits in ((), (Split("train", ()),)):
        with pytest.raises(DatasetError, match="no shards"):
            FRAMEWORKS["tf"](replace(known, splits=splits), "d")


def test_a_dataset_that_lacks_a_shard_has_no_script(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "penguins.csv", tmp_path / "d", shards=2)
    sorted((tmp_path / "d").glob("*.tfrecord-*"))[0].unlink()
    command = [sys.executable, "-m", "tfrec_cli", "loader", "d"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "missing shard" in done.stderr


def test_files_whose_names_promise_more_get_a_note(tmp_path: Path) -> None:
    (tmp_path / "x-00001-of-00002.tfrecord").write_bytes(frame(example_of(1)))
    (notice,) = loader_script(str(tmp_path), "tf").notices
    assert "x-00000-of-00002.tfrecord" in notice


@pytest.mark.parametrize("framework", ["tf", "torch", "grain"])
def test_scripts_end_where_a_shard_is_gone(tmp_path: Path, framework: Framework) -> None:
    package_or_skip("tensorflow" if framework == "tf" else framework)
    tfrec_cli.convert(EXAMPLES / "penguins.csv", tmp_path / "d", shards=2)
    script = write_script(tmp_path / "d", framework)
    sorted((tmp_path / "d").glob("*.tfrecord-*"))[0].unlink()
    done = subprocess.run(
        [sys.executable, script / "load.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "1 of 2 files match" in done.stderr


def refusal(path: Path, name: str) -> str:
    command = [sys.executable, "-m", "tfrec_cli", "loader", name]
    done = subprocess.run(command, cwd=path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    return done.stderr


def test_what_no_script_can_read_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(b""))
    (tmp_path / "b.tfrecord").write_bytes(frame(b"no Example") * 2)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert "no features to read" in refusal(tmp_path, "a.tfrecord")
    assert "the records are no tf.train.Example" in refusal(tmp_path, "b.tfrecord")
    assert "2 records of 3 are no tf.train.Example" in refusal(tmp_path, "?.tfrecord")
    assert "no TFRecord file: it is text" in refusal(tmp_path, "t.csv")
    assert "nothing is there" in refusal(tmp_path, "nix")
    tfrec_cli.convert(str(tmp_path / "b.tfrecord"), tmp_path / "ours")
    assert "the records are no tf.train.Example" in refusal(tmp_path, "ours")


FOREIGN = {
    "one file": ["some [data].tfrecord"],
    "numbered": ["x-train.tfrecord-00000-of-00002", "x-train.tfrecord-00001-of-00002"],
    "any names": ["part-a.tfrecord", "part-bc.tfrecord"],
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("names", FOREIGN.values(), ids=FOREIGN)
def test_files_of_other_origin(tmp_path: Path, names: list[str], framework: Framework) -> None:
    compression = "none" if framework == "grain" else "gzip"
    tfrec_cli.convert(mixed(), tmp_path / "d", shards=len(names), compression=compression)
    (tmp_path / "there").mkdir()
    for shard, name in zip(sorted((tmp_path / "d").glob("*.tfrecord-*")), names, strict=True):
        shard.rename(tmp_path / "there" / name)
    (tmp_path / "there" / "other.txt").write_text("no record\n")
    script = loader_script(str(tmp_path / "there"), framework)
    assert script.notices == ()
    (tmp_path / "load.py").write_text(script.text)
    code = (
        "import json, sys\nsys.path.insert(0, sys.argv[1])\nimport load\n"
        "if __name__ == '__main__':\n"
        "    found = [batch['id'].tolist() if hasattr(batch['id'], 'tolist') else "
        "batch['id'].numpy().tolist() for batch in load.load('train', batch_size=20)]\n"
        "    print(json.dumps(sum(found, [])))\n"
    )
    assert sorted(json.loads(run_with(PACKAGES[framework], code, tmp_path))) == list(range(ROWS))


def test_files_in_several_folders_have_no_script(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for name in ("c", "more/d"):
        (tmp_path / f"{name}.tfrecord").write_bytes(frame(example_of(1)))
    assert "2 folders" in refusal(tmp_path, "**/[cd].tfrecord")


NUMBERS = """
import sys
sys.path.insert(0, sys.argv[1])
import load
print([number for batch in load.load() for number in batch["x"].tolist()])
"""


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("seed", ["0", "1"])
def test_files_that_are_compressed_in_several_ways(
    tmp_path: Path, framework: Framework, seed: str
) -> None:
    plain = frame(example_of(1))
    (tmp_path / "pa.tfrecord").write_bytes(plain)
    (tmp_path / "pb.tfrecord.gz").write_bytes(gzip.compress(plain))
    if framework != "torch":
        (tmp_path / "pc.tfrecord.zz").write_bytes(zlib.compress(b""))
        (tmp_path / "pd.tfrecord").touch()
    command = [sys.executable, "-m", "tfrec_cli", "loader", str(tmp_path), "--framework", framework]
    hashing = os.environ | {"PYTHONHASHSEED": seed}
    done = subprocess.run(
        command, cwd=tmp_path, env=hashing, capture_output=True, text=True, check=False
    )
    if framework == "torch":
        assert (done.returncode, done.stderr) == (0, "")
        (tmp_path / "load.py").write_text(done.stdout)
        assert json.loads(run_with("torch", NUMBERS, tmp_path)) == [1, 1]
        return
    status, words = {
        "tf": (1, "some files are GZIP and some plain and some ZLIB, and tf.data reads one kind"),
        "grain": (2, "Grain reads records by number, which the GZIP shards do not allow"),
    }[framework]
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1)
    assert words in done.stderr


def test_one_of_several_numbered_files(tmp_path: Path) -> None:
    names = [f"t-train.tfrecord-0000{n}-of-00003" for n in range(3)]
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(frame(example_of(number)))
    (tmp_path / "load.py").write_text(loader_script(str(tmp_path / names[0]), "torch").text)
    assert json.loads(run_with("torch", NUMBERS, tmp_path)) == [0]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("asked", "later"),
    [
        # Others are there that the pattern of these would find.
        ("part-[ac].tfrecord", None),
        ("x-0000[02]-of-00003", None),
        # They have no beginning in common, so that whatever comes there would be found.
        ("[nv]*.tfrecord", "w.tfrecord"),
        ("*.record", "z.record"),
    ],
)
def test_nothing_else_in_the_folder_is_read(
    tmp_path: Path, asked: str, later: str | None, framework: Framework
) -> None:
    names = [
        *("part-a.tfrecord", "part-b.tfrecord", "part-c.tfrecord"),
        *("x-00000-of-00003", "x-00001-of-00003", "x-00002-of-00003"),
        *("n[1].tfrecord", "v*.tfrecord", "c.record", "d.record"),
    ]
    (tmp_path / "there").mkdir()
    for number, name in enumerate(names):
        (tmp_path / "there" / name).write_bytes(frame(example_of(number)))
    text = loader_script(str(tmp_path / "there" / asked), framework).text
    (tmp_path / "load.py").write_text(text)
    if later:
        (tmp_path / "there" / later).write_bytes(frame(example_of(99)))
    asked_for = [n for n, name in enumerate(names) if fnmatchcase(name, asked)]
    assert len(asked_for) == 2
    code = NUMBERS.replace(".tolist()", ".numpy().tolist()") if framework == "tf" else NUMBERS
    assert json.loads(run_with(PACKAGES[framework], code, tmp_path)) == asked_for


RAGGED = """
import sys
sys.path.insert(0, sys.argv[1])
import json, load, numpy as np
if __name__ == "__main__":
    found = []
    for batch in load.load(**json.loads(sys.argv[2])):
        value = batch["x"]
        if hasattr(value, "rows"):
            found += [row.tolist() for row in value.rows()]
        elif hasattr(value, "to_list"):
            found += value.to_list()
        else:
            found += [r[:n].tolist() for r, n in zip(value, batch["x/lengths"])]
    print(json.dumps(found))
"""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_files_that_differ_in_what_their_records_have(tmp_path: Path, framework: Framework) -> None:
    """Without a record, with a value in each, with lists; and one lacks a feature of the others."""
    tables = [
        pa.table({"x": [1, 2]}),
        pa.table({"x": [[3], [4, 5]], "y": [None, 7]}),
        pa.table({"x": [[6, 7]], "y": [8]}),
    ]
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "p.tfrecord").touch()
    for number, table in enumerate(tables):
        tfrec_cli.convert(table, tmp_path / f"{number}.tfrecord")
        (tmp_path / f"{number}.tfrecord").rename(tmp_path / "there" / f"p{number}.tfrecord")
    (tmp_path / "load.py").write_text(loader_script(str(tmp_path / "there"), framework).text)
    for options in ({}, {"workers": 2}) if framework == "torch" else ({},):
        printed = run_with(PACKAGES[framework], RAGGED, tmp_path, json.dumps(options))
        assert sorted(json.loads(printed.splitlines()[-1])) == [[1], [2], [3], [4, 5], [6, 7]]


def test_tf_data_has_no_key_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(example(entry(b"\xff", ints(1)))))
    with pytest.raises(UsageError, match=r"key of feature \\xff is not UTF-8, and tf.data"):
        loader_script(str(tmp_path / "a.tfrecord"), "tf")


def test_of_sequence_examples_the_context_is_read(tmp_path: Path) -> None:
    # An empty map of feature lists behind the context.
    (tmp_path / "a.tfrecord").write_bytes(frame(example_of(7) + b"\x12\x00"))
    script = loader_script(str(tmp_path / "a.tfrecord"), "tf")
    assert "'x': tf.io.FixedLenFeature([], tf.int64)" in script.text
    (notice,) = script.notices
    assert "feature lists are left out" in notice
