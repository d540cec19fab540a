"""`tfrec head` shows the first records, whatever they hold."""

from __future__ import annotations

import base64
import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from test_kernel_examples import entry, example, field, floats, ints, texts

import tfrec_cli
from tfrec_cli.decoding import Values
from tfrec_cli.inspection.head import HeadRecord, shown_of
from tfrec_cli.reading.values import describe, float32, readable, text_of
from tfrec_cli.records.framing import frame


def tfrec(*args, cwd=None):
    command = [sys.executable, "-m", "tfrec_cli", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def head(*args):
    done = tfrec("head", *args)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def lines(*args):
    return [json.loads(line) for line in head(*args, "--json").splitlines()]


def picture(kind, size=(64, 48)):
    out = io.BytesIO()
    Image.fromarray(np.zeros((size[1], size[0], 3), np.uint8)).save(out, kind)
    return out.getvalue()


@pytest.fixture
def dataset(tmp_path):
    table = pa.table(
        {
            "n": range(20),
            "w": pa.array([0.1, None] * 10, pa.float32()),
            "t": ["écho", "a\tb"] * 10,
            "v": [[1, 2, 3]] * 20,
        }
    )
    tfrec_cli.convert(table, tmp_path / "d", split="train=0.5,test=0.5", split_exact=True)
    return tmp_path / "d"


def test_records_as_json_lines(dataset):
    rows = lines(dataset, "-n", 100)
    assert len(rows) == 20
    assert sorted(row["n"] for row in rows) == list(range(20))
    for row in rows:
        even = row["n"] % 2 == 0
        expected = {"n": row["n"], "t": "écho" if even else "a\tb", "v": [1, 2, 3]}
        assert row == (expected | {"w": 0.1} if even else expected)
    assert len(lines(dataset)) == 5
    assert lines(dataset, "-n", 0) == []


def test_splits_and_columns(dataset):
    rows = lines(dataset, "--split", "test", "-n", 100, "--columns", "v,n")
    assert len(rows) == 10
    assert list(rows[0]) == ["v", "n"]
    done = tfrec("head", dataset, "--split", "valid")
    assert done.returncode == 2
    assert 'no split is called "valid"' in done.stderr
    done = tfrec("head", dataset, "--columns", "nn")
    assert done.returncode == 2
    assert 'no feature of these records is called "nn". Did you mean "n"?' in done.stderr


def test_a_table_where_it_fits_else_blocks(dataset, tmp_path):
    text = head(dataset, "-n", 3).splitlines()
    assert text[0].split() == ["n", "t", "v", "w"]
    assert len(text) == 4
    assert any("(none)" in line for line in head(dataset, "-n", 20).splitlines())
    wide = tmp_path / "wide.tfrecord"
    wide.write_bytes(frame(example(*(entry(b"key%d" % n, ints(n, n)) for n in range(30)))))
    text = head(wide).splitlines()
    assert text[0] == f"{wide}, record 0"
    assert text[5].split(maxsplit=1) == ["key4", "[4, 4]"]


def test_bytes_as_what_they_are(tmp_path):
    jpeg = picture("JPEG")
    path = tmp_path / "a.tfrecord"
    path.write_bytes(
        frame(example(entry(b"image", texts(jpeg)), entry(b"raw", texts(b"\x00\xff"))))
    )
    (row,) = lines(path)
    assert row["image"].startswith("<jpeg 64×48, ")
    assert row["raw"] == "<2 bytes: 00 ff>"
    (row,) = lines(path, "--base64")
    assert base64.b64decode(row["image"]) == jpeg
    assert tfrec("head", path, "--base64").returncode == 2


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP"])
def test_images_are_told_with_their_size(kind):
    assert describe(picture(kind)).startswith(f"<{kind.lower()} 64×48, ")


@pytest.mark.parametrize("data", [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"\xff"])
def test_cut_images_are_no_trouble(data):
    for size in range(len(data), 40):
        assert readable(data + bytes(size - len(data)))


def test_text_has_no_control_characters():
    assert text_of("a\tb\né".encode()) == "a\tb\né"
    assert text_of(b"a\x00") is None
    assert text_of(b"\xff") is None


def test_floats_have_few_digits_and_json_words():
    assert [float32(v) for v in (np.float32(0.1), np.float32(1e30), 2.0)] == [0.1, 1e30, 2.0]
    assert [float32(v) for v in (np.nan, np.inf, -np.inf)] == ["NaN", "Infinity", "-Infinity"]


def test_one_value_in_a_list_is_a_list(tmp_path):
    path = tmp_path / "a.tfrecord.gz"
    records = [example(entry(b"x", ints(*range(n)))) for n in (1, 2, 0)]
    path.write_bytes(gzip.compress(b"".join(map(frame, records))))
    assert [row["x"] for row in lines(path)] == [[0], [0, 1], []]


def test_payloads_that_are_no_example(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(picture("PNG")) + frame(b'{"a": 1}') + frame(example()))
    rows = lines(path)
    assert rows[0]["record"].startswith("<png 64×48")
    assert rows[1:] == [{"record": '{"a": 1}'}, {}]


def test_features_of_several_kinds_and_of_none(tmp_path):
    path = tmp_path / "a.tfrecord"
    records = [entry(b"x", ints(1)), entry(b"x", floats(0.5)), entry(b"x", b"")]
    path.write_bytes(b"".join(frame(example(record)) for record in records))
    assert lines(path) == [{"x": 1}, {"x": 0.5}, {"x": None}]


def test_damage_behind_the_first_records_does_not_matter(tmp_path):
    good = b"".join(frame(example(entry(b"x", ints(n)))) for n in range(3))
    path = tmp_path / "a.tfrecord"
    path.write_bytes(good + b"damage")
    assert len(lines(path, "-n", 3)) == 3
    done = tfrec("head", path, "-n", 4)
    assert done.returncode == 3
    assert "record 3, byte" in done.stderr


def test_nothing_there(tmp_path):
    done = tfrec("head", tmp_path / "none")
    assert done.returncode == 1
    assert "nothing is there" in done.stderr
    (tmp_path / "empty.tfrecord").touch()
    assert head(tmp_path / "empty.tfrecord") == "no records\n"


def test_keys_reach_the_terminal_as_text(tmp_path):
    data = example(entry(b"\x1b[31mred\nnext\xc2\x9b", ints(1)))
    (tmp_path / "a.tfrecord").write_bytes(frame(data))
    dangerous = ("\x1b", "\x9b", "red\n")
    commands = [
        ("head", "a.tfrecord"), ("head", "a.tfrecord", "--json"), ("inspect", "a.tfrecord"),
        ("stats", "a.tfrecord"), ("stats", "a.tfrecord", "--columns", "nix"),
        ("export", "a.tfrecord", "a.jsonl"), ("convert", "a.tfrecord", "o"), ("verify", "o"),
        ("convert", "a.tfrecord", "p", "--stratify", "nix"),
    ]  # fmt: skip
    for command in commands:
        done = tfrec(*command, cwd=tmp_path)
        text = done.stdout + done.stderr
        assert not any(bad in text for bad in dangerous), command
        if command[:2] in (("head", "a.tfrecord"), ("export", "a.tfrecord")):
            assert "[31mred" in text
    assert json.loads(tfrec("head", "a.tfrecord", "--json", cwd=tmp_path).stdout) == {
        "\x1b[31mred\nnext\x9b": 1
    }


def test_a_reader_that_goes_ends_the_command_quietly(tmp_path):
    records = [frame(example(entry(b"n", ints(n)))) for n in range(50_000)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(records))
    for command in ("head a.tfrecord --json -n 50000", "export a.tfrecord - --to jsonl"):
        started = subprocess.Popen(
            [sys.executable, "-m", "tfrec_cli", *command.split()],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.stdout.readline()
        started.stdout.close()
        assert started.wait() == 141
        assert started.stderr.read() == b""
        started.stderr.close()


def test_feature_lists_are_shown_behind_the_context(tmp_path):
    lists = field(
        2,
        entry(b"t", field(1, ints(1, 2)) + field(1, ints())) + entry(b"id", field(1, texts(b"w"))),
    )
    (tmp_path / "a.tfrecord").write_bytes(frame(example(entry(b"id", ints(7))) + lists))
    assert lines(tmp_path / "a.tfrecord") == [
        {"id": 7, "feature_lists/t": [[1, 2], []], "feature_lists/id": [["w"]]}
    ]
    assert "feature_lists/t" in head(tmp_path / "a.tfrecord")
    shown = head(tmp_path / "a.tfrecord", "--columns", "feature_lists/t")
    assert shown.split() == ["feature_lists/t", "[[1,", "2],", "[]]"]


@pytest.mark.parametrize("name", ["d-train", "d-test"])
def test_missing_files_are_told_behind_the_records_that_are_there(dataset, name):
    (shard,) = dataset.glob(f"{name}.tfrecord*")
    shard.unlink()
    split = name.removeprefix("d-")
    other = "test" if split == "train" else "train"
    for asked in ([], ["-n", "1"], ["--json"]):
        done = tfrec("head", dataset, *asked)
        assert done.returncode == 3
        assert done.stdout
        assert f"{shard.name}: missing shard: it is not there" in done.stderr
    assert tfrec("head", dataset, "--split", other).returncode == 0
    gone = tfrec("head", dataset, "--split", split)
    assert (gone.returncode, gone.stdout) == (3, "")


def test_long_lists_are_shown_in_part_and_printed_as_a_whole(tmp_path):
    values = np.arange(10000, dtype=np.float32) / 7
    records = [example(entry(b"v", floats(*values)), entry(b"w", texts(*[b"\x1b"] * 5000)))]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(frame, records)))
    (row,) = lines(tmp_path / "a.tfrecord")
    assert np.array_equal(np.array(row["v"], np.float32), values)
    assert len(row["w"]) == 5000
    assert "… 10,000 values]" in head(tmp_path / "a.tfrecord")


