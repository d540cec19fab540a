"""What speed and memory must keep to beside the rivals, each measured and set against its limit.

    python tests/bench/limits.py                     everything (about ten minutes, 8 GB of memory)
    python tests/bench/limits.py kernel gzip         these only

Data and output lie on a memory file system. Figures of one core need a quiet machine; the load at
the end is printed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import select
import shutil
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import run

DATA = Path("/dev/shm/tfrec-bench")
OUT = DATA / "limits.tfrecord"
ROUNDS = 3
BLOCK = 4 * 2**20


def main() -> None:
    """Measure what is asked for, and print a line for each figure."""
    report(__doc__, PARTS)
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end")


def report(about: str | None, known: Mapping[str, Callable[[], Figures]]) -> None:
    """Measure the parts that the command line names, else all, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=list(known), help=", ".join(known))
    asked = parser.parse_args().parts
    if unknown := set(asked) - set(known):
        parser.error(f"no part {', '.join(unknown)}: choose from {', '.join(known)}")
    DATA.mkdir(parents=True, exist_ok=True)
    print("| | measured | limit |\n|---|---|---|")
    for part in asked:
        for what, measured, limit in known[part]():
            print(f"| {what} | {measured} | {limit} |", flush=True)


Figures = Iterator[tuple[str, str, str]]


def kernel() -> Figures:
    """Output of the encoder a second, on one core and on two."""
    yield "memcpy, one core", f"{_memcpy() / 1e9:.1f} GB/s", ""
    for name, data, limit in (("narrow", "narrow", 0.8), ("wide", "wide", 0.55),
                              ("vector", "float_vec", 3.0)):  # fmt: skip
        batches = _feature_columns(_table(data))
        one, two = _encode_rate(batches, 1), _encode_rate(batches, 2)
        yield f"kernel, {name}, one core", f"{one / 1e9:.2f} GB/s", f"≥ {limit} GB/s"
        yield f"kernel, {name}, two threads", f"{two / one:.2f} × one", "≥ 1.7"


def gzip() -> Figures:
    """GZIP at zlib's level 6 against the compressor alone, and against the expert loop."""
    plain = DATA / "plain.tfrecord"
    table = _table("wide")
    _convert(table, plain)
    wanted = {"one file": [str(OUT) + ".gz"], "4 shards": [str(DATA / "shards"), "--shards", "4",
                                                            "--compression", "gzip"]}  # fmt: skip
    alone, times = [], {name: [] for name in wanted}
    for _ in range(ROUNDS):
        alone.append(_deflate(plain))
        for name, dest in wanted.items():
            times[name].append(_convert(table, *dest))
    loop = _seconds([sys.executable, str(run.RIVALS / "pb_loop.py"), "reuse", "wide", str(table),
                     str(DATA / "loop.gz"), "GZIP"])  # fmt: skip
    for name, seconds in times.items():
        ours, own = statistics.median(seconds), statistics.median(alone)
        yield f"gzip:6, wide, {name}", f"{ours / own:.2f} × zlib alone ({own:.1f} s)", "≤ 1.15"
        yield f"gzip:6, wide, {name}", f"{loop / ours:.1f} × as fast as the expert loop", "≥ 2.5"
    _remove(plain, DATA / "loop.gz", DATA / "shards")


def start() -> Figures:
    """From the start of the process to the first byte of the source that is read."""
    source = DATA / "watched.parquet"
    shutil.copy(_table("narrow"), source)
    seconds = statistics.median(_until_read(source) for _ in range(5))
    yield "start to first byte read", f"{seconds:.2f} s", "≤ 0.3 s"
    _remove(source)


def infer() -> Figures:
    """A CSV whose schema is inferred first, against one with a schema."""
    for name in ("narrow", "wide"):
        table = _table(name).with_suffix(".csv")
        schema = run._schema(table)
        pairs = [
            (_convert(table, OUT), _convert(table, OUT, "--schema", schema)) for _ in range(ROUNDS)
        ]
        without, given = (statistics.median(times) for times in zip(*pairs, strict=True))
        yield f"{name} CSV, schema inferred", f"{without / given:.2f} × the time with one", "≤ 1.7"


def ten() -> Figures:
    """Ten times the rows, after start-up."""
    import pyarrow.parquet as pq

    table, large = _table("narrow"), DATA / "narrow10.parquet"
    if not large.exists():
        whole = pq.read_table(table)
        with pq.ParquetWriter(large, whole.schema) as writer:
            for _ in range(10):
                writer.write_table(whole, row_group_size=65536)
    small = run._cut(table, "parquet", 0.0001)
    begin, one, all_ = (
        statistics.median(_convert(source, OUT) for _ in range(ROUNDS))
        for source in (small, table, large)
    )
    ratio = (all_ - begin) / (one - begin)
    yield "narrow, ten times the rows", f"{ratio:.1f} × as long after start-up", "≤ 10.5"
    _remove(large)


def images() -> Figures:
    """100,000 small images in 100 classes."""
    folder = DATA / "small-images"
    if not folder.exists():
        _small_images(folder)
    found = run._timed([*_TFREC, str(folder), str(OUT)])
    rate = OUT.stat().st_size / 1e6 / found.seconds
    yield "100,000 small images", f"{found.seconds:.1f} s, {rate:.0f} MB/s", ""
    yield "100,000 small images", f"{found.memory:.0f} MiB", "≤ 600 MiB"
    _remove(OUT, folder)


