"""Dask schedulers and workers as processes of their own, on this machine alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from conftest import REPOSITORY

SECONDS = 120.0


class Cluster:
    """One scheduler and its workers. folder: for their logs and scratch files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def start(
        self, workers: int = 0, port: int = 0, environment: dict[str, str] | None = None
    ) -> None:
        """Start the scheduler, then so many workers, and wait until all are there. environment:
        variables that the scheduler gets on top.
        """
        file = self.folder / f"scheduler-{time.monotonic_ns()}.json"
        options = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        options += ["--scheduler-file", str(file)]
        self.scheduler = self._process("dask_scheduler", *options, environment=environment)
        wait_for(file.exists)
        wait_for(lambda: file.read_text().strip().endswith("}"))
        self.address = json.loads(file.read_text())["address"]
        for _ in range(workers):
            self.join()
        if workers:
            self.wait(workers)

    def join(
        self,
        *options: str,
        nanny: bool = False,
        environment: dict[str, str] | None = None,
        **given: Any,
    ) -> subprocess.Popen[bytes]:
        """Start one more worker, of one thread, called w0, w1, …

        nanny: whether another is started where it dies. environment: variables that it gets on top.
        before: the command that it is an argument of.
        """
        number, kept = len(self.workers), "--nanny" if nanny else "--no-nanny"
        always = [kept, "--nthreads", "1", "--no-dashboard", "--name", f"w{number}"]
        scratch = ["--local-directory", str(self.folder / "scratch")]
        worker = self._process(
            "dask_worker", self.address, *always, *scratch, *options,
            environment=environment, **given,
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def wait(self, workers: int) -> None:
        """Until so many workers are there."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=SECONDS)

    def pid(self, name: str) -> int:
        """The process of the worker with that name, which a nanny may have started."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            found = client.scheduler_info()["workers"]
            address = next(at for at, worker in found.items() if worker["name"] == name)
            return int(client.run(os.getpid, workers=[address])[address])

    def stop(self) -> None:
        """Kill all processes that were started here, and those of nannies."""
        started = [process for process in (*self.workers, self.scheduler) if process is not None]
        for pid in _members({process.pid for process in started}):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in started:
            process.wait()

    def _process(
        self,
        module: str,
        *options: str,
        environment: dict[str, str] | None = None,
        before: Sequence[str] = (),
        **given: Any,
    ) -> subprocess.Popen[bytes]:
        paths = [str(REPOSITORY), str(REPOSITORY / "tests"), os.environ.get("PYTHONPATH", "")]
        settled = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                [*before, sys.executable, "-m", f"distributed.cli.{module}", *options],
                cwd=self.folder, env=settled | (environment or {}), stdout=log, stderr=log,
                start_new_session=True, **given,
            )  # fmt: skip


def _members(groups: set[int]) -> list[int]:
    """The processes in some groups, but for those that remove semaphores once others are gone."""
    command = ["ps", "-ww", "-eo", "pgid=,pid=,args="]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split(None, 2) for line in found.stdout.splitlines()]
    return [
        int(pid)
        for group, pid, command in lines
        if int(group) in groups and "resource_tracker" not in command
    ]


@contextmanager
def cluster(
    folder: Path, workers: int, environment: dict[str, str] | None = None
) -> Iterator[Cluster]:
    """A cluster for the block. environment: as of `Cluster.start`."""
    made = Cluster(folder)
    try:
        made.start(workers, environment=environment)
        yield made
    finally:
        made.stop()


def wait_for(holds: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Until something holds; fails where it does not in time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9, and wait for the end."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
