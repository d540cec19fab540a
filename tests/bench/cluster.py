"""What a cluster costs and gains.

    python tests/bench/cluster.py driver      the driver of 10,000 partitions x 10,000 shards
    python tests/bench/cluster.py workers     one worker against two, real processes

`driver` plans and gathers the receipts of a shuffle of 1.3 TB without any data: tasks are pickled
and answered at once. Its limits are 60 s and 1 GiB. `workers` converts copies of the data set
*wide* of tests/bench/run.py, with workers of one thread each, on a memory file system.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pickle
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

PARTITIONS, SHARDS, ROWS, RECORD = 10_000, 10_000, 250_000, 512.0


COMPRESSED = ["--compression", "gzip:1"]


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=["driver", "workers"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=4, help="files of the table")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the rows of the table")
    parser.add_argument("--data", type=Path, default=Path("/dev/shm/tfrec-bench"))
    asked = parser.parse_args()
    # The way out by an exception, which ends the processes that were started.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if asked.part == "driver":
        driver()
    else:
        workers(asked)


class Answers:
    """An engine that does no task, and answers each with a receipt of the size it would have."""

    def __init__(self) -> None:
        self.remote = True
        self.notices: list[str] = []
        self.sent: dict[str, list[int]] = {}

    def threads(self) -> tuple[int, int]:
        """A hundred workers of two threads."""
        return 200, 2

    def require(self, check: Callable[[], str | None]) -> None:
        """Each worker sees all."""
        assert check() is None

    def map(self, function: Any, tasks: Iterable[Any], wanted: str | None = None) -> Iterator[Any]:
        """A receipt for each task."""
        given = function.args[0].load()
        name = function.func.__name__
        sizes = self.sent.setdefault(name, [])
        for task in tasks:
            receipt = ANSWERS[name](given, pickle.loads(_sent(function, task, sizes)))
            yield pickle.loads(pickle.dumps(receipt))


def _sent(function: Any, task: Any, sizes: list[int]) -> bytes:
    data = pickle.dumps((function, task))
    sizes.append(len(data))
    return pickle.dumps(task)


def _mapped(given: Any, task: Any) -> Any:
    import numpy as np

    from tfrec_cli.cluster.ordered import Mapped
    from tfrec_cli.shuffle.runs import run_path

    total = given.mapping.segments.total
    rows = sum(piece.rows for piece in task.pieces)
    counts = np.full(total, rows // total, np.int64)
    counts[: rows % total] += 1
    return Mapped(task.name, (run_path(given.mapping.folder, task.name),), counts)


def _merged(given: Any, task: Any) -> Any:
    from tfrec_cli.shuffle.runs import run_path

    return task.name, run_path(given.mapping.folder, task.name)


def _written(given: Any, task: Any) -> Any:
    from tfrec_cli.cluster.output import Written
    from tfrec_cli.dataset.manifest import Shard

    pairs = zip(task.lot.names, task.lot.counts, strict=True)
    return Written(tuple(Shard(name, n, int(n * RECORD), 12345) for name, n in pairs))


ANSWERS = {"map_rows": _mapped, "merge_runs": _merged, "write_ordered": _written}


def driver() -> None:
    """Print what the driver takes; fails where that is more than its limits."""
    from tfrec_cli.arrangement import Order
    from tfrec_cli.cluster.driver import ClusterRun, write_on_cluster
    from tfrec_cli.dataset.naming import parse_dest, shard_rows
    from tfrec_cli.dataset.staging import staging
    from tfrec_cli.options import ConvertOptions
    from tfrec_cli.plan import Plan, SplitPlan
    from tfrec_cli.progress import SILENT
    from tfrec_cli.receipts import Receipts
    from tfrec_cli.shardlog import ShardLog
    from tfrec_cli.sources.base import Partition
    from tfrec_cli.spill import Disks
    from tfrec_cli.splitting.splitter import Splitter
    from tfrec_cli.tasks import Piece, Work

    Disks.check = lambda *_: None  # type: ignore[method-assign]
    began = time.perf_counter()
    pieces = tuple(
        Piece(Partition(f"/data/part-{at:05d}.parquet", 0, ROWS, 2**27), ROWS, at * ROWS)
        for at in range(PARTITIONS)
    )
    total = PARTITIONS * ROWS
    split = SplitPlan("train", (), tuple(shard_rows(total, SHARDS)))
    plan = Plan((split,), total, 0, pieces, RECORD, None, (ROWS,) * PARTITIONS)
    work = Work(None, (), ("a",), "fail", Splitter("one", ("train",)), Order("shuffle"))  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        options = ConvertOptions(("/data",), f"{folder}/d", shuffle=True, memory=4 * 2**30)
        dest, engine = parse_dest(options.dest), Answers()
        with staging(dest) as stage:
            log = ShardLog(Receipts(stage.receipts), dest.shards("train", SHARDS))
            run = ClusterRun(engine, options, dest, work, plan, SILENT, log)
            found = write_on_cluster(run, stage)
    seconds = time.perf_counter() - began
    assert [len(s.shards) for s in found] == [SHARDS]
    assert found[0].records == total
    status = Path("/proc/self/status").read_text().splitlines()
    memory = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    for name, sizes in engine.sent.items():
        if not sizes:
            continue
        print(f"{name}: {len(sizes):,} tasks of {max(sizes):,} bytes at most")
    print(
        f"{seconds:.1f} s (limit 60), {memory:.0f} MiB (limit 1024), load {os.getloadavg()[0]:.1f}"
    )
    if seconds > 60 or memory > 1024:
        raise SystemExit(1)


def workers(asked: argparse.Namespace) -> None:
    """Print seconds with threads, one worker and two, medians of rounds."""
    import run
    from clusters import cluster

    asked.data.mkdir(parents=True, exist_ok=True)
    asked.inputs = ["parquet"]
    source = _copies(run._cases("wide", asked)[0].path, asked)
    found: dict[tuple[str, str], list[float]] = {}
    orders = {"source order": [], "shuffled": ["--shuffle"]}
    with cluster(asked.data / "one", 1) as one, cluster(asked.data / "two", 2) as two:
        engines = {
            "1 thread": ["-j", "1"],
            "1 worker": ["--engine", "dask", "--scheduler", one.address],
            "2 workers": ["--engine", "dask", "--scheduler", two.address],
        }
        for _ in range(asked.rounds):
            for order, engine in itertools.product(orders, engines):
                words = [*orders[order], *engines[engine], "--shards", "16"]
                found.setdefault((order, engine), []).append(_seconds(source, asked.data, words))
    print("\n".join(_table(orders, list(engines), partial(_median, found))))
    print(f"\nload {os.getloadavg()[0]:.1f} at the end; seconds, medians of {asked.rounds} rounds")


def _copies(table: Path, asked: argparse.Namespace) -> Path:
    """A folder with the table as several files."""
    folder: Path = asked.data / f"copies-{asked.copies}-{asked.scale:g}"
    folder.mkdir(exist_ok=True)
    for at in range(asked.copies):
        copy = folder / f"part-{at}.parquet"
        if not copy.exists():
            copy.hardlink_to(table)
    return folder


def _seconds(source: Path, folder: Path, words: list[str]) -> float:
    command = [sys.executable, "-m", "tfrec_cli", "convert", str(source), str(folder / "out")]
    began = time.perf_counter()
    subprocess.run([*command, "-q", "--overwrite", "--force", *COMPRESSED, *words], check=True)
    return time.perf_counter() - began


def _median(found: dict[tuple[str, str], list[float]], order: str, engine: str) -> float:
    return statistics.median(found[order, engine])


def _table(
    orders: Iterable[str], engines: list[str], median: Callable[[str, str], float]
) -> Iterator[str]:
    yield f"| wide, Parquet, 16 shards, gzip:1 | {' | '.join(engines)} | 2 workers are |"
    yield "|---" * (len(engines) + 2) + "|"
    for order in orders:
        cells = [f"{median(order, engine):.2f}" for engine in engines]
        faster = median(order, engines[1]) / median(order, engines[2])
        yield f"| {order} | {' | '.join(cells)} | {faster:.2f} × as fast |"


if __name__ == "__main__":
    main()