def order() -> Figures:
    """3 GB shuffled within 128 MiB, against the same unshuffled."""
    sources = [DATA / f"wide-{number}.parquet" for number in range(8)]
    for source in sources:
        if not source.exists():
            os.link(_table("wide"), source)
    paths = [str(source) for source in sources]
    for name, dest in (("16 shards", [str(DATA / "shuffled"), "--shards", "16"]),
                       ("one file", [str(OUT)])):  # fmt: skip
        plain = run._timed([*_TFREC, *paths, *dest])
        _remove(OUT, DATA / "shuffled")
        mixed = run._timed([*_TFREC, *paths, *dest, "--shuffle", "--memory", "128MiB"])
        _remove(OUT, DATA / "shuffled")
        ratio = f"{mixed.seconds / plain.seconds:.2f} × the time ({plain.seconds:.1f} s)"
        yield f"shuffle of 3 GB, {name}", ratio, "≤ 2.5"
        yield f"shuffle of 3 GB, {name}", f"{mixed.memory:.0f} MiB", "≤ 478 MiB"
    _remove(*sources)


PARTS: dict[str, Callable[[], Figures]] = {
    part.__name__: part for part in (kernel, gzip, start, infer, ten, images, order)
}
# Else what is there, made of the same source, would be up to date.
_TFREC = [sys.executable, "-m", "tfrec_cli", "convert", "--quiet", "--overwrite", "--force"]


def _table(name: str) -> Path:
    path = DATA / f"{name}.parquet"
    if not path.exists():
        run._make(name, DATA)
    return path


def _convert(source: Path, *rest: object) -> float:
    seconds = _seconds([*_TFREC, str(source), *map(str, rest)])
    _remove(OUT, Path(f"{OUT}.gz"))
    return seconds


def _seconds(command: list[str]) -> float:
    return run._timed(command).seconds


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
            side = path.name.replace(".", "-")
            shutil.rmtree(path.with_name(f".{side}.tfrec.d"), ignore_errors=True)


def _memcpy() -> float:
    """Bytes a second that one core copies."""
    source, target = bytearray(256 * 2**20), bytearray(256 * 2**20)
    rates = []
    for _ in range(5):
        began = time.perf_counter()
        target[:] = source
        rates.append(len(source) / (time.perf_counter() - began))
    return max(rates)


def _feature_columns(table: Path) -> list[Any]:
    """The feature columns of a table, batch by batch, as conversion makes them."""
    from tfrec_cli.options import ConvertOptions
    from tfrec_cli.settlement import settle
    from tfrec_cli.tasks import Work, feature_columns, limited_pieces, read_piece

    settled = settle(ConvertOptions((str(table),), "-"))
    work = Work(settled.source, settled.features, settled.columns)
    pieces = limited_pieces(settled.survey.partitions, None)
    return [feature_columns(work, batch) for piece in pieces for batch in read_piece(work, piece)]


def _encode_rate(batches: list[Any], threads: int) -> float:
    """Bytes of records a second."""
    from tfrec_cli.encoding import encode_rows

    def encode(columns: Any) -> int:
        return memoryview(encode_rows(columns).data).nbytes

    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            began = time.perf_counter()
            size = sum(pool.map(encode, batches))
            rates.append(size / (time.perf_counter() - began))
    return max(rates)


def _deflate(path: Path) -> float:
    """Seconds that zlib takes for the bytes of a file in blocks, on all cores."""
    data = memoryview(path.read_bytes())

    def one(start: int) -> int:
        deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
        return len(deflate.compress(data[start : start + BLOCK])) + len(deflate.flush())

    began = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        sum(pool.map(one, range(0, len(data), BLOCK)))
    return time.perf_counter() - began


def _until_read(source: Path) -> float:
    """Seconds from the start of tfrec to its first look into `source`, told by the system."""
    system = ctypes.CDLL(None)
    watch = system.inotify_init()
    opened = 0x20
    system.inotify_add_watch(watch, os.fsencode(source), opened)
    began = time.perf_counter()
    process = subprocess.Popen([*_TFREC, str(source), str(OUT)])
    try:
        if not select.select([watch], [], [], 30)[0]:
            raise SystemExit("the source was never opened")
        return time.perf_counter() - began
    finally:
        process.wait()
        os.close(watch)
        _remove(OUT)


def _small_images(folder: Path) -> None:
    """JPEGs of noise, 100,000 files of a few different contents."""
    from io import BytesIO

    from PIL import Image

    contents = []
    for _ in range(50):
        out = BytesIO()
        Image.effect_noise((80, 80), 60).convert("RGB").save(out, "JPEG")
        contents.append(out.getvalue())
    for group in range(100):
        (folder / f"class{group:02d}").mkdir(parents=True)
        for number in range(1000):
            path = folder / f"class{group:02d}" / f"{number:04d}.jpg"
            path.write_bytes(contents[(group + number) % len(contents)])


if __name__ == "__main__":
    main()
