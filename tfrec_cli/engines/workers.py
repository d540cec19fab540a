"""The workers of a Dask cluster: which are there, and which are fit for the tasks of a run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from typing import Any

from tfrec_cli.engines.base import Check
from tfrec_cli.errors import EngineError, first_line, listed

# Seconds without any worker before the run fails.
PATIENCE = 300.0


class Workers:
    """What a Dask client says of its workers.

    where: the scheduler in messages. checks: what each process must pass, each with a name.
    notices: on workers that joined later and did not.
    """

    def __init__(self, client: Any, where: str) -> None:
        self.where = where
        self.checks: tuple[tuple[str, Check], ...] = ()
        self.notices: list[str] = []
        self._client = client
        self._unfit: set[str] = set()
        self._threads: dict[str, int] = {}
        self._looked, self._lively = 0.0, time.monotonic()

    def require(self, check: Check) -> None:
        """Run `check` on all workers, and from now on in each process that joins.

        Raises EngineError that names the workers at fault.
        """
        found = self._asked(lambda: self._client.run(check, on_error="return"))
        wrong = [
            f"worker {worker} {result if isinstance(result, str) else first_line(result)}"
            for worker, result in sorted(found.items())
            if result is not None
        ]
        if wrong:
            raise EngineError(f"{listed(wrong, 5)}. Mend or stop such workers, then run again.")
        self.checks += ((uuid.uuid4().hex, check),)

    def exclude(self, worker: str, reason: str) -> None:
        """Give `worker` no more tasks."""
        if worker not in self._unfit:
            self._unfit.add(worker)
            self.notices.append(f"worker {worker} was not used: it {reason}")

    def others(self, tried: Iterable[str]) -> list[str]:
        """The fit ones that are not among `tried`."""
        return sorted(set(self.threads()) - self._unfit.union(tried))

    def open_to(self, tried: Iterable[str]) -> list[str] | None:
        """Where a task may run; None is anywhere, on those that join later as well."""
        return self.others(tried) if self._unfit.union(tried) else None

    def threads(self) -> dict[str, int]:
        """The threads of each, as of lately. Raises EngineError where there is no cluster now."""
        now = time.monotonic()
        if now - self._looked > 1:
            info = self._asked(self._client.scheduler_info)
            self._threads = {name: w["nthreads"] for name, w in info["workers"].items()}
            self._looked = now
        if self._threads:
            self._lively = now
        elif now - self._lively > PATIENCE:
            raise EngineError(
                f"{self.where}: no worker is left since {PATIENCE:.0f} s. Start some, then "
                "go on with --resume."
            )
        return self._threads

    def lost(self) -> EngineError:
        """The error of a scheduler that does not answer any more."""
        return EngineError(
            f"{self.where}: the scheduler is gone, or has dropped the tasks of this run. Start it "
            "again, then go on with --resume."
        )

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (OSError, RuntimeError, CancelledError):
            raise self.lost() from None
