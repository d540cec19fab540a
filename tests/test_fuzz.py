"""Damaged files of every source: an exit code of 0, 1 or 2, one line of error, nothing left behind.

The commands run in this process, thousands of them; a crash of the process would fail the run.
"""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tfrec_cli.cli import main

QUICK, MANY = 40, 2000
TOKENS = [b'"', b'""', b",", b";", b"\n", b"\r", b"\r\n", b"\\", b"\x00", b"\xff", b"\xef\xbb\xbf"]
TOKENS += [
    b"\xff\xfe",
    b"NA",
    b"1e999",
    b"-",
    b"9" * 30,
    b" ",
    b"\t",
    b"\x1a",
    "é".encode(),
    b"PAR1",
]


def csv_file(folder: Path) -> list[Path]:
    rows = "".join(f'{i},"w, {i}",{i}.5,{"" if i % 3 else "NA"}\r\n' for i in range(40))
    path = folder / "a.csv"
    path.write_text("id,text,score,gap\r\n" + rows, newline="")
    return [path]


def csv_compressed(folder: Path) -> list[Path]:
    import gzip

    (plain,) = csv_file(folder)
    path = folder / "b.csv.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return [path]


def csv_utf16(folder: Path) -> list[Path]:
    (path,) = csv_file(folder)
    path.write_bytes(path.read_text().encode("utf-16"))
    return [path]


def parquet_file(folder: Path) -> list[Path]:
    table = pa.table(
        {
            "i": pa.array(range(50), pa.int32()),
            "t": pa.array([f"w{i}" if i % 4 else None for i in range(50)]),
            "l": pa.array([[1.5] * (i % 3) for i in range(50)], pa.list_(pa.float32())),
            "s": pa.array([{"a": i, "b": str(i)} for i in range(50)]),
            "d": pa.array([i * 10**9 for i in range(50)], pa.timestamp("ns")),
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=20)
    return [folder / "a.parquet"]


def image_folder(folder: Path) -> list[Path]:
    paths = []
    for number, kind in enumerate(("JPEG", "PNG", "GIF", "BMP", "WEBP")):
        data = io.BytesIO()
        Image.new("RGB", (9 + number, 7), (number * 40, 90, 10)).save(data, kind)
        path = folder / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data.getvalue())
        paths.append(path)
    return paths


def named_files(folder: Path) -> list[Path]:
    (folder / "a.bin").write_bytes(b"abc")
    (folder / "list.csv").write_text("path,label\na.bin,x\na.bin,y\n")
    text = "features:\n  data: {column: path, load: file}\n  label: bytes\n"
    (folder / "s.yaml").write_text(text)
    return [folder / "list.csv", folder / "s.yaml"]


SOURCES = [csv_file, csv_compressed, csv_utf16, parquet_file, image_folder, named_files]
OPTIONS: list[list[str]] = [[], ["--on-error", "skip"], ["--compression", "gzip"], ["-j", "1"]]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """`data` with one to four faults: cut off, cut out, put in, changed, doubled."""
    for _ in range(chance.randint(1, 4)):
        low, high = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        head, middle, tail = data[:low], data[low:high], data[high:]
        token, byte = chance.choice(TOKENS), bytes([chance.randrange(256)])
        changed = head + token + data[low + 1 :]
        faults = [head, head + tail, head + token + middle + tail, changed]
        data = chance.choice([*faults, head + byte + data[low + 1 :], head + middle * 2 + tail])
    return data


@pytest.mark.parametrize("make", SOURCES)
def test_damaged_files_end_in_one_line(
    make: Callable[[Path], list[Path]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fuzz(make, tmp_path, capfd, range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("make", SOURCES)
def test_many_damaged_files_end_in_one_line(
    make: Callable[[Path], list[Path]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fuzz(make, tmp_path, capfd, range(QUICK, QUICK + MANY))


def fuzz(
    make: Callable[[Path], list[Path]],
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    seeds: range,
) -> None:
    source = folder / "in"
    source.mkdir()
    whole = {path: path.read_bytes() for path in make(source)}
    given = next((str(p) for p in whole if p.suffix != ".jpg" and p.suffix != ".yaml"), str(source))
    schema = next((["--schema", str(p)] for p in whole if p.suffix == ".yaml"), [])
    args = ["convert", given, str(folder / "out"), *schema]
    assert run(args, folder, capfd, f"{make.__name__}, whole") == 0
    codes = set()
    for seed in seeds:
        chance = random.Random(f"{make.__name__}{seed}")
        with damaged(whole, chance):
            what = f"{make.__name__}, seed {seed}"
            codes.add(run([*args, *chance.choice(OPTIONS)], folder, capfd, what))
    assert 1 in codes, "no mutation did harm: the mutations are too weak to prove anything"


class damaged:
    """One of the files is mutated; all are whole again afterwards."""

    def __init__(self, whole: dict[Path, bytes], chance: random.Random) -> None:
        self.whole, self.chance = whole, chance

    def __enter__(self) -> None:
        self.victim = self.chance.choice(list(self.whole))
        self.victim.write_bytes(mutate(self.whole[self.victim], self.chance))

    def __exit__(self, *_: object) -> None:
        self.victim.write_bytes(self.whole[self.victim])


def run(args: list[str], folder: Path, capfd: pytest.CaptureFixture[str], what: str) -> int:
    """The exit code of `tfrec`, after checking what it said and what it left."""
    with pytest.raises(SystemExit) as ended:
        main(args)
    code = ended.value.code
    errors = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("note: ")]
    assert code in (0, 1, 2), what
    if code == 0:
        assert errors == [], what
        check_written(folder / "out", what)
        shutil.rmtree(folder / "out")
    else:
        assert len(errors) == 1, (what, errors)
        assert errors[0].startswith("tfrec: "), (what, errors)
        assert "a fault in tfrec" not in errors[0], (what, errors)
    left = sorted(p.name for p in folder.iterdir() if p.name != "in")
    assert left == [], (what, left)
    return int(code)


def check_written(dest: Path, what: str) -> None:
    manifest = json.loads((dest / "manifest.json").read_text())
    assert sum(split["records"] for split in manifest["splits"]) > 0, what
    for name in shard_names(manifest):
        assert (dest / name).exists(), what


def shard_names(manifest: dict[str, list[dict[str, list[dict[str, str]]]]]) -> Iterator[str]:
    return (shard["name"] for split in manifest["splits"] for shard in split["shards"])
