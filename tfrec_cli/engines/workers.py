"""The workers of a Dask cluster: which are there, and which are fit for the tasks of a run."""

from __future__ import annotations

import inspect
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, wait
from functools import partial
from math import inf
from threading import Thread
from typing import Any

from tfrec_cli.engines.base import Check
from tfrec_cli.engines.calls import check_wanted
from tfrec_cli.errors import EngineError, first_line, listed

# Seconds without any fit worker before the run fails.
PATIENCE = 300.0
# Seconds in which workers should have answered.
SLOW = 5.0
# Seconds after which a worker that does not answer is gone on without, where the scheduler has not
# heard of it for half of them.
SILENCE = 30.0
# Seconds before those are asked again that could not be reached: the scheduler may not know yet
# that they are gone.
AGAIN = 1.0, 2.0, 4.0
# Seconds in which another worker is expected where one has died: nannies start new ones.
JOINING = 60.0


class Workers:
    """What a Dask client says of its workers.

    where: the scheduler in messages. checks: what each process must pass, each with a name.
    notices: on workers that joined later and did not. tell: takes what is waited for. are_lost:
    whether there is no scheduler any more that knows them. known: those that can load tasks.
    """

    def __init__(self, client: Any, where: str, tell: Callable[[str], None]) -> None:
        self.where, self._tell = where, tell
        self.checks: tuple[tuple[str, Check], ...] = ()
        self.notices: list[str] = []
        self.are_lost = False
        self.known: set[str] = set()
        self._client = client
        # Some versions name five workers only, unless they are asked for all.
        asks = inspect.signature(client.scheduler_info).parameters
        self._every = {"n_workers": -1} if "n_workers" in asks else {}
        self._unfit: set[str] = set()
        self._lacking: set[str] = set()
        self._threads: dict[str, int] = {}
        self._looked, self._lively, self._left = -inf, time.monotonic(), -inf

    def require(self, check: Check) -> None:
        """Run `check` on all workers, and from now on in each process that joins.

        Raises EngineError that names the workers at fault.
        """
        found = self._heard(check, sorted(self._all().keys() - self._unfit))
        wrong = [
            f"worker {worker} {_told(result)}"
            for worker, result in sorted(found.items())
            if result is not None
        ]
        if wrong:
            raise EngineError(f"{listed(wrong, 5)}. Mend or stop such workers, then run again.")
        self.known.update(found)
        self.checks += ((uuid.uuid4().hex, check),)

    def exclude_lacking(self, workers: list[str] | None) -> bool:
        """Give those no more tasks that cannot load any, which lack tfrec or what it needs; whether
        there are some among `workers` (None: all).
        """
        there = self._seen_now().keys()
        if unsure := sorted(there - self.known - self._unfit):
            for worker, answer in self._heard(check_wanted, unsure).items():
                if answer is not None:
                    self._lacking.add(worker)
                    self.exclude(worker, _told(answer))
        lacking = there & self._lacking
        return bool(lacking if workers is None else lacking.intersection(workers))

    def exclude(self, worker: str, reason: str) -> None:
        """Give `worker` no more tasks."""
        if worker not in self._unfit:
            self._unfit.add(worker)
            self.notices.append(f"worker {worker} was not used: it {reason}")

    def open_to(self, tried: Iterable[str]) -> list[str] | None:
        """The workers that may have a task which those in `tried` have failed; there may be none.
        None is any, those that join later as well.
        """
        barred = self._unfit.union(tried)
        return None if self.are_gone(barred) else sorted(self._all().keys() - barred)

    def are_gone(self, workers: Iterable[str]) -> bool:
        """Whether none of some workers is there any more."""
        return self._all().keys().isdisjoint(workers)

    def are_expected(self) -> bool:
        """Whether a worker is gone, so lately that one may come in its place."""
        self._all()
        return time.monotonic() - self._left < JOINING

    def tell_busy(self, how_long: str) -> None:
        """Tell which workers are waited for, to end what they have in hand."""
        scheduler, own = self._client.scheduler, self._client.futures.keys()
        try:
            # One that hangs as well does not answer.
            found = self._client.sync(scheduler.processing, workers=None, callback_timeout=2)
        except (OSError, RuntimeError, CancelledError):
            found = {}
        busy = sorted(worker for worker, keys in found.items() if not own.isdisjoint(keys))
        who = f"worker {listed(busy, 3)}" if busy else "workers"
        self._tell(
            f"waiting {how_long} for {who} to stop, so that nothing is written any more; Ctrl-C "
            "ends that."
        )

    def threads(self) -> dict[str, int]:
        """The threads of each fit one, as of lately. Raises EngineError where there is no cluster
        now.
        """
        fit = {name: count for name, count in self._all().items() if name not in self._unfit}
        now = time.monotonic()
        if fit:
            self._lively = now
        elif now - self._lively > PATIENCE:
            unfit = f" that is fit for this run ({self.notices[-1]})" if self.notices else ""
            raise EngineError(
                f"{self.where}: there has been no worker{unfit} for {PATIENCE:.0f} s. Start "
                "some, then go on with --resume."
            )
        return fit

    def _seen_now(self) -> dict[str, int]:
        """The threads of each that the scheduler knows of at this moment."""
        self._looked = -inf
        return self._all()

    def _all(self) -> dict[str, int]:
        """The threads of each."""
        now = time.monotonic()
        if now - self._looked > 1:
            info = self._asked(partial(self._client.scheduler_info, **self._every))
            found = {name: w["nthreads"] for name, w in info["workers"].items()}
            if self._threads.keys() - found.keys() - self._unfit:
                self._left = now
            self._threads, self._looked = found, now
        return self._threads

    def lost(self) -> EngineError:
        """The error of a scheduler that does not answer any more, from now on."""
        self.are_lost = True
        return EngineError(
            f"{self.where}: the scheduler is gone, or has dropped the tasks of this run. Start it "
            "again, then go on with --resume."
        )

    def _heard(self, check: Check, workers: list[str]) -> dict[str, Any]:
        """What each of some workers says to a check; one that dies meanwhile says nothing.

        One that cannot be reached, though the scheduler has it, is asked again. It is used no more
        then, if there are others.
        """
        found = self._answers(check, workers)
        for pause in AGAIN:
            if not (away := self._away(found)):
                break
            time.sleep(pause)
            if still := sorted(self._seen_now().keys() & away):
                found |= self._answers(check, still)
        there, away = self._all(), self._away(found)
        answers = {worker: said for worker, said in found.items() if worker in there}
        if away >= answers.keys():
            return answers
        for worker in sorted(away):
            self.exclude(worker, _told(answers.pop(worker)))
        return answers

    def _away(self, answers: dict[str, Any]) -> set[str]:
        """The workers that are there by the scheduler, but could not be reached."""
        there = self._seen_now()
        return {name for name, said in answers.items() if isinstance(said, OSError)} & there.keys()

    def _answers(self, check: Check, workers: list[str]) -> dict[str, Any]:
        """What each of some workers says to a check.

        One that hangs is waited for, and told of, until the scheduler drops it, or it has been
        silent for long and there are others.
        """
        if not workers:
            return {}
        found = self._asking(check, workers)
        if not wait([found], SLOW).done:
            names = sorted(self._silent(SLOW / 2))
            who = f"worker{'' if len(names) == 1 else 's'}{' ' * bool(names)}{listed(names, 3)}"
            self._tell(f"waiting for {who} to answer; Ctrl-C ends that.")
        if not wait([found], SILENCE - SLOW).done:
            silent = self._silent(SILENCE / 2).intersection(workers)
            if rest := sorted(set(workers) - silent if silent else ()):
                for worker in sorted(silent):
                    self.exclude(worker, f"has not answered for {SILENCE:.0f} s")
                return self._answers(check, rest)
        answers: dict[str, Any] = self._asked(found.result)
        return answers

    def _asking(self, check: Check, workers: list[str]) -> Future[dict[str, Any]]:
        """What some workers say to a check, as soon as all have answered."""
        found: Future[dict[str, Any]] = Future()

        def answer() -> None:
            try:
                found.set_result(self._client.run(check, workers=workers, on_error="return"))
            except BaseException as error:
                found.set_exception(error)

        Thread(target=answer, name="tfrec-check", daemon=True).start()
        return found

    def _silent(self, seconds: float) -> set[str]:
        """The workers that the scheduler has heard of so much earlier than of the last one."""
        info = self._asked(partial(self._client.scheduler_info, **self._every))
        seen = {worker: about.get("last_seen", 0.0) for worker, about in info["workers"].items()}
        return {who for who, when in seen.items() if when < max(seen.values()) - seconds}

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (OSError, RuntimeError, CancelledError):
            raise self.lost() from None


def _told(result: Any) -> str:
    """What a worker has answered, or what has happened to it, as the end of a sentence."""
    if isinstance(result, str):
        return result
    said = first_line(result)
    if isinstance(result, OSError):
        return f"could not be reached ({said})"
    if "tfrec_cli" in said:
        return "has no tfrec, or another one (install there what is installed here)"
    return f"cannot load tfrec ({said})"
