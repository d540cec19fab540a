"""The tasks of a run that a cluster has in hand, and what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from pathlib import Path

from distributed import KilledWorker

from tfrec_cli.engines.calls import Outcome, Unfit
from tfrec_cli.engines.turns import Gone, Turn, killed
from tfrec_cli.engines.workers import Workers
from tfrec_cli.errors import first_line

# Seconds for tasks to end when the run is given up; after the first ones the user is told.
ENDING, PROMPT = 30.0, 1.0
# Seconds until the workers are looked at again.
_LOOK = 1.0


class Flight:
    """The tasks that are begun and not over: some sent to the cluster, each with the workers that
    may have it (None: all), others waiting for a worker that has not failed them.

    hang: whether some of them were given up and have not ended in time.
    """

    def __init__(
        self, submit: Callable[[Turn, list[str] | None], Future[Outcome]], workers: Workers
    ) -> None:
        self._submit, self._workers = submit, workers
        self._sent: dict[Future[Outcome], tuple[Turn, list[str] | None]] = {}
        self._waiting: list[Turn] = []
        self._given_up: list[Turn] = []
        self.hang = False

    def __len__(self) -> int:
        return len(self._sent) + len(self._waiting) + len(self._given_up)

    def send(self, turn: Turn) -> None:
        """Have a task done."""
        workers = self._workers.open_to(turn.tried)
        if workers is None or workers:
            self._sent[self._submit(turn, workers)] = turn, workers
        else:
            self._waiting.append(turn)

    def over(self) -> Iterator[tuple[Turn, Outcome | None]]:
        """Tasks that are over, each with its outcome; None where it is given up."""
        if not self._sent:
            time.sleep(_LOOK)
        for future in wait(self._sent, _LOOK, FIRST_COMPLETED).done:
            turn, workers = self._sent.pop(future)
            outcome = self._outcome(future, workers)
            self._workers.known.add(outcome.worker)
            if outcome.error is None:
                yield turn, outcome
                continue
            if isinstance(outcome.error, Unfit) and outcome.worker:
                self._workers.exclude(outcome.worker, str(outcome.error))
            self._again(turn.after(outcome))
        self._move()
        if not self._workers.are_expected():
            self._given_up += [turn for turn in self._waiting if turn.tried]
            self._waiting = [turn for turn in self._waiting if not turn.tried]
        given_up, self._given_up = self._given_up, []
        yield from ((turn, None) for turn in given_up)

    def give_up(self, wanted: str | None) -> None:
        """Let no task go on: those in hand see that they are not wanted, and end by themselves."""
        try:
            if self._sent and wanted is not None:
                with suppress(OSError):
                    Path(wanted).unlink()
                # Of a scheduler that is gone nobody hears what becomes of tasks.
                if not self._workers.are_lost and wait(self._sent, PROMPT).not_done:
                    self.hang = True
                    self._workers.tell_busy(f"for up to {ENDING:.0f} s")
                    self.hang = bool(wait(self._sent, ENDING - PROMPT).not_done)
        finally:
            for future in self._sent:
                future.cancel()

    def _outcome(self, future: Future[Outcome], workers: list[str] | None) -> Outcome:
        try:
            return future.result()
        except CancelledError:
            raise self._workers.lost() from None
        except KilledWorker as error:
            return killed(error)
        except Exception as error:
            # Those of tasks are outcomes: this one could not even be loaded, or not be fetched.
            if self._workers.exclude_lacking(workers):
                return Outcome("", error=Unfit("cannot load tasks"))
            return Outcome("", error=OSError(f"{type(error).__name__}: {first_line(error)}"))

    def _move(self) -> None:
        """Send tasks again whose workers are all gone, and those that waited for one. Workers come
        back under other addresses, for which the scheduler does not know that they may have them.
        """
        for future, (turn, workers) in list(self._sent.items()):
            if workers is not None and self._workers.are_gone(workers) and future.cancel():
                del self._sent[future]
                self._again(turn.after(Outcome(workers[-1], error=Gone())))
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            self.send(turn)

    def _again(self, turn: Turn) -> None:
        """Have a task done that has just failed, where there is hope."""
        if turn.is_hopeless:
            self._given_up.append(turn)
        else:
            self.send(turn)