def test_of_long_lists_only_what_is_shown_is_formatted():
    record = HeadRecord("f", 0, {"v": Values("float", (0.5,) * 10**6)})
    shown = shown_of(record, set(), 76)["v"]
    assert (shown, shown.whole) == ([0.5] * 76, 10**6)


def test_keys_that_are_not_utf8_have_one_spelling(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(example(entry(b"\xff", ints(1)), entry(b"b", ints(2)))))
    assert lines(path) == [{"\\xff": 1, "b": 2}]
    for command in ("head", "inspect", "stats"):
        assert "\\xff" in tfrec(command, path).stdout
    for command in ("inspect", "stats"):
        assert '"key": "\\\\xff"' in tfrec(command, path, "--json").stdout
    for command in ("head", "stats"):
        assert "\\xff" in tfrec(command, path, "--columns", "\\xff").stdout
    tfrec("export", path, tmp_path / "x.jsonl", "--columns", "\\xff")
    assert (tmp_path / "x.jsonl").read_text() == '{"\\\\xff":1}\n'
    path.write_bytes(frame(example(entry(b"\xff", ints(1)), entry(b"\\xff", ints(2)))))
    assert sorted(lines(path)[0].values()) == [1, 2]


def test_numbered_features_share_a_line(tmp_path):
    entries = [entry(b"c%d" % n, ints(n)) for n in range(1000)]
    (tmp_path / "a.tfrecord").write_bytes(frame(example(*entries, entry(b"y", ints(1)))))
    shown = head(tmp_path / "a.tfrecord").splitlines()
    assert len(shown) == 3
    assert shown[1].startswith("  c0 … c999 (1,000)  [0, 1, 2, ")
    inspected = tfrec("inspect", tmp_path / "a.tfrecord").stdout.splitlines()
    assert "c0 … c999 (1,000)  int64     100%  0 to 999" in inspected
