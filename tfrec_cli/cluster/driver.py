"""The driver of a run on a cluster: hands out the tasks, gathers their receipts.

Receipts of one stage are all here before the next begins, and nothing of a stage stays in the
memory of workers, so that a worker that dies makes no finished task run again.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import pyarrow as pa

from tfrec_cli.arrangement import Order
from tfrec_cli.cluster.layout import cut_lots, lay_out
from tfrec_cli.cluster.ledger import settled_layout
from tfrec_cli.cluster.ordered import OrderWork, order_tasks, write_ordered
from tfrec_cli.cluster.output import Output, Written
from tfrec_cli.cluster.probes import require_folder
from tfrec_cli.cluster.rows import RowsWork, rows_tasks, write_rows
from tfrec_cli.cluster.shared import Shared, share
from tfrec_cli.cluster.sorting import Sorting
from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.leftovers import RECEIPTS
from tfrec_cli.dataset.manifest import Split
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.dataset.staging import Stage
from tfrec_cli.engines.base import Engine
from tfrec_cli.options import ConvertOptions
from tfrec_cli.ordering import MapWork, ordered_bytes, plan_segments
from tfrec_cli.plan import Plan, SplitPlan
from tfrec_cli.progress import Reporter
from tfrec_cli.shardlog import ShardLog
from tfrec_cli.spill import RUNS, Disks, spill_folder
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
    _clean(stage.work)
    require_folder(run.engine, stage.work, "where DEST is written")
    driver = _Driver(run, stage)
    if not driver.lots:
        return driver.splits()
    if run.work.order is None and run.work.splitter is None:
        return driver.by_rows()
    with ExitStack() as after:
        if run.options.temp_dir is None:
            folder = os.fspath(stage.work / RUNS)
            with writing(folder):
                os.makedirs(folder, exist_ok=True)
        else:
            folder = after.enter_context(spill_folder(run.options, stage.work))
            require_folder(run.engine, folder, "--temp-dir")
        disks = Disks.of(run.options, run.dest, folder, stage.work)
        disks.check(ordered_bytes(run.plan), run.plan.size)
        return driver.in_order(folder)


def _clean(work: Path) -> None:
    """Remove what a run that was killed has left beside its receipts and runs. Its tasks that are
    still at work somewhere see by it that they are not wanted any more.
    """
    kept = (RUNS, os.path.basename(RECEIPTS))
    with writing(work):
        for entry in list(os.scandir(work)):
            if entry.name in kept:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)


class _Driver:
    """Hands out the tasks of one run. lots: the shards that are to be written."""

    def __init__(self, run: ClusterRun, stage: Stage) -> None:
        self._run, self._work = run, os.fspath(stage.work)
        run.log.receipts.begin()
        folder = run.log.receipts.folder
        self._receipts = None if folder is None else os.fspath(folder)
        size = ordered_bytes(run.plan)
        self._layout = lay_out(run.plan, run.options.memory, run.engine.threads(), size)
        lots = cut_lots(run.plan, run.dest, self._layout)
        self.lots = [part for lot in lots for part in lot.missing(run.log)]
        data, how = os.fspath(stage.path("")), run.dest.compression
        sync, shown = run.options.fsync, run.dest.text
        indexes = None if run.log.indexes is None else os.fspath(run.log.indexes)
        self._output = Output(data, self._work, self._receipts, how, shown, sync, indexes)
        self._wanted = os.path.join(self._work, f"wanted-{secrets.token_hex(8)}")
        with writing(self._work), open(self._wanted, "xb"):
            pass

    def by_rows(self) -> tuple[Split, ...]:
        """Records in the order of the source, straight from it."""
        plan = self._run.plan
        shared = share(self._work, RowsWork(self._run.work, self._output))
        tasks = rows_tasks(self.lots, plan.splits, plan.records_of_pieces)
        self._run.reporter.stage("convert", plan.records)
        self.each(write_rows, shared, tasks, self._take_shards)
        return self.splits()

    def in_order(self, folder: str) -> tuple[Split, ...]:
        """Records in another order, by sorted runs in `folder`."""
        plan, reporter = self._run.plan, self._run.reporter
        order = self._run.work.order or Order("source", step=2**64 // max(1, plan.rows))
        # Runs elsewhere than in the stage are gone when this ends.
        kept = self._receipts if self._run.options.temp_dir is None else None
        layout = settled_layout(kept, self._layout)
        segments = plan_segments(plan, layout.segment, plan.sample)
        record = ordered_bytes(plan) / plan.records
        work = replace(self._run.work, order=order)
        mapping = MapWork(work, segments, folder, layout.run, record)
        key = pa.uint64() if segments.sample is None else pa.large_binary()
        given = OrderWork(mapping, self._output, key, layout, kept)
        shared, sorting = share(self._work, given), Sorting(given, layout, self.each)
        reporter.stage("split" if order.kind == "source" else order.kind, plan.records)
        sorting.run(shared, plan, lambda records: reporter.advance(records, 0))
        self._run.log.note_files(sorting.files.values())
        reporter.stage("convert", plan.records)
        runs = share(self._work, tuple(sorting.paths))
        tasks = order_tasks(self.lots, segments, sorting.counts, runs)
        self.each(write_ordered, shared, tasks, self._take_shards)
        return self.splits()

    def each(
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
            self._run.log.take(shard, written.fingerprints)
            self._run.reporter.advance(shard.records, shard.bytes)

    def splits(self) -> tuple[Split, ...]:
        """What all shards hold, once they are done."""
        return tuple(self._split(plan) for plan in self._run.plan.splits)

    def _split(self, plan: SplitPlan) -> Split:
        found = map(self._run.log.done, self._run.dest.shards(plan.name, len(plan.shards)))
        return split_of(plan, (shard for shard in found if shard is not None))
