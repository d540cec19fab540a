"""The Dask engine: tasks run on the workers of a Dask cluster.

Receipts are fetched as soon as they are made, and nothing of them stays on the cluster: a worker
that dies takes no finished work with it, only the tasks that it has in hand, which others then do.
A task that fails for want of what another worker may have (room, say) is tried there.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from tfrec_cli.engines.base import Check
from tfrec_cli.engines.calls import Call, Outcome, packed
from tfrec_cli.engines.flight import Flight
from tfrec_cli.engines.turns import Turn
from tfrec_cli.engines.workers import Workers
from tfrec_cli.stages import include, recording


class DaskEngine:
    """Runs tasks through a Dask client (see `Engine`). where: the scheduler in messages. tell:
    takes what is waited for. hangs: whether workers did not end what they had in hand when asked.
    """

    def __init__(self, client: Any, where: str, tell: Callable[[str], None]) -> None:
        self.remote = True
        self.hangs = False
        self._executor = client.get_executor(pure=False)
        self._workers = Workers(client, where, tell)
        self.notices = self._workers.notices

    def require(self, check: Check) -> None:
        """As `Engine.require`."""
        self._workers.require(check)

    def threads(self) -> tuple[int, int]:
        """As `Engine.threads`."""
        counts = self._workers.threads().values()
        return max(1, sum(counts)), max([1, *counts])

    def map(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], wanted: str | None = None
    ) -> Iterator[Any]:
        """As `Engine.map`."""
        call = Call(function, None, wanted, recording() is not None)
        turns = (Turn(number, task) for number, task in enumerate(tasks))
        flight = Flight(partial(self._submit, call), self._workers)
        done: dict[int, tuple[Turn, Outcome | None]] = {}
        place, ended = 0, False
        try:
            while flight or not ended:
                while not ended and len(flight) < 3 * self.threads()[0]:
                    if (turn := next(turns, None)) is None:
                        ended = True
                    else:
                        flight.send(turn)
                for turn, outcome in flight.over():
                    done[turn.number] = turn, outcome
                    # Behind an error none needs to begin.
                    ended |= outcome is None
                while place in done:
                    yield _received(*done.pop(place))
                    place += 1
                self.threads()
        finally:
            try:
                flight.give_up(wanted)
            finally:
                self.hangs = flight.hang

    def _submit(self, call: Call, turn: Turn, workers: list[str] | None) -> Future[Outcome]:
        sent = packed(self._workers.checks, replace(call, task=turn.task))
        name = getattr(getattr(call.function, "func", None), "__name__", "task")
        key = f"tfrec-{name}-{uuid.uuid4().hex}"
        submit = self._executor.submit
        future: Future[Outcome] = submit(pickle.loads, sent, key=key, workers=workers)
        return future


def _received(turn: Turn, outcome: Outcome | None) -> Any:
    if outcome is None:
        raise turn.error()
    include(outcome.recording, outcome.worker)
    return outcome.receipt
