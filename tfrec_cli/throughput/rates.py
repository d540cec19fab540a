"""Reading for a while, the files over and over, and how much was read in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from itertools import count

from tfrec_cli import _kernel
from tfrec_cli.errors import DatasetError
from tfrec_cli.reading import RecordDataset
from tfrec_cli.reading.chunks import read_chunks
from tfrec_cli.reading.targets import Target

_SAMPLE = 64 << 20


@dataclass(frozen=True, slots=True)
class Rate:
    """One measurement.

    reader: `records` (framing, checksums and decompression by tfrec), `columns` (these, and
    features as Arrow columns) or `tf.data`. parallel: threads, or files that tf.data reads at a
    time. bytes: of decompressed content.
    """

    reader: str
    parallel: int
    records: int
    bytes: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        """Records in a second."""
        return self.records / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes of content in a second."""
        return self.bytes / self.seconds


def read_files(files: Sequence[Target], parallel: int, seconds: float) -> Rate:
    """The rate at which `parallel` threads read records, each a file at a time.

    Raises DamageError, or DatasetError for a file that cannot be read.
    """
    turns, lock = count(), threading.Lock()
    began = time.monotonic()

    def work() -> tuple[int, int]:
        records = size = 0
        while True:
            with lock:
                turn = next(turns)
            for more, more_size in _blocks(files[turn % len(files)]):
                records, size = records + more, size + more_size
                if time.monotonic() - began >= seconds:
                    return records, size
            if time.monotonic() - began >= seconds:
                return records, size

    with ThreadPoolExecutor(parallel, thread_name_prefix="tfrec-bench") as pool:
        futures = [pool.submit(work) for _ in range(parallel)]
        done = [future.result() for future in futures]
    elapsed = time.monotonic() - began
    return Rate("records", parallel, sum(r for r, _ in done), sum(s for _, s in done), elapsed)


def _blocks(target: Target) -> Iterator[tuple[int, int]]:
    try:
        for chunk in read_chunks(target):
            yield len(chunk.ends), chunk.data.size
    except OSError as error:
        raise DatasetError(f"{target.path}: {error.strerror or error}.") from None


def read_columns(dataset: RecordDataset, parallel: int, seconds: float) -> Rate:
    """The rate at which all features come as Arrow batches, decoded by `parallel` threads."""
    began = time.monotonic()
    records = size = 0
    dataset = copy(dataset)
    dataset.jobs = parallel
    while time.monotonic() - began < seconds:
        for part in dataset.parts():
            records, size = records + part.batch.num_rows, size + part.size
            if time.monotonic() - began >= seconds:
                break
    return Rate("columns", parallel, records, size, time.monotonic() - began)


def plain_rate(files: Sequence[Target]) -> float:
    """Bytes a second at which records are found in memory: reading without decompression."""
    parts: list[bytes] = []
    size = 0
    for target in files:
        for chunk in read_chunks(target):
            parts.append(chunk.data.to_pybytes())
            size += chunk.data.size
            if size >= _SAMPLE:
                break
        if size >= _SAMPLE:
            break
    began, scanned = time.monotonic(), 0
    while time.monotonic() - began < 0.2:
        for part in parts:
            _kernel.scan(part)
        scanned += size
    return scanned / (time.monotonic() - began)
