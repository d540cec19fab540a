"""A task of a run on a cluster: what became of it so far, and whether it is to be tried again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from distributed import KilledWorker

from tfrec_cli.engines.calls import Outcome, Unfit, Unwanted
from tfrec_cli.errors import DatasetError, EngineError, first_line

# How often one task may fail, or take a worker with it, before the run fails.
MOST_TRIES = 4


class Gone(Exception):
    """All workers that might have a task are gone, and what they had in hand with them."""


# What another worker may do better.
_DEATHS = (KilledWorker, Gone)
_ELSEWHERE = (DatasetError, OSError, MemoryError, Unfit, *_DEATHS)


@dataclass(frozen=True, slots=True)
class Turn:
    """A task and its place among all. failed: what became of it so far, in order."""

    number: int
    task: Any
    failed: tuple[Outcome, ...] = ()

    def after(self, outcome: Outcome) -> Turn:
        """The turn once `outcome` has failed it."""
        return replace(self, failed=(*self.failed, outcome))

    @property
    def tried(self) -> frozenset[str]:
        """The workers that have failed it. Those that died are none: what is at their addresses
        now is another process. Nor are those that are not fit for any task.
        """
        other = (Unfit, *_DEATHS)
        return frozenset(one.worker for one in self.failed if not isinstance(one.error, other))

    @property
    def tries(self) -> int:
        """The tries that count: that a worker was not fit is none, that one died is one."""
        return sum(_weight(one) for one in self.failed)

    @property
    def is_hopeless(self) -> bool:
        """Whether no other worker should try it."""
        return self.tries >= MOST_TRIES or not isinstance(self.failed[-1].error, _ELSEWHERE)

    def error(self) -> BaseException:
        """What the run fails with, once the turn is given up."""
        counted = [one for one in self.failed if _weight(one)]
        alive = [one for one in counted if not _deaths(one)]
        # Workers that died are to blame where they were too many.
        last = (alive if alive and self.tries < MOST_TRIES else counted)[-1]
        error, worker = last.error, last.worker or "unknown"
        assert error is not None
        if isinstance(error, _DEATHS):
            died = sum(_deaths(one) for one in self.failed)
            workers = f"{died} workers that had it in hand died" if died > 1 else "a worker died"
            return EngineError(
                f"{self.task}: {workers}, at last {worker}. It may need more memory than they "
                "have: give them more, or lower --memory."
            )
        if isinstance(error, (*_ELSEWHERE, Unwanted)):
            times = f" (try {self.tries})" if self.tries > 1 else ""
            found = EngineError(f"{self.task}, on worker {worker}{times}: {first_line(error)}.")
            found.__cause__ = error
            return found
        return error


def killed(error: KilledWorker) -> Outcome:
    """The outcome of a task with which workers died, more than the scheduler bears."""
    return Outcome(str(error.last_worker.address), error=error)


def _weight(outcome: Outcome) -> int:
    if isinstance(outcome.error, Unfit):
        return 0
    return _deaths(outcome) or 1


def _deaths(outcome: Outcome) -> int:
    """The workers that died with a task. The scheduler says so once they are one more than the
    failures that it allows, which is for whoever runs it to choose.
    """
    if isinstance(outcome.error, KilledWorker):
        return int(outcome.error.allowed_failures) + 1
    return int(isinstance(outcome.error, Gone))
