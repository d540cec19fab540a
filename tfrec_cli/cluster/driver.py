"""The driver of a run on a cluster: hands out the tasks, gathers their receipts.

Receipts of one stage are all here before the next begins, and nothing of a stage stays in the
memory of workers, so that a worker that dies makes no finished task run again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa

from tfrec_cli.arrangement import Order
from tfrec_cli.cluster.layout import cut_lots, cut_maps, lay_out
from tfrec_cli.cluster.ordered import (
    Mapped,
    MapTask,
    MergeTask,
    OrderWork,
    map_rows,
    merge_runs,
    order_tasks,
    write_ordered,
)
from tfrec_cli.cluster.probes import require_folder
from tfrec_cli.cluster.rows import RowsWork, rows_tasks, write_rows
from tfrec_cli.cluster.shared import Shared, share
from tfrec_cli.cluster.spills import Counts, remove
from tfrec_cli.cluster.target import Target, Written
from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.manifest import Split
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.dataset.staging import Stage
from tfrec_cli.engines.base import Engine
from tfrec_cli.options import ConvertOptions
from tfrec_cli.ordering import MapWork, ordered_bytes, plan_segments
from tfrec_cli.plan import Plan, SplitPlan
from tfrec_cli.progress import Reporter
from tfrec_cli.shardlog import ShardLog
from tfrec_cli.spill import Disks, spill_folder
from tfrec_cli.tasks import Work
from tfrec_cli.writing import split_of

Task = TypeVar("Task")
Receipt = TypeVar("Receipt")


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """What is to be done, and where. log: which shards are done."""

    engine: Engine
    options: ConvertOptions
    dest: Dest
    work: Work
    plan: Plan
    reporter: Reporter
    log: ShardLog


def write_on_cluster(run: ClusterRun, stage: Stage) -> tuple[Split, ...]:
    """Write all splits into `stage`; return what they hold.

    Raises what tasks raise, EngineError where workers do not see the folders of the run.
    """
    require_folder(run.engine, stage.work, "where DEST is written")
    driver = _Driver(run, stage)
    if not driver.lots:
        return driver.splits()
    if run.work.order is None and run.work.splitter is None:
        return driver.by_rows()
    with spill_folder(run.options, stage.work) as folder:
        if run.options.temp_dir is not None:
            require_folder(run.engine, folder, "--temp-dir")
        disks = Disks.of(run.options, run.dest, folder, stage.work)
        disks.check(ordered_bytes(run.plan), run.plan.size)
        return driver.in_order(folder)


class _Driver:
    """Hands out the tasks of one run."""

    def __init__(self, run: ClusterRun, stage: Stage) -> None:
        self._run, self._work = run, os.fspath(stage.work)
        size = ordered_bytes(run.plan)
        self._layout = lay_out(run.plan, run.options.memory, run.engine.threads(), size)
        lots = cut_lots(run.plan, run.dest, self._layout)
        self.lots = [part for lot in lots for part in lot.missing(run.log)]
        data = os.fspath(stage.path(""))
        self._target = Target(data, self._work, run.dest.compression, run.dest.text)
        self._wanted = os.path.join(self._work, "wanted")
        with writing(self._work), open(self._wanted, "xb"):
            pass

    def by_rows(self) -> tuple[Split, ...]:
        """Records in the order of the source, straight from it."""
        plan = self._run.plan
        shared = share(self._work, RowsWork(self._run.work, self._target))
        tasks = rows_tasks(self.lots, plan.splits, plan.records_of_pieces)
        self._run.reporter.stage("convert", plan.records)
        self._each(write_rows, shared, tasks, self._take_shards)
        return self.splits()

    def in_order(self, folder: str) -> tuple[Split, ...]:
        """Records in another order, by sorted runs in `folder`."""
        work, plan, reporter = self._run.work, self._run.plan, self._run.reporter
        order = work.order or Order("source", step=2**64 // max(1, plan.rows))
        work = replace(work, order=order)
        segments = plan_segments(plan, self._layout.segment, plan.sample)
        record = ordered_bytes(plan) / plan.records
        mapping = MapWork(work, segments, folder, self._layout.run, record)
        key = pa.uint64() if segments.sample is None else pa.large_binary()
        given = OrderWork(mapping, self._target, key)
        shared = share(self._work, given)
        reporter.stage("split" if order.kind == "source" else order.kind, plan.records)
        runs = _Runs(np.zeros(segments.total, np.int64), [], self._run)
        maps = map(MapTask, cut_maps(plan.pieces, plan, self._layout))
        self._each(map_rows, shared, maps, runs.add)
        self._merge(shared, runs)
        reporter.stage("convert", plan.records)
        listed = share(self._work, tuple(runs.paths))
        tasks = order_tasks(self.lots, segments, runs.counts, listed)
        self._each(write_ordered, shared, tasks, self._take_shards)
        return self.splits()

    def _merge(self, shared: Shared, runs: _Runs) -> None:
        """Make the runs so few that shards can read them."""
        passes = 0
        while len(runs.paths) > self._layout.most:
            passes, old, runs.paths = passes + 1, runs.paths, []
            groups = -(-len(old) // self._layout.most)
            bounds = [len(old) * number // groups for number in range(groups + 1)]
            tasks = (
                MergeTask(f"merged-{passes}-{begin:06d}", tuple(old[begin:end]))
                for begin, end in pairwise(bounds)
            )
            self._each(merge_runs, shared, tasks, runs.paths.append)
            for path in old:
                remove(path)

    def _each(
        self,
        function: Callable[[Shared, Task], Receipt],
        shared: Shared,
        tasks: Iterable[Task],
        take: Callable[[Receipt], None],
    ) -> None:
        """Have all tasks done, and `take` each receipt in order. Whatever ends this ends them."""
        found = self._run.engine.map(partial(function, shared), tasks, self._wanted)
        with closing(cast("Generator[Receipt, None, None]", found)) as receipts:
            for receipt in receipts:
                take(receipt)

    def _take_shards(self, written: Written) -> None:
        for shard in written.shards:
            self._run.log.note(shard, written.fingerprints)
            self._run.reporter.advance(shard.records, shard.bytes)

    def splits(self) -> tuple[Split, ...]:
        """What all shards hold, once they are done."""
        return tuple(self._split(plan) for plan in self._run.plan.splits)

    def _split(self, plan: SplitPlan) -> Split:
        found = map(self._run.log.done, self._run.dest.shards(plan.name, len(plan.shards)))
        return split_of(plan, (shard for shard in found if shard is not None))


@dataclass(slots=True)
class _Runs:
    """The sorted runs so far, earlier records in earlier runs. counts: records of each segment."""

    counts: Counts
    paths: list[str]
    run: ClusterRun

    def add(self, mapped: Mapped) -> None:
        """Take what a map task left."""
        self.counts += mapped.counts
        self.paths += mapped.paths
        self.run.log.loaded.update((print.path, print) for print in mapped.fingerprints)
        self.run.reporter.advance(int(mapped.counts.sum()), 0)
