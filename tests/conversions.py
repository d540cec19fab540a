"""`tfrec convert` as tests of `--resume` run it: to its end, or killed after a call."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tfrec_cli.cli import main

# Runs `tfrec` and kills itself after the Nth call of a function: 0 is never.
KILL = """
import importlib, os, signal, sys
place, number, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
module, _, name = place.rpartition(":")
owner = importlib.import_module(module)
*path, last = name.split(".")
for part in path:
    owner = getattr(owner, part)
real = getattr(owner, last)

def counted(*given, **named):
    global number
    number -= 1
    # Other threads may go on counting before this call is over.
    struck = number == 0
    result = real(*given, **named)
    if struck:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

setattr(owner, last, counted)
from tfrec_cli.cli import main
sys.exit(main(arguments))
"""
NOTE = "tfrec_cli.shardlog:ShardLog.note"


def killed(folder: Path, arguments: list[str], place: str = NOTE, number: int = 1) -> bool:
    """Run `tfrec convert` in a process that is killed after a call; whether it was."""
    command = [sys.executable, "-c", KILL, place, str(number), "convert", *arguments, "-q"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def convert(arguments: list[str]) -> int:
    """Run `tfrec convert` in this process; the exit code."""
    with pytest.raises(SystemExit) as end:
        main(["convert", *arguments, "-q"])
    assert isinstance(end.value.code, int)
    return end.value.code
