"""`tfrec verify` as a user or a CI job meets it: output, exit codes, JSON."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tfrec_cli import _kernel
from tfrec_cli.records.framing import frame


def tfrec(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfrec_cli", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A folder with the dataset `people` in it, and its source."""
    (tmp_path / "people.csv").write_text("id,name\n1,Ann\n2,Bo\n3,Cy\n")
    assert tfrec("convert", "people.csv", "people", "-q", "--verify", cwd=tmp_path).returncode == 0
    return tmp_path


def spoil(folder: Path) -> str:
    """Change a byte in the second record of the dataset; the name of its shard."""
    (path,) = folder.glob("people/*.tfrecord-*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return f"people/{path.name}"


def test_a_sound_dataset_gets_a_short_summary(people: Path) -> None:
    result = tfrec("verify", "people", cwd=people)
    assert (result.returncode, result.stderr) == (0, "")
    first, second = result.stdout.splitlines()
    assert first.startswith("people: 3 records in 1 file; checked: checksums, manifest, features")
    assert second.startswith("nothing is wrong (")


def test_damage_gets_a_line_and_exit_code_3(people: Path) -> None:
    shard = spoil(people)
    result = tfrec("verify", "people", cwd=people)
    assert result.returncode == 3
    first, *_, last = result.stdout.splitlines()
    assert first.startswith(f"{shard}, record 1, byte ")
    assert "data checksum" in first
    assert 'TensorFlow: DataLossError "corrupted record at ' in first
    assert last.startswith("1 finding (")


def test_quiet_prints_findings_only(people: Path) -> None:
    assert tfrec("verify", "people", "-q", cwd=people).stdout == ""
    spoil(people)
    assert len(tfrec("verify", "people", "-q", cwd=people).stdout.splitlines()) == 1


def test_json_is_one_document(people: Path) -> None:
    sound = tfrec("verify", "people", "--json", cwd=people)
    assert (sound.returncode, json.loads(sound.stdout)["ok"]) == (0, True)
    shard = spoil(people)
    result = tfrec("verify", "people", "--json", cwd=people)
    assert (result.returncode, result.stderr) == (3, "")
    document = json.loads(result.stdout)
    assert document["ok"] is False
    (finding,) = document["findings"]
    assert (finding["file"], finding["record"], finding["kind"]) == (shard, 1, "data checksum")
    assert document["files"][0]["findings"] == 1
    assert 0 < document["seconds"] < 600


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["nothing.tfrecord"], 1, "nothing is there"),
        (["*.tfrecord"], 1, "nothing is there"),
        (["people", "--leak", "id"], 2, "all files are of one"),
        (["people", "--schema", "none.yaml"], 2, "none.yaml"),
        (["people", "--schema", "people.csv"], 2, "people.csv"),
        ([], 2, "PATH"),
        (["people", "-j", "0"], 2, "-j"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    people: Path, args: list[str], code: int, said: str
) -> None:
    result = tfrec("verify", *args, cwd=people)
    assert (result.returncode, result.stdout) == (code, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("tfrec: ")
    assert said in line


def test_any_bytes_end_without_a_traceback(tmp_path: Path) -> None:
    samples = [b"", b"\x1f", b"\x1f\x8b\x08", b"\x1f\x8b\x08\xff" * 5, b"x\x9c", b"\0" * 100]
    for number, data in enumerate([*samples, frame(b"\n\xff"), b"\xff" * 40]):
        (tmp_path / f"{number}.tfrecord").write_bytes(data)
    (tmp_path / "new\nline.tfrecord").write_bytes(b"broken")
    (tmp_path / "folder.tfrecord").mkdir()
    result = tfrec("verify", ".", cwd=tmp_path)
    assert result.returncode == 3
    assert "Traceback" not in result.stderr
    named = {line.split(",")[0] for line in result.stdout.splitlines() if "record 0" in line}
    assert named >= {f"./{number}.tfrecord" for number in (1, 2, 3, 4, 5, 7)}
    assert "./new\\nline.tfrecord" in named


def test_a_schema_names_features(people: Path) -> None:
    (people / "s.yaml").write_text("version: 1\nfeatures: {id: bytes, name: bytes}\n")
    result = tfrec("verify", "people", "--schema", "s.yaml", cwd=people)
    assert result.returncode == 3
    assert "feature id: kind: int64 in 3 records, expected bytes" in result.stdout


def test_a_schema_is_called_by_its_name(people: Path) -> None:
    (people / "s.yaml").write_text("version: 1\nfeatures: {nobody: int64}\n")
    result = tfrec("verify", "people", "--schema", "s.yaml", cwd=people)
    assert "unknown feature: s.yaml has no such feature (" in result.stdout
    assert "features by s.yaml" in result.stdout
    assert "features by the manifest" in tfrec("verify", "people", cwd=people).stdout


def test_a_file_that_memory_is_too_small_for_is_named(tmp_path: Path) -> None:
    """The others are read all the same."""
    length = (1 << 31) - 100
    header = length.to_bytes(8, "little")
    header += _kernel.masked_crc32c(header).to_bytes(4, "little")
    with open(tmp_path / "a.tfrecord", "wb") as file:
        file.write(header)
        file.truncate(12 + length + 4)
    (tmp_path / "b.tfrecord").write_bytes(frame(b""))
    result = subprocess.run(
        [sys.executable, "-m", "tfrec_cli", "verify", "a.tfrecord", "b.tfrecord", "-j", "1"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )  # fmt: skip
    assert result.returncode == 1
    assert "1 record in 1 file" in result.stdout
    assert "tfrec: a.tfrecord: out of memory: its largest record must fit" in result.stderr


def test_convert_verify_wants_a_file_it_can_read(people: Path) -> None:
    result = tfrec("convert", "people.csv", "-", "--verify", cwd=people)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--verify" in result.stderr


@pytest.mark.parametrize("command", [[], ["convert"], ["schema"], ["verify"], ["loader"]])
def test_help_shows_examples_on_lines_of_their_own(tmp_path: Path, command: list[str]) -> None:
    shown = tfrec(*command, "--help", cwd=tmp_path).stdout
    assert "\\" not in shown
    assert any(line.strip().startswith(f"tfrec {' '.join(command)}") for line in shown.splitlines())
