"""Temporary folders: gone with their process, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tfrec_cli
from tfrec_cli.errors import UsageError
from tfrec_cli.scratch import LOCK, Scratch, clean


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_there_until_it_is_removed_or_forgotten(tmp_path: Path) -> None:
    first, second = Scratch(str(tmp_path)), Scratch(str(tmp_path))
    assert first.path != second.path
    (Path(first.path) / "sub").mkdir()
    (Path(first.path) / "sub" / "file").write_text("x")
    first.remove()
    assert names(tmp_path) == [Path(second.path).name]
    del second
    assert names(tmp_path) == []


def test_where_there_is_no_room_for_the_note_no_folder_stays(tmp_path: Path) -> None:
    """A file of a limited size stands for a full disk."""
    program = (
        "import resource, signal, sys; from tfrec_cli.scratch import Scratch\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "try: Scratch(sys.argv[1], sys.argv[1])\n"
        "except OSError: sys.exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)]).returncode == 7
    assert names(tmp_path) == []


def test_a_living_folder_is_left_alone_and_a_dead_one_is_not(tmp_path: Path) -> None:
    program = (
        "import sys, time; from tfrec_cli.scratch import Scratch\n"
        "folder = Scratch(sys.argv[1]); open(folder.path + '/run-1', 'w').write('x')\n"
        "print(folder.path, flush=True); time.sleep(60)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    with other, other.stdout:
        path = Path(other.stdout.readline().strip())
        clean(str(tmp_path))
        assert names(path) == [LOCK, "run-1"]
        other.kill()
        other.wait()
    assert names(path) == [LOCK, "run-1"]
    mine = Scratch(str(tmp_path))
    assert names(tmp_path) == [Path(mine.path).name]


def test_what_is_not_of_this_kind_is_never_touched(tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.mkdir()
    (keep / LOCK).write_text("")
    (tmp_path / ("tfrec-" + "a" * 16)).symlink_to(keep)
    (tmp_path / ("tfrec-" + "b" * 16)).write_text("a file")
    (tmp_path / "tfrec-mine").mkdir()
    (tmp_path / "tfrec-mine" / LOCK).write_text("")
    full = tmp_path / ("tfrec-" + "c" * 16)
    full.mkdir()
    (full / "data").write_text("without a lock")
    fresh = tmp_path / ("tfrec-" + "d" * 16)
    fresh.mkdir()
    os.utime(full, (1, 1))
    before = names(tmp_path)
    clean(str(tmp_path))
    assert names(tmp_path) == before
    assert names(keep) == [LOCK]
    os.utime(fresh, (1, 1))
    clean(str(tmp_path))
    assert not fresh.exists()
    clean(str(tmp_path / "nowhere"))


def test_what_a_killed_run_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    header = b"a,b\n"
    command = [sys.executable, "-m", "tfrec_cli", "convert", "-", str(tmp_path / "out"),
               "--temp-dir", str(temp), "--shuffle", "--memory", "1kB"]  # fmt: skip
    killed = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert killed.stdin is not None
    with killed:
        killed.stdin.write(header + b"1,2\n" * 100)
        killed.stdin.flush()
        deadline = time.monotonic() + 60
        while not names(temp) and time.monotonic() < deadline:
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    assert len(names(temp)) == 1
    (tmp_path / "a.csv").write_bytes(header + b"1,2\n")
    tfrec_cli.convert(str(tmp_path / "a.csv"), str(tmp_path / "out"), temp_dir=str(temp))
    assert names(temp) == []


def test_an_empty_temp_dir_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--temp-dir is empty"):
        tfrec_cli.convert("a.csv", str(tmp_path / "out"), temp_dir="")
