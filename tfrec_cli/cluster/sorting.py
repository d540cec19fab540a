"""The driver's part in putting records in order: sorted runs, few enough for shards to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count, pairwise, takewhile
from typing import Any, Protocol

import numpy as np

from tfrec_cli.cluster.layout import Layout, cut_maps
from tfrec_cli.cluster.ledger import Left
from tfrec_cli.cluster.ordered import (
    Mapped,
    MapTask,
    MergeTask,
    OrderWork,
    left_whole,
    map_rows,
    merge_runs,
)
from tfrec_cli.cluster.shared import Shared
from tfrec_cli.plan import Plan
from tfrec_cli.shardlog import are_unchanged
from tfrec_cli.shuffle.spills import Counts, counted, remove
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.fingerprints import gather


class Each(Protocol):
    """Has all tasks done, and takes each receipt in order."""

    def __call__(
        self,
        function: Callable[[Shared, Any], Any],
        shared: Shared,
        tasks: Iterable[Any],
        take: Callable[[Any], None],
    ) -> None:
        """See `_Driver.each`."""


class Sorting:
    """The sorted runs of an order, as they get made and merged.

    each: runs tasks. done: told of the records of each map task that is done. paths: of the runs,
    earlier records in earlier ones. counts: their records in each segment. files: those that cells
    named, by path.
    """

    def __init__(self, given: OrderWork, layout: Layout, each: Each) -> None:
        self._ledger, self._layout, self._each = given.ledger, layout, each
        self.paths: list[str] = []
        self.counts: Counts = np.zeros(given.mapping.segments.total, np.int64)
        self.files: dict[str, Fingerprint] = {}
        self._left: dict[str, Left | None] = {}
        self._passes = -1

    def run(self, shared: Shared, plan: Plan, done: Callable[[int], None]) -> None:
        """Have all rows sorted into runs that are few enough. shared: what the tasks share."""
        self._go_on(shared)
        if self._passes < 0:
            self._map(shared, plan, done)
        else:
            done(int(self.counts.sum()))
        while len(self.paths) > self._layout.most:
            self._merge(shared)

    def _go_on(self, shared: Shared) -> None:
        """Take the runs of the last pass that an earlier run of the driver has left whole."""
        passes = list(takewhile(lambda found: found is not None, map(self._ledger.passed, count())))
        for number, found in reversed(list(enumerate(passes))):
            tasks, files = found or ((), ())
            left = self._whole(shared, tasks)
            if len(left) == len(tasks) and are_unchanged(files):
                self._passes, self.paths = number, [path for one in left for path in one.paths]
                self._name(files)
                self.counts = counted(self.paths, len(self.counts))
                break

    def _whole(self, shared: Shared, tasks: Sequence[str]) -> list[Left]:
        """What those of some tasks left whose runs are whole. Workers look, as runs are large."""
        new = [task for task in tasks if task not in self._left]
        self._each(left_whole, shared, new, lambda found: self._left.update([found]))
        return [left for task in tasks if (left := self._left[task]) is not None]

    def _map(self, shared: Shared, plan: Plan, done: Callable[[int], None]) -> None:
        tasks = list(map(MapTask, cut_maps(plan.pieces, plan, self._layout)))
        paths: dict[str, tuple[str, ...]] = {}

        def take(mapped: Mapped) -> None:
            paths[mapped.name] = mapped.paths
            self.counts += mapped.counts
            self._name(mapped.fingerprints)
            done(int(mapped.counts.sum()))

        self._whole(shared, [task.name for task in tasks if self._ledger.knows(task.name)])
        for name in [task.name for task in tasks]:
            if (left := self._left.get(name)) is not None:
                take(Mapped(name, left.paths, counted(left.paths, len(self.counts)), left.files))
        self._each(map_rows, shared, (task for task in tasks if task.name not in paths), take)
        self._pass([path for task in tasks for path in paths[task.name]], tasks)

    def _merge(self, shared: Shared) -> None:
        groups = -(-len(self.paths) // self._layout.most)
        bounds = [len(self.paths) * number // groups for number in range(groups + 1)]
        tasks = [
            MergeTask(f"merged-{self._passes + 1}-{begin:06d}", tuple(self.paths[begin:end]))
            for begin, end in pairwise(bounds)
        ]
        self._whole(shared, [task.name for task in tasks if self._ledger.knows(task.name)])
        done = {task.name: self._left.get(task.name) for task in tasks}
        paths = {name: found.paths[0] for name, found in done.items() if found is not None}

        def take(merged: tuple[str, str]) -> None:
            name, paths[name] = merged

        self._each(merge_runs, shared, (task for task in tasks if task.name not in paths), take)
        old = self.paths
        self._pass([paths[task.name] for task in tasks], tasks)
        for path in old:
            remove(path)

    def _pass(self, paths: list[str], tasks: Sequence[MapTask] | Sequence[MergeTask]) -> None:
        """All runs are new ones, or merged. tasks: that made them."""
        self._passes, self.paths = self._passes + 1, paths
        names = [task.name for task in tasks]
        self._ledger.leave_pass(self._passes, names, self.files.values())

    def _name(self, files: Iterable[Fingerprint]) -> None:
        gather(self.files, files)
