"""How fast records are read, beside a loop over protobuf, each figure set against its limit.

    python tests/bench/reading.py                     everything (about six minutes)
    python tests/bench/reading.py decode stats        these only

All figures are of processor time, of all threads together, and the least of several runs: what the
machine does besides is not theirs. "After start-up" is a whole process less the same on very few
records, which takes about as long as to import what it needs; that of the loop is taken off too.
Data and output lie on a memory file system.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import run
from limits import DATA, Figures, _convert, _remove, _table, report

NAMES = ("narrow", "wide")
ROUNDS, LOOPS = 7, 2
LEAST = 20
_TFREC = (sys.executable, "-m", "tfrec_cli")
_LOOP = (sys.executable, str(run.RIVALS / "read_loop.py"))
_EXPORTED = DATA / "exported.parquet"


def main() -> None:
    """Measure what is asked for, and print a line for each figure."""
    report(__doc__, PARTS)
    _remove(_EXPORTED, *(DATA / f"reading-{name}{few}" for name in NAMES for few in ("", "-few")))
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end")


def decode() -> Figures:
    """The kernel alone: framed bytes in memory to Arrow columns."""
    from tfrec_cli import _kernel
    from tfrec_cli.reading import open_dataset
    from tfrec_cli.reading.chunks import read_chunks

    for name in NAMES:
        dataset = open_dataset(_dataset(name))
        wanted = [f.wanted for f in dataset.features.values() if f.wanted is not None]
        chunks = [c for file in dataset.files for c in read_chunks(file) if len(c.ends)]

        def once(chunks: list = chunks, wanted: list = wanted) -> float:
            began = time.process_time()
            for chunk in chunks:
                _kernel.decode_examples(chunk.data, chunk.ends, wanted)
            return time.process_time() - began

        seconds = min(once() for _ in range(ROUNDS))
        rate = sum(chunk.data.size for chunk in chunks) / seconds / 1e9
        times = _after_start(_LOOP, name) / seconds
        yield f"decode, {name}", f"{times:.0f} × the loop ({rate:.1f} GB/s a core)", f"≥ {LEAST}"


def stats() -> Figures:
    """`tfrec stats`."""
    yield from _compared("stats", _nothing, _nothing)


def export() -> Figures:
    """`tfrec export` to a Parquet file, and the loop's columns as one."""
    yield from _compared("export", _new_file, _new_file)


def verify() -> Figures:
    """`tfrec verify`: bytes of shards for each second of a core."""
    for name in NAMES:
        size = sum(path.stat().st_size for path in Path(_dataset(name)).glob("*.tfrecord-*"))
        rate = size / _after_start((*_TFREC, "verify", "-j", "1"), name) / 1e9
        yield f"verify, {name}, after start-up", f"{rate:.1f} GB/s a core", "≥ 1"


PARTS: dict[str, Callable[[], Figures]] = {
    part.__name__: part for part in (decode, stats, export, verify)
}
_More = Callable[[str], tuple[str, ...]]


def _compared(command: str, own: _More, others: _More) -> Iterator[tuple[str, str, str]]:
    """A command beside the loop. own, others: the further arguments of each."""
    for name in NAMES:
        whole = _least((*_TFREC, command, _dataset(name)), own)
        start = _start((*_TFREC, command), own)
        loop, begin = _loop(name, others), _start(_LOOP, others)
        yield (
            f"{command}, {name}",
            f"{loop / whole:.1f} × the loop ({whole:.2f} s of {loop:.1f})",
            "",
        )
        times = (loop - begin) / (whole - start)
        yield f"{command}, {name}, after start-up", f"{times:.0f} × the loop", f"≥ {LEAST}"


def _nothing(_: str) -> tuple[str, ...]:
    return ()


def _new_file(_: str) -> tuple[str, ...]:
    _EXPORTED.unlink(missing_ok=True)
    return (str(_EXPORTED),)


def _after_start(command: tuple[str, ...], name: str) -> float:
    if command == _LOOP:
        return _loop(name, _nothing) - _start(command, _nothing)
    return _least((*command, _dataset(name)), _nothing) - _start(command, _nothing)


@cache
def _loop(name: str, more: _More) -> float:
    return _least((*_LOOP, _dataset(name)), more, LOOPS)


def _start(command: tuple[str, ...], more: _More) -> float:
    return _least((*command, _dataset("narrow", few=True)), more)


def _least(command: tuple[str, ...], more: _More, rounds: int = ROUNDS) -> float:
    return min(_cpu((*command, *more(""))) for _ in range(rounds))


@cache
def _dataset(name: str, few: bool = False) -> str:
    """The folder of a dataset of four shards, written where it is not there; of `few` records."""
    folder = DATA / f"reading-{name}{'-few' if few else ''}"
    table = _table(name)
    if not folder.exists():
        _convert(run._cut(table, "parquet", 0.0001) if few else table, folder, "--shards", "4")
    return str(folder)


def _cpu(command: tuple[str, ...]) -> float:
    """Seconds of processor time that a command takes, all its threads together."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run._timed(list(command))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
