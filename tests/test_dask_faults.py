"""Workers, schedulers and drivers that die in the middle: nothing lost, nothing doubled."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster, cluster, kill, wait_for
from conftest import REPOSITORY, content

import tfrec_cli

pytest.importorskip("distributed")

ROWS = 40_000
# What makes work of a few seconds, in many small tasks.
SLOW = ["--compression", "gzip:9", "--shards", "60", "--name", "d"]
STAGES = {"map": ["--shuffle", "--memory", "4MiB"], "shard": []}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of files with numbers that are hard to compress."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("source")
    draw = np.random.default_rng(0)
    for at in range(20):
        columns = {f"x{at}": draw.random(ROWS // 20, np.float32) for at in range(40)}
        pq.write_table(pa.table(columns), folder / f"part-{at:02d}.parquet")
    return str(folder)


@pytest.fixture(scope="module")
def right(source: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What threads write."""
    folder = tmp_path_factory.mktemp("right")
    for name, shuffle in (("map", True), ("shard", False)):
        tfrec_cli.convert(
            source, folder / name, name="d", shards=60, compression="gzip:9", shuffle=shuffle
        )
    return {name: content(folder / name) for name in STAGES}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "cluster", 2) as made:
        yield made


def start(source: str, dest: Path, address: str | None, *options: str) -> subprocess.Popen[str]:
    """Start a conversion on a cluster; without an address on one of its own. It works in the
    folder of DEST.
    """
    where = [] if address is None else ["--scheduler", address]
    command = [sys.executable, "-m", "tfrec_cli", "convert", source, str(dest), *SLOW]
    return subprocess.Popen(
        [*command, "--engine", "dask", *where, *options], start_new_session=True,
        cwd=dest.parent, env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals,
    )  # fmt: skip


def hear_signals() -> None:
    """Those that `nohup`, or a shell that runs the tests in its background, has all ignore."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def ended(run: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and what was said on standard error."""
    _, said = run.communicate(timeout=300)
    return run.returncode, said


def staged(dest: Path, pattern: str, least: int = 1) -> Callable[[], bool]:
    """Whether the stage of a run onto `dest` holds so many files."""
    return lambda: len(list(dest.parent.glob(f".{dest.name}.tfrec-*/{pattern}"))) >= least


def amid(
    stage: str, source: str, dest: Path, address: str | None, *options: str
) -> subprocess.Popen[str]:
    """A conversion of which some tasks of a stage are done, and others in hand."""
    run = start(source, dest, address, *STAGES[stage], *options)
    wait_for(staged(dest, f"work/receipts/{stage}-*.json", 3))
    return run


def leave_little_room() -> None:
    """Let no file of this process be larger than some bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def alone(dest: Path) -> bool:
    """Whether nothing lies beside the dataset but the cluster's own files."""
    return {path.name for path in dest.parent.iterdir()} <= {dest.name, "cluster"}


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_that_is_killed_takes_nothing_with_it(
    tmp_path: Path, source: str, two: Cluster, stage: str, right: dict[str, Any]
) -> None:
    run = amid(stage, source, tmp_path / "d", two.address)
    kill(two.workers[0])
    assert ended(run) == (0, "")
    assert content(tmp_path / "d") == right[stage]
    assert alone(tmp_path / "d")


@pytest.mark.slow
def test_all_workers_may_die_when_others_come(
    tmp_path: Path, source: str, two: Cluster, right: dict[str, Any]
) -> None:
    run = amid("map", source, tmp_path / "d", two.address)
    for worker in two.workers:
        kill(worker)
    two.join()
    assert ended(run) == (0, "")
    assert content(tmp_path / "d") == right["map"]


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_workers_that_nannies_start_again_go_on(
    tmp_path: Path, source: str, stage: str, right: dict[str, Any]
) -> None:
    with cluster(tmp_path / "cluster", 0) as made:
        for _ in range(2):
            made.join(nanny=True)
        made.wait(2)
        pids = [made.pid("w0"), made.pid("w1")]
        run = amid(stage, source, tmp_path / "d", made.address)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert ended(run) == (0, "")
    assert content(tmp_path / "d") == right[stage]


@pytest.mark.slow
def test_a_worker_that_joins_late_takes_part(
    tmp_path: Path, source: str, right: dict[str, Any]
) -> None:
    with cluster(tmp_path / "cluster", 1) as one:
        run = amid("shard", source, tmp_path / "d", one.address, "--profile")
        one.join()
        one.wait(2)
        kill(one.workers[0])
        code, said = ended(run)
        assert code == 0, said
    assert content(tmp_path / "d") == right["shard"]


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_work_of_a_worker_without_room_is_done_by_others(
    tmp_path: Path, source: str, stage: str, right: dict[str, Any]
) -> None:
    with cluster(tmp_path / "cluster", 1) as one:
        one.join(preexec_fn=leave_little_room, environment={"PYTHONDONTWRITEBYTECODE": "1"})
        one.wait(2)
        run = start(source, tmp_path / "d", one.address, *STAGES[stage])
        assert ended(run) == (0, "")
        assert content(tmp_path / "d") == right[stage]
        assert alone(tmp_path / "d")


