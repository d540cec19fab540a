"""The driver's part in putting records in order: sorted runs, few enough for shards to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count, pairwise
from typing import Any, Protocol

import numpy as np

from tfrec_cli.cluster.layout import Layout, cut_maps
from tfrec_cli.cluster.ordered import Mapped, MapTask, MergeTask, OrderWork, map_rows, merge_runs
from tfrec_cli.cluster.shared import Shared
from tfrec_cli.plan import Plan
from tfrec_cli.shuffle.spills import Counts, counted, remove
from tfrec_cli.sources.base import Fingerprint


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
        self._passes = -1

    def run(self, shared: Shared, plan: Plan, done: Callable[[int], None]) -> None:
        """Have all rows sorted into runs that are few enough. shared: what the tasks share."""
        self._go_on()
        if self._passes < 0:
            self._map(shared, plan, done)
        else:
            done(int(self.counts.sum()))
        while len(self.paths) > self._layout.most:
            self._merge(shared)

    def _go_on(self) -> None:
        """Take the runs of the last pass that an earlier run of the driver has left whole."""
        for number in count():
            task = f"pass-{number}"
            if not self._ledger.knows(task):
                break
            if (found := self._ledger.runs(task)) is not None:
                self._passes, self.paths = number, list(found.paths)
                self._name(found.files)
        self.counts = counted(self.paths, len(self.counts))

    def _map(self, shared: Shared, plan: Plan, done: Callable[[int], None]) -> None:
        tasks = list(map(MapTask, cut_maps(plan.pieces, plan, self._layout)))
        paths: dict[str, tuple[str, ...]] = {}

        def take(mapped: Mapped) -> None:
            paths[mapped.name] = mapped.paths
            self.counts += mapped.counts
            self._name(mapped.fingerprints)
            done(int(mapped.counts.sum()))

        for task in tasks:
            if (found := self._ledger.runs(task.name)) is not None:
                counts = counted(found.paths, len(self.counts))
                take(Mapped(task.name, found.paths, counts, found.files))
        self._each(map_rows, shared, (task for task in tasks if task.name not in paths), take)
        self._pass([path for task in tasks for path in paths[task.name]])

    def _merge(self, shared: Shared) -> None:
        groups = -(-len(self.paths) // self._layout.most)
        bounds = [len(self.paths) * number // groups for number in range(groups + 1)]
        tasks = [
            MergeTask(f"merged-{self._passes + 1}-{begin:06d}", tuple(self.paths[begin:end]))
            for begin, end in pairwise(bounds)
        ]
        done = {task.name: self._ledger.runs(task.name) for task in tasks}
        paths = {name: found.paths[0] for name, found in done.items() if found is not None}

        def take(merged: tuple[str, str]) -> None:
            name, paths[name] = merged

        self._each(merge_runs, shared, (task for task in tasks if task.name not in paths), take)
        old = self.paths
        self._pass([paths[task.name] for task in tasks])
        for path in old:
            remove(path)

    def _pass(self, paths: list[str]) -> None:
        """All runs are new ones, or merged."""
        self._passes, self.paths = self._passes + 1, paths
        self._ledger.leave(f"pass-{self._passes}", paths, self.files.values(), settled=True)

    def _name(self, files: Iterable[Fingerprint]) -> None:
        self.files.update((file.path, file) for file in files)
