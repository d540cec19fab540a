"""Ways to compress, tried on an excerpt: what each makes of size, of writing and of reading."""

from __future__ import annotations

import io
import math
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tfrec_cli._kernel import scan
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.options import LEVELS, Compression, CompressorName
from tfrec_cli.records.compression import BLOCK_SIZE
from tfrec_cli.records.compressors import is_installed

TRIED: dict[CompressorName, tuple[int, ...]] = {
    "zlib": (1, 6, 9),
    "isal": (0, 1, 2, 3),
    "libdeflate": (1, 6, 9, 12),
}

WORTHWHILE = 0.9
"""Compression is advised where it leaves at most this share of the size."""

CLOSE = 1.15
"""Of those whose files are at most this many times the smallest, the fastest is advised."""

MOMENT = 0.2
"""Seconds below which one measurement is too short to be relied on."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to compress a whole dataset, by what it did to the excerpt.

    bytes: of all shards. ratio: to the size without compression. write_seconds: reading the
    source, encoding, compressing on all jobs. read_seconds: inflating as TensorFlow does and
    checking every record, on one processor. No disk is counted.
    """

    compression: Compression
    bytes: float
    ratio: float
    write_seconds: float
    read_seconds: float


@dataclass(frozen=True, slots=True)
class Workload:
    """What is to be compressed: its framed bytes, those of a shard, the seconds that it takes to
    read and encode, and the threads there are to compress it.
    """

    bytes: float
    shard_bytes: float
    encode_seconds: float
    jobs: int


@dataclass(frozen=True, slots=True)
class Measured:
    """An excerpt compressed: bytes and CPU seconds per byte of it, to write and to read."""

    ratio: float
    write: float
    read: float


def measure(excerpt: bytes, compression: Compression, shard_bytes: float) -> Measured:
    """Compress `excerpt`, cut as shards of `shard_bytes` would be, into memory, and read it.

    What takes a moment only is done up to three times, of which the quickest counts.
    """
    cut = len(excerpt) if shard_bytes >= BLOCK_SIZE else min(len(excerpt), math.ceil(shard_bytes))
    cut = max(1, cut)
    chunks = [memoryview(excerpt)[at : at + cut] for at in range(0, len(excerpt), cut)]
    rounds = [_round(chunks, compression)]
    while len(rounds) < 3 and sum(write + read for _, write, read in rounds) < MOMENT:
        rounds.append(_round(chunks, compression))
    total = max(1, len(excerpt))
    write, read = min(r[1] for r in rounds), min(r[2] for r in rounds)
    return Measured(rounds[0][0] / total if excerpt else 1.0, write / total, read / total)


def margin(stretches: Sequence[bytes], ratio: float, unseen: float = 0.0) -> float:
    """How far the compressed size may be from what stretches of records from all over a dataset
    show: a share of it, three times the standard error. ratio: what they are compressed to.

    unseen: the share of records that no stretch stands for. These may vanish when compressed, or
    not become smaller at all; so may those of all places but one.

    The error is that of a systematic sample by the differences of neighbours (Wolter: Introduction
    to Variance Estimation, 2007, chapter 8): what drifts slowly is met well by such a sample. How
    much each stretch is compressed is tried with zlib's fastest level.
    """
    ratios = [len(zlib.compress(data, 1)) / len(data) for data in stretches if data]
    worst = max(1.0, 1 / ratio - 1)
    if len(ratios) < 2:
        return worst
    squares = sum((after - before) ** 2 for before, after in pairwise(ratios))
    error = math.sqrt(squares / (2 * (len(ratios) - 1)) / len(ratios))
    known = 3 * error / (sum(ratios) / len(ratios))
    return (1 - unseen) * known + unseen * worst


def _round(chunks: Sequence[memoryview], compression: Compression) -> tuple[int, float, float]:
    """Bytes of the chunks compressed, and seconds to write them and to read them."""
    size, write, read = 0, 0.0, 0.0
    for chunk in chunks:
        began = time.perf_counter()
        written = _written(chunk, compression)
        middle = time.perf_counter()
        scan(_inflated(written, compression))
        size += len(written)
        write, read = write + middle - began, read + time.perf_counter() - middle
    return size, write, read