@pytest.mark.slow
def test_no_room_anywhere_names_task_and_worker(tmp_path: Path, source: str) -> None:
    with cluster(tmp_path / "cluster", 0) as none:
        none.join(preexec_fn=leave_little_room)
        none.wait(1)
        code, said = ended(start(source, tmp_path / "d", none.address))
        assert code == 1
        assert said.startswith("tfrec: d-train.tfrecord-00000-of-00060.gz … ")
        assert ", on worker tcp://" in said
        assert "larger than is allowed" in said
        assert said.count("\n") == 1
        assert alone(tmp_path / "d")


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_or_terminated_ends_at_once(
    tmp_path: Path, source: str, two: Cluster, stage: str, number: signal.Signals
) -> None:
    run = amid(stage, source, tmp_path / "d", two.address)
    run.send_signal(number)
    code, said = ended(run)
    assert (code, "nothing half-written was left" in said) == (128 + number, True)
    # What is terminated may keep what it had finished, to be gone on with.
    assert alone(tmp_path / "d") or number == signal.SIGTERM
    assert not (tmp_path / "d").exists()
    # The workers are free again, and as they were.
    again = start(source, tmp_path / "d", two.address, "--limit", "100", "--overwrite")
    assert ended(again)[0] == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".d")] == []


WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up on"}


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("number", WORDS)
def test_a_signal_to_all_processes_ends_a_cluster_of_its_own(
    tmp_path: Path, source: str, stage: str, number: signal.Signals
) -> None:
    run = amid(stage, source, tmp_path / "d", None, "-j", "2")
    os.killpg(run.pid, number)
    code, said = ended(run)
    assert (code, said.strip().count("\n")) == (128 + number, 0), said
    assert said.strip().startswith(f"tfrec: {WORDS[number]}")
    assert "; nothing half-written was left behind" in said
    kept = [path.name[:9] for path in tmp_path.iterdir()]
    assert kept == ([] if number == signal.SIGINT else [".d.tfrec-"])


@pytest.mark.slow
def test_a_worker_that_hangs_from_the_start_is_named(
    tmp_path: Path, source: str, two: Cluster
) -> None:
    os.kill(two.workers[1].pid, signal.SIGSTOP)
    run = start(source, tmp_path / "d", two.address)
    assert run.stderr is not None
    told = run.stderr.readline()
    assert re.fullmatch(
        r"tfrec: waiting for worker tcp://\S+ to answer; Ctrl-C ends that\.\n", told
    )
    run.send_signal(signal.SIGINT)
    code, said = ended(run)
    assert (code, said.strip()) == (
        130,
        "tfrec: interrupted; nothing half-written was left behind.",
    )
    assert alone(tmp_path / "d")


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["of a scheduler", "of its own"])
def test_a_worker_that_hangs_is_named_and_a_second_ctrl_c_ends_the_wait(
    tmp_path: Path, source: str, two: Cluster, own: bool
) -> None:
    where = (None, "-j", "2") if own else (two.address,)
    run = amid("shard", source, tmp_path / "d", *where)
    worker = workers_of(run.pid)[0] if own else two.workers[0].pid
    os.kill(worker, signal.SIGSTOP)
    time.sleep(1)  # Until it has a task in hand, and the other none that it waits for.
    run.send_signal(signal.SIGINT)
    assert run.stderr is not None
    told = run.stderr.readline()
    assert told.startswith("tfrec: waiting for up to 30 s for worker tcp://127.0.0.1:"), told
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    code, said = ended(run)
    assert (code, said.strip().count("\n")) == (130, 0), said
    assert time.monotonic() - began < 20
    assert alone(tmp_path / "d")
    assert not (tmp_path / "d").exists()
    if own:
        assert not Path(f"/proc/{worker}").exists()
    else:
        # What it then goes on with comes to nothing.
        os.kill(worker, signal.SIGCONT)
        again = start(source, tmp_path / "d", two.address, "--limit", "100")
        assert ended(again) == (0, "")
        assert alone(tmp_path / "d")


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_a_run_goes_on_when_its_scheduler_was_killed(
    tmp_path: Path, source: str, two: Cluster, stage: str, right: dict[str, Any]
) -> None:
    run = amid(stage, source, tmp_path / "d", two.address)
    assert two.scheduler is not None
    kill(two.scheduler)
    code, said = ended(run)
    assert code == 1
    assert said.startswith(f"tfrec: {two.address}: the scheduler is gone")
    assert said.endswith("--resume.\n")
    assert said.count("\n") == 1
    goes_on(source, tmp_path, stage, right)


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_a_run_goes_on_when_its_driver_was_killed(
    tmp_path: Path, source: str, two: Cluster, stage: str, right: dict[str, Any]
) -> None:
    run = amid(stage, source, tmp_path / "d", two.address)
    kill(run)  # type: ignore[arg-type]
    assert not (tmp_path / "d").exists()
    # Some tasks of the killed run may still be at work.
    goes_on(source, tmp_path, stage, right, two)


