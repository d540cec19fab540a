"""Opening the engine that a run asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from tfrec_cli.engines.base import Engine
from tfrec_cli.engines.threads import Threads
from tfrec_cli.errors import EngineError, UsageError, first_line

# Seconds to reach a scheduler, and for its first worker to come.
CONNECT, WORKER = 20.0, 120.0
_SILENT = logging.CRITICAL + 1


@contextmanager
def open_engine(
    name: Literal["threads", "dask"], scheduler: str | None, jobs: int
) -> Iterator[Engine]:
    """The engine `name`: `jobs` threads, or the cluster of the Dask scheduler at an address like
    tcp://HOST:8786; where that is None, a cluster of `jobs` processes on this machine.

    Raises UsageError where Dask is not installed or the address is none, EngineError where no
    scheduler answers, or has no worker.
    """
    if name == "threads":
        yield Threads(jobs)
        return
    try:
        import distributed
    except ImportError:
        raise UsageError(
            "--engine dask is not installed here. Run `pip install 'tfrec-cli[dask]'`, or leave "
            "it out."
        ) from None
    from tfrec_cli.engines.dask import DaskEngine

    with ExitStack() as after:
        after.enter_context(_silence())
        if scheduler is None:
            client = _local(distributed, jobs, after)
        else:
            client = _connected(distributed, scheduler, after)
        yield DaskEngine(client, "the local cluster" if scheduler is None else scheduler)


@contextmanager
def _silence() -> Iterator[None]:
    """Let Dask log nothing: what a user must know is raised."""
    names = [
        name
        for name in logging.root.manager.loggerDict
        if name.startswith(("distributed", "tornado"))
    ]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(_SILENT)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _local(distributed: Any, jobs: int, after: ExitStack) -> Any:
    """A client of a new cluster on this machine."""
    cluster = distributed.LocalCluster(
        n_workers=jobs, threads_per_worker=1, memory_limit=0, dashboard_address=None,
        silence_logs=_SILENT, preload="tfrec_cli.engines.calls",
    )  # fmt: skip
    after.enter_context(cluster)
    return after.enter_context(distributed.Client(cluster, set_as_default=False))


def _connected(distributed: Any, scheduler: str, after: ExitStack) -> Any:
    """A client of a cluster that is there."""
    try:
        client = distributed.Client(scheduler, timeout=CONNECT, set_as_default=False)
    except ValueError as error:
        raise UsageError(
            f"--scheduler {scheduler}: {first_line(error)}. Give an address like tcp://HOST:8786."
        ) from None
    except OSError:
        raise EngineError(
            f"--scheduler {scheduler}: no scheduler answers there within {CONNECT:.0f} s. Check "
            "the address, and that `dask scheduler` is running."
        ) from None
    after.enter_context(client)
    try:
        client.wait_for_workers(1, timeout=WORKER)
    except OSError:
        raise EngineError(
            f"--scheduler {scheduler}: no worker has joined it within {WORKER:.0f} s. Start some "
            f"(`dask worker {scheduler}`), then run again."
        ) from None
    return client