def compare(excerpt: bytes, load: Workload) -> tuple[Trial, ...]:
    """All ways that the installed compressors offer; none first."""
    return tuple(_trial(excerpt, way, load) for way in candidates())


def candidates() -> Iterator[Compression]:
    """What is tried: none, then GZIP and ZLIB by each installed compressor at several levels."""
    yield Compression()
    for kind in ("gzip", "zlib"):
        for name, levels in TRIED.items():
            if is_installed(name) and not (kind == "zlib" and name == "libdeflate"):
                yield from (Compression(kind, level, name) for level in levels)


def absent() -> tuple[CompressorName, ...]:
    """The compressors that are not installed."""
    return tuple(name for name in LEVELS if not is_installed(name))


def recommend(trials: Sequence[Trial], image_share: float) -> tuple[Compression, str]:
    """What to choose, and why. image_share: of the bytes of values, those of encoded images."""
    best = _best([t for t in trials[1:] if not _expands(t.compression)])
    leaves = f"{_option(best.compression)} leaves {best.ratio:.0%} of the size"
    if image_share > 0.5:
        more = f" Where space counts more, {leaves}." if best.ratio <= WORTHWHILE else ""
        return Compression(), (
            f"Recommended: none. {image_share:.0%} of the values' bytes are images, which are "
            f"compressed already, and every pass over them would pay for inflating.{more}"
        )
    if best.ratio > WORTHWHILE:
        return Compression(), f"Recommended: none. These records hardly compress: {leaves}."
    return best.compression, (
        f"Recommended: {_option(best.compression)}. It leaves {best.ratio:.0%} of the size, and "
        f"inflating costs each pass over the records {best.read_seconds:.2g} s of processor time; "
        "where space is cheap, choose none."
    )


def _best(trials: Sequence[Trial]) -> Trial:
    """The fastest GZIP (more programs read it than ZLIB) among those that are close to the
    smallest.
    """
    gzip = [t for t in trials if t.compression.kind == "gzip"]
    limit = CLOSE * min(t.bytes for t in gzip)
    return min((t for t in gzip if t.bytes <= limit), key=lambda t: t.write_seconds)


def _trial(excerpt: bytes, way: Compression, load: Workload) -> Trial:
    found = measure(excerpt, way, load.shard_bytes)
    compressing = found.write * load.bytes / parallel(way, load)
    return Trial(
        way,
        found.ratio * load.bytes,
        found.ratio,
        load.encode_seconds + compressing,
        found.read * load.bytes,
    )


def parallel(way: Compression, load: Workload) -> int:
    """How many threads compress side by side: one a block, and one where nothing is compressed."""
    return 1 if way.kind == "none" else max(1, min(load.jobs, int(load.bytes // BLOCK_SIZE)))


def _written(data: memoryview, compression: Compression) -> memoryview:
    stream = io.BytesIO()
    with ShardWriter(stream, compression) as shard:
        shard.write(data, 0)
        shard.close()
    return stream.getbuffer()


def _inflated(data: memoryview, compression: Compression) -> memoryview | bytes:
    if compression.kind == "none":
        return data
    parts = []
    rest: memoryview | bytes = data
    while len(rest):
        stream = zlib.decompressobj(wbits=31 if compression.kind == "gzip" else 15)
        parts.append(stream.decompress(rest))
        rest = stream.unused_data
    return b"".join(parts)


def _expands(way: Compression) -> bool:
    """Whether incompressible data grows by a fifth, as at ISA-L's lowest level."""
    return way.compressor == "isal" and way.level == 0


def _option(way: Compression) -> str:
    option = f"--compression {way.kind}:{way.level}"
    return option if way.compressor == "zlib" else f"{option} --compressor {way.compressor}"