@pytest.mark.slow
def test_what_a_cluster_began_threads_end(
    tmp_path: Path, source: str, two: Cluster, right: dict[str, Any]
) -> None:
    (tmp_path / "cluster" / "source").symlink_to(source)
    run = amid("shard", "cluster/source", tmp_path / "d", two.address)
    kill(run)  # type: ignore[arg-type]
    done = subprocess.run(
        [sys.executable, "-m", "tfrec_cli", "convert", "cluster/source", "d", *SLOW, "--resume"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, "went on with an interrupted run" in done.stderr) == (0, True), done
    shards = {name: data for name, data in right["shard"].items() if name.endswith(".gz")}
    assert {path.name: path.read_bytes() for path in (tmp_path / "d").glob("*.gz")} == shards


@pytest.mark.slow
def test_ctrl_c_while_a_cluster_of_its_own_starts(tmp_path: Path, source: str) -> None:
    run = start(source, tmp_path / "d", None, "-j", "2")
    # Once its processes are started; they take seconds to be there.
    wait_for(lambda: len(children(run.pid)) >= 2)
    os.killpg(run.pid, signal.SIGINT)
    code, said = ended(run)
    # An empty line ends that of the terminal's ^C.
    said = said.strip()
    assert (code, said.count("\n"), said.startswith("tfrec: interrupted;")) == (130, 0, True), said
    assert not list(tmp_path.iterdir())


def children(pid: int) -> list[tuple[int, str]]:
    """The processes that a process has started, with their commands."""
    found = subprocess.run(
        ["ps", "-ww", "-eo", "ppid=,pid=,args="], capture_output=True, text=True, check=True
    )
    lines = [line.split(None, 2) for line in found.stdout.splitlines()]
    return [(int(own), command) for parent, own, command in lines if int(parent) == pid]


def workers_of(pid: int) -> list[int]:
    """The worker processes of a run with a cluster of its own."""
    return [own for own, command in children(pid) if "spawn_main" in command]


@pytest.mark.slow
def test_runs_that_were_damaged_meanwhile_are_made_again(
    tmp_path: Path, source: str, two: Cluster, right: dict[str, Any]
) -> None:
    run = amid("map", source, tmp_path / "d", two.address)
    kill(run)  # type: ignore[arg-type]
    damaged, *others = finished(tmp_path, "map")
    # A task may leave several runs: run-ROW-NUMBER.
    kept = next(run for run in others if run.name[:-1] != damaged.name[:-1])
    before = damaged.stat(), kept.stat()
    with open(damaged, "r+b") as file:
        file.seek(-100, os.SEEK_END)
        byte = file.read(1)
        file.seek(-100, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    run = start(source, tmp_path / "d", two.address, *STAGES["map"], "--resume")
    wait_for(staged(tmp_path / "d", "work/receipts/pass-0.json"))
    assert damaged.stat().st_ino != before[0].st_ino
    assert kept.stat().st_ino == before[1].st_ino
    assert ended(run)[0] == 0
    assert content(tmp_path / "d") == right["map"]


def goes_on(
    source: str, folder: Path, stage: str, right: dict[str, Any], where: Cluster | None = None
) -> None:
    """`--resume` on `where`, or a new cluster: what was done is not done again."""
    before = {path: path.stat().st_ino for path in finished(folder, stage)}
    assert len(before) >= 3
    with cluster(folder / "cluster" / "again", 2) if where is None else nullcontext(where) as used:
        run = start(source, folder / "d", used.address, *STAGES[stage], "--resume")
        if stage == "map":
            wait_for(staged(folder / "d", "work/receipts/pass-0.json"))
            assert {path: path.stat().st_ino for path in before} == before
        code, said = ended(run)
    assert (code, said.partition(":")[0]) == (0, "note")
    assert "went on with an interrupted run" in said
    assert content(folder / "d") == right[stage]
    if stage == "shard":
        inodes = {path.stat().st_ino for path in (folder / "d").iterdir()}
        assert set(before.values()) <= inodes
    assert alone(folder / "d")


def finished(folder: Path, stage: str) -> list[Path]:
    """The files that finished tasks have left."""
    pattern = "work/runs/run-*[0-9s]" if stage == "map" else "data/*.gz"
    receipts = "map" if stage == "map" else "shard"
    done = list(folder.glob(f".d.tfrec-*/work/receipts/{receipts}-*.json"))
    return sorted(folder.glob(f".d.tfrec-*/{pattern}"))[: len(done)] if len(done) >= 3 else []
