"""How the memory of a shuffle or sort is used."""

from __future__ import annotations

from dataclasses import dataclass

# What a worker needs at least; more workers than the budget has room for would make tiny runs.
LEAST_PER_WORKER = 16 * 2**20
# Each run is read once a segment; more workers mean smaller and thus more of both.
MOST_READS = 200_000
MOST_PER_RUN = 128 * 2**20
# Runs of data that fits in memory: large enough to sort well, small enough to keep all cores busy.
RUN_IN_MEMORY = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Budget:
    """How the memory of a run is used, in bytes.

    workers: threads. run: of one sorted run. segment: of what is merged at a time. held: of all
    runs that stay in memory; 0 where files are needed from the start. small: then of runs that
    turned out small.
    """

    workers: int
    run: int
    segment: int
    held: int
    small: int


def plan_memory(memory: int, jobs: int, size: float) -> Budget:
    """How to order `size` bytes of records in `memory` bytes with `jobs` threads.

    A worker holds up to four times the run it is making (source rows, features, records, sorted
    records), and two portions wait for it; or twice what it merges, while as much as once waits for
    the writer, who has another such.
    """
    workers = max(1, min(jobs, memory // LEAST_PER_WORKER))
    run = _share(memory, 12 * workers, RUN_IN_MEMORY)
    held = memory - 6 * workers * run
    if size <= held:
        return Budget(workers, run, run, held, memory // 8)
    # With `run` and `segment` as below there are up to 24 * (workers * size / memory)**2 reads.
    return spilling(
        memory, min(workers, max(2, int((MOST_READS / 24) ** 0.5 * memory / max(1.0, size))))
    )


def spilling(memory: int, workers: int) -> Budget:
    """How to order what does not fit in `memory` bytes."""
    run = _share(memory, 6 * workers, MOST_PER_RUN)
    segment = _share(memory, 3 * workers + 1, MOST_PER_RUN)
    return Budget(workers, run, segment, 0, memory // 8)


def _share(memory: int, parts: int, most: int) -> int:
    return max(1, min(most, memory // parts))
