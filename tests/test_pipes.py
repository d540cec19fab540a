"""Pipes, devices, folders and links to nowhere in the place of a file: told, never waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tfrec_cli
from tfrec_cli.records.framing import frame


def tfrec(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfrec_cli", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def written(folder: Path, shards: int) -> Path:
    folder.mkdir(exist_ok=True)
    tfrec_cli.convert(pa.table({"x": [1, 2, 3, 4]}), str(folder / "data"), shards=shards)
    return folder / "data"


def put_pipe(path: Path) -> str:
    os.mkfifo(path)
    return "a pipe"


def put_link(path: Path) -> str:
    path.symlink_to("nowhere")
    return "a link to nowhere, which is not there"


def put_folder(path: Path) -> str:
    path.mkdir()
    return "a folder"


def put_device(path: Path) -> str:
    path.symlink_to("/dev/zero")
    return "a device"


def put_link_to_pipe(path: Path) -> str:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")
    return "a pipe"


# Each of them is in a shard's place, where opening it would wait for ever or never end.
IN_PLACE = [put_pipe, put_link, put_folder, put_device, put_link_to_pipe]


@pytest.mark.parametrize("put", IN_PLACE)
def test_what_is_no_file_is_a_missing_shard(tmp_path: Path, put: Callable[[Path], str]) -> None:
    folder = written(tmp_path, shards=2)
    shard = folder / "data-train.tfrecord-00001-of-00002"
    shard.unlink()
    what = put(shard)
    for named in (folder, shard) if put is not put_folder else (folder,):
        done = tfrec("verify", str(named))
        assert done.returncode == 3
        assert f"{shard}: missing shard: it is {what}, but the manifest has it" in done.stdout


@pytest.mark.parametrize(
    "command",
    ["inspect @", "stats @", "index @", "export @ {}/out.jsonl", "convert @ {}/out", "loader @"],
)
def test_no_command_waits_for_a_pipe_in_a_dataset(tmp_path: Path, command: str) -> None:
    folder = written(tmp_path, shards=2)
    (folder / "data-train.tfrecord-00001-of-00002").unlink()
    put_pipe(folder / "data-train.tfrecord-00001-of-00002")
    done = tfrec(*command.replace("@", str(folder)).format(tmp_path).split())
    assert (done.returncode, "a pipe" in done.stderr) == (3, True), done.stderr
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("put", IN_PLACE[:2] + IN_PLACE[3:])
def test_what_is_no_file_is_refused(tmp_path: Path, put: Callable[[Path], str]) -> None:
    path = tmp_path / "a.tfrecord"
    what = put(path)
    done = tfrec("verify", str(path))
    assert done.returncode == 1
    assert done.stderr == (
        f"tfrec: {path}: it is {what}, but a file was expected. Name a dataset or its files.\n"
    )


@pytest.mark.parametrize(
    "command",
    ["inspect @", "stats @", "head @", "index @", "repair @ {}/out", "export @ {}/out.jsonl"],
)
def test_no_command_waits_for_a_pipe_that_is_named(tmp_path: Path, command: str) -> None:
    put_pipe(tmp_path / "a.tfrecord")
    done = tfrec(*command.replace("@", str(tmp_path / "a.tfrecord")).format(tmp_path).split())
    assert (done.returncode, "it is a pipe" in done.stderr) == (1, True), done.stderr


def test_a_pipe_in_place_of_what_lies_beside_the_shards(tmp_path: Path) -> None:
    for name, kind in (("schema.yaml", "side file"), ("manifest.json", None)):
        folder = written(tmp_path / name, shards=2)
        (folder / name).unlink()
        os.mkfifo(folder / name)
        done = tfrec("verify", str(folder))
        assert done.returncode == (3 if kind else 0)
        assert kind is None or f"{kind}: it is a pipe" in done.stdout


def test_other_things_among_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(b"") * 4)
    os.mkfifo(tmp_path / "b.tfrecord")
    (tmp_path / "c.tfrecord").symlink_to("b.tfrecord")
    done = tfrec("verify", str(tmp_path))
    assert (done.returncode, "4 records in 1 file" in done.stdout) == (0, True)
    (tmp_path / "d.tfrecord").symlink_to("nowhere")
    done = tfrec("verify", str(tmp_path))
    assert done.returncode == 1
    assert "nothing is wrong in what was read, 1 file not read" in done.stdout
    assert "d.tfrecord: it is a link to nowhere, which is not there" in done.stderr
