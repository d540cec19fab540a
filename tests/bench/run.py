"""How long tfrec takes, against the loops that people write, in one run.

    python tests/bench/run.py                        everything, three rounds
    python tests/bench/run.py --only narrow --rivals expert --scale 0.1

Whole processes, start-up included, uncompressed, one output file. The rounds are interleaved, so
that what else the machine does meets all alike; the table shows medians. Data and output lie on a
memory file system. Peak memory is VmHWM of the process itself. `canonical` is the loop of tutorials
(pandas rows, nested constructors, TFRecordWriter), `expert` is protobuf with one reused message and
the crc32c package, without TensorFlow; both are in `rivals/`, with what makes the data.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

RIVALS = Path(__file__).parent / "rivals"
SETS = {"narrow": "narrow", "wide": "wide", "vector": "float_vec", "images": "images"}
INPUTS = ("parquet", "csv")


@dataclass(frozen=True)
class Case:
    """One input: its name in the table, the data set that the loops know it by, and its path."""

    title: str
    data: str
    path: Path
    schema: Path | None = None


@dataclass(frozen=True)
class Run:
    """Seconds from start to exit, and MiB of the process at its largest."""

    seconds: float
    memory: float


def main() -> None:
    """Make the data, run the rounds, print the table."""
    asked = _arguments()
    asked.data.mkdir(parents=True, exist_ok=True)
    cases = [case for name in asked.only for case in _cases(name, asked)]
    runs: dict[tuple[str, str], list[Run]] = {}
    for number in range(asked.rounds):
        for case in cases:
            for who in ("tfrec", *asked.rivals):
                print(f"round {number + 1}: {case.title}, {who}", file=sys.stderr)
                out = asked.data / "out.tfrecord"
                runs.setdefault((case.title, who), []).append(_timed(_command(who, case, out)))
                _clear(out)
    print("\n".join(_table(cases, asked.rivals, runs)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", type=_names(SETS), default=list(SETS), help="data sets")
    parser.add_argument("--inputs", type=_names(INPUTS), default=list(INPUTS))
    parser.add_argument(
        "--rivals", type=_names(("canonical", "expert")), default=["canonical", "expert"]
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the rows, up to 1")
    parser.add_argument("--data", type=Path, default=Path("/dev/shm/tfrec-bench"))
    return parser.parse_args()


def _names(known: Iterable[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown)}: choose from {', '.join(known)}"
            )
        return names

    return parse


def _cases(name: str, asked: argparse.Namespace) -> list[Case]:
    data = SETS[name]
    if name == "images":
        return [Case(name, data, _images(asked.data, asked.scale))]
    table = asked.data / f"{data}.parquet"
    if not table.exists():
        _make(data, asked.data)
    cases = []
    for kind in asked.inputs:
        if kind == "csv" and name == "vector":
            continue
        path = _cut(table, kind, asked.scale)
        schema = _schema(path) if kind == "csv" else None
        cases.append(Case(f"{name} {kind}", data, path, schema))
    return cases


def _make(name: str, folder: Path) -> None:
    environment = os.environ | {"BENCH_DATA": str(folder)}
    command = [sys.executable, str(RIVALS / "make_data.py"), name]
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)


def _cut(table: Path, kind: str, scale: float) -> Path:
    """The table in the form `kind` with the first part of its rows."""
    if scale == 1:
        return table.with_suffix(f".{kind}")
    path = table.with_name(f"{table.stem}-{scale:g}.{kind}")
    if not path.exists():
        import pyarrow.csv as pa_csv
        import pyarrow.parquet as pq

        whole = pq.read_table(table)
        part = whole.slice(0, max(1, round(whole.num_rows * scale)))
        if kind == "csv":
            pa_csv.write_csv(part, path, pa_csv.WriteOptions(quoting_style="none"))
        else:
            pq.write_table(part, path, row_group_size=65536)
    return path


def _images(folder: Path, scale: float) -> Path:
    if not (folder / "images").exists():
        _make("images", folder)
    if scale == 1:
        return folder / "images"
    part = folder / f"images-{scale:g}"
    files = sorted((folder / "images").glob("*/*.jpg"), key=lambda file: file.name)
    for file in [] if part.exists() else files[: max(1, round(len(files) * scale))]:
        (part / file.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, part / file.parent.name)
    return part


def _schema(table: Path) -> Path:
    path = table.with_suffix(".csv.yaml")
    command = [sys.executable, "-m", "tfrec_cli", "schema", str(table)]
    path.write_bytes(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return path


def _command(who: str, case: Case, out: Path) -> list[str]:
    if who == "tfrec":
        schema = [] if case.schema is None else ["--schema", str(case.schema)]
        tfrec = [sys.executable, "-m", "tfrec_cli", "convert", "--quiet"]
        return [*tfrec, str(case.path), str(out), *schema]
    loop = {"canonical": ("tf_loop.py", "itertuples"), "expert": ("pb_loop.py", "reuse")}[who]
    return [sys.executable, str(RIVALS / loop[0]), loop[1], case.data, str(case.path), str(out)]


def _timed(command: list[str]) -> Run:
    """Run a command, and look at its memory now and then: it only grows, and a look takes time from
    a command that keeps all cores busy.
    """
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start compiles what it imports
    memory, ended = [0.0], threading.Event()
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)

    def watch() -> None:
        while not ended.wait(0.02):
            memory.append(_high_water(process.pid) or 0.0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.wait()
    seconds = time.perf_counter() - began
    ended.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
    return Run(seconds, max(memory))


def _high_water(pid: int) -> float | None:
    """VmHWM in MiB; None where the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) / 1024 if lines else None


def _clear(out: Path) -> None:
    out.unlink(missing_ok=True)
    shutil.rmtree(out.with_name(".out-tfrecord.tfrec.d"), ignore_errors=True)


def _table(
    cases: list[Case], rivals: list[str], runs: dict[tuple[str, str], list[Run]]
) -> list[str]:
    heads = ["", "tfrec s", "MiB", *(f"{rival} {what}" for rival in rivals for what in ("s", "×"))]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for case in cases:
        own = runs[case.title, "tfrec"]
        seconds = statistics.median(run.seconds for run in own)
        cells = [case.title, f"{seconds:.2f}", f"{max(run.memory for run in own):.0f}"]
        for rival in rivals:
            other = statistics.median(run.seconds for run in runs[case.title, rival])
            cells += [f"{other:.1f}", f"{other / seconds:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0]
    about = f"{platform.machine()}, {cores} cores, Python {platform.python_version()}"
    return [*lines, "", f"{about}, load {load:.1f} at the end; medians of {len(own)} rounds"]


if __name__ == "__main__":
    main()
