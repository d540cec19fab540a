"""The Dask engine: tasks run on the workers of a Dask cluster.

Receipts are fetched as soon as they are made, and nothing of them stays on the cluster: a worker
that dies takes no finished work with it, only the tasks that it has in hand, which others then do.
A task that fails for want of what another worker may have (room, say) is tried there.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from distributed import KilledWorker

from tfrec_cli.engines.base import Check
from tfrec_cli.engines.calls import Call, Outcome, Unfit, Unwanted, run_call
from tfrec_cli.engines.workers import Workers
from tfrec_cli.errors import DatasetError, EngineError, first_line
from tfrec_cli.stages import include, recording

# How often one task may fail, or take its workers with it, before the run fails.
MOST_TRIES = 4
# Seconds for tasks to end when the run is given up.
ENDING = 30.0
_ELSEWHERE = (DatasetError, OSError, MemoryError, Unfit, KilledWorker)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A task and its place among all. tried: the workers that failed it. tries: all of them."""

    number: int
    task: Any
    tried: tuple[str, ...] = ()
    tries: int = 1


class DaskEngine:
    """Runs tasks through a Dask client (see `Engine`). where: the scheduler in messages."""

    def __init__(self, client: Any, where: str) -> None:
        self.remote = True
        self._executor = client.get_executor(pure=False)
        self._workers = Workers(client, where)
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
        turns = (_Turn(number, task) for number, task in enumerate(tasks))
        pending: dict[Future[Outcome], _Turn] = {}
        done: dict[int, tuple[_Turn, Outcome]] = {}
        place, ended = 0, False
        try:
            while pending or not ended:
                while not ended and len(pending) < 3 * self.threads()[0]:
                    if (turn := next(turns, None)) is None:
                        ended = True
                    else:
                        pending[self._submit(call, turn)] = turn
                for future in wait(pending, 1.0, FIRST_COMPLETED).done:
                    turn = pending.pop(future)
                    outcome = self._outcome(future)
                    if (again := self._again(turn, outcome)) is not None:
                        pending[self._submit(call, again)] = again
                        continue
                    done[turn.number] = turn, outcome
                    # Behind an error none needs to begin.
                    ended |= outcome.error is not None
                while place in done:
                    yield self._received(*done.pop(place))
                    place += 1
                self.threads()
        finally:
            _give_up(pending, wanted)

    def _submit(self, call: Call, turn: _Turn) -> Future[Outcome]:
        sent = pickle.dumps(self._workers.checks), pickle.dumps(replace(call, task=turn.task))
        name = getattr(getattr(call.function, "func", None), "__name__", "task")
        future: Future[Outcome] = self._executor.submit(
            run_call, *sent, key=f"tfrec-{name}-{uuid.uuid4().hex}",
            workers=self._workers.open_to(turn.tried),
        )  # fmt: skip
        return future

    def _outcome(self, future: Future[Outcome]) -> Outcome:
        try:
            return future.result()
        except CancelledError:
            raise self._workers.lost() from None
        except KilledWorker as error:
            return Outcome("", error=error)
        except Exception as error:
            return Outcome("", error=OSError(f"{type(error).__name__}: {first_line(error)}"))

    def _again(self, turn: _Turn, outcome: Outcome) -> _Turn | None:
        """The turn for another try; None where it is done with, or hopeless."""
        if not isinstance(outcome.error, _ELSEWHERE):
            return None
        if isinstance(outcome.error, Unfit):
            self._workers.exclude(outcome.worker, str(outcome.error))
        tried = (*turn.tried, outcome.worker) if outcome.worker else turn.tried
        hopeless = turn.tries == MOST_TRIES or not self._workers.others(tried)
        return None if hopeless else replace(turn, tried=tried, tries=turn.tries + 1)

    def _received(self, turn: _Turn, outcome: Outcome) -> Any:
        error = outcome.error
        if error is None:
            include(outcome.recording, outcome.worker)
            return outcome.receipt
        if isinstance(error, KilledWorker):
            raise EngineError(
                f"{turn.task}: the workers that had it in hand died, again and again. It may need "
                "more memory than they have: give them more, or lower --memory."
            ) from None
        if isinstance(error, (*_ELSEWHERE, Unwanted)):
            times = f" (try {turn.tries})" if turn.tries > 1 else ""
            where = f"{turn.task}, on worker {outcome.worker or 'unknown'}{times}"
            raise EngineError(f"{where}: {first_line(error)}.") from error
        raise error


def _give_up(pending: dict[Future[Outcome], _Turn], wanted: str | None) -> None:
    """Let no task go on: those in hand see that they are not wanted, and end by themselves."""
    try:
        if pending and wanted is not None:
            with suppress(OSError):
                Path(wanted).unlink()
            wait(pending, ENDING)
    finally:
        for future in pending:
            future.cancel()
