"""Opening the engine that a run asked for."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Literal

from tfrec_cli.engines.base import Engine
from tfrec_cli.engines.threads import Threads
from tfrec_cli.errors import EngineError, UsageError, first_line
from tfrec_cli.interruption import unbroken
from tfrec_cli.progress import SILENT

# Seconds to reach a scheduler, and for its first worker to come, which is said after the third.
CONNECT, WORKER, TOLD = 20.0, 120.0, 3.0
_SILENT = logging.CRITICAL + 1


@contextmanager
def open_engine(
    name: Literal["threads", "dask"],
    scheduler: str | None,
    jobs: int,
    tell: Callable[[str], None] = SILENT.waiting,
) -> Iterator[Engine]:
    """The engine `name`: `jobs` threads, or the cluster of the Dask scheduler at an address like
    tcp://HOST:8786; where that is None, a cluster of `jobs` processes on this machine. tell: takes
    what is waited for, where that may take long.

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
            _wait_for_worker(client, scheduler, tell)
        engine = DaskEngine(client, scheduler or "the local cluster", tell)
        if scheduler is None:
            after.callback(_kill_hanging, engine, client.cluster)
        yield engine


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
    """A client of a new cluster on this machine. Ctrl-C waits until it is there, to be ended."""
    with unbroken(), _inherited_block():
        cluster = distributed.LocalCluster(
            n_workers=jobs, threads_per_worker=1, memory_limit=0, dashboard_address=None,
            silence_logs=_SILENT, preload="tfrec_cli.engines.calls",
        )  # fmt: skip
        after.enter_context(cluster)
    return after.enter_context(distributed.Client(cluster, set_as_default=False))


def _kill_hanging(engine: Any, cluster: Any) -> None:
    """Kill the workers of a cluster that is to be closed, if they hang: nobody waits for them."""
    if not engine.hangs:
        return
    for nanny in cluster.workers.values():
        # Else it would start another.
        nanny.close_gracefully()
        with suppress(OSError, TypeError):
            os.kill(nanny.pid, signal.SIGKILL)


@contextmanager
def _inherited_block() -> Iterator[None]:
    """Threads and processes that are started meanwhile get no SIGINT and no SIGHUP: a terminal
    sends them to all, and those that have only begun would print where one met them.
    """
    from multiprocessing import resource_tracker

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        # Where it has to be started first, the thread that does it is left with SIGINT let through.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _connected(distributed: Any, scheduler: str, after: ExitStack) -> Any:
    """A client of a cluster that is there."""
    try:
        _check_scheduler(scheduler)
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
    return after.enter_context(client)


def _wait_for_worker(client: Any, scheduler: str, tell: Callable[[str], None]) -> None:
    """Wait until a first worker has joined the scheduler."""
    with suppress(OSError):
        client.wait_for_workers(1, timeout=TOLD)
        return
    tell(f"waiting up to {WORKER:.0f} s for a worker to join {scheduler}; Ctrl-C ends that.")
    try:
        client.wait_for_workers(1, timeout=WORKER)
    except OSError:
        raise EngineError(
            f"--scheduler {scheduler}: no worker has joined it within {WORKER:.0f} s. Start some "
            f"(`dask worker {scheduler}`), then run again."
        ) from None


def _check_scheduler(scheduler: str) -> None:
    """Ask what is at an address, which a client would wait for without end if it is no scheduler.

    Raises ValueError where the address is none, OSError where nothing is there, EngineError where
    something else is.
    """
    import asyncio
    import socket

    from distributed.comm.addressing import get_address_host_port

    if scheduler.startswith("inproc://"):
        return
    host, port = get_address_host_port(scheduler)
    if not host or not 0 < int(port) < 2**16:
        raise ValueError("there is no host, or no port from 1 to 65535, in it")
    try:
        socket.getaddrinfo(host, port)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"the host {host} is not known ({first_line(error)})") from None
    # A loop of its own: the caller may be in one, as in a notebook.
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(asyncio.run, _asked(scheduler, host, int(port))).result()
    if found != "Scheduler":
        raise EngineError(
            f"--scheduler {scheduler}: what answers there is no Dask scheduler{found}. Give the "
            "address that `dask scheduler` prints, not that of its dashboard."
        )


async def _asked(scheduler: str, host: str, port: int) -> str:
    """`Scheduler`, or what can be said of what is there otherwise. Raises OSError where nothing
    is.
    """
    import asyncio

    import distributed.core
    import distributed.security

    core: Any = distributed.core
    security: Any = distributed.security

    async def identity() -> str:
        how = security.Security().get_connection_args("client")
        async with core.rpc(scheduler, connection_args=how) as there:
            return str((await there.identity())["type"])

    async def reached() -> None:
        _, writer = await asyncio.open_connection(host, port)
        writer.close()

    try:
        kind = await asyncio.wait_for(identity(), CONNECT)
    except Exception:
        await asyncio.wait_for(reached(), CONNECT)
        return ""
    return kind if kind == "Scheduler" else f", but a {kind}"
