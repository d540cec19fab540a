"""What an engine is: the place where the tasks of a run are done.

An engine runs a function on tasks and gives back what it returns, a small receipt each, in the
order of the tasks. It knows nothing of what they do. The threads engine is what right means: any
other must give the same receipts in the same order, and raise the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Receipt = TypeVar("Receipt")

Check = Callable[[], str | None]
"""Looks around where tasks would run: None where all is well, else what is wrong, in a sentence
without a subject and full stop. Picklable.
"""


class Engine(Protocol):
    """Where tasks run.

    remote: whether that is in other processes, which see nothing of this one's memory.
    notices: lines that the user should see afterwards.
    """

    remote: bool
    notices: list[str]

    def map(
        self,
        function: Callable[[Task], Receipt],
        tasks: Iterable[Task],
        wanted: str | None = None,
    ) -> Iterator[Receipt]:
        """`function(task)` for each task, in order; the first error in that order is raised.

        Where the engine is remote, the function, tasks and receipts are picklable and small, a
        task may be done twice, even at the same moment, and `str(task)` names it in messages.
        wanted: a file that is there as long as the work is wanted, for tasks that look at it
        (`tfrec_cli.engines.calls.check_wanted`); it is removed when results are given up.

        Raises EngineError where tasks cannot be run any more.
        """

    def require(self, check: Check) -> None:
        """See to it that no task runs where `check` finds something wrong.

        Raises EngineError that names the workers at fault, where there are any now.
        """

    def threads(self) -> tuple[int, int]:
        """Tasks that can run at a time now: all together, and in one process at most."""
