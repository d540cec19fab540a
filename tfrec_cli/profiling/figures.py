"""The figures of a run, and the sentence that names its bottleneck."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tfrec_cli.stages import STAGES, Span

# From this share of its capacity on a resource counts as the bottleneck.
_BUSY = 0.7
# Less than this, and it is not the stages that take the time.
_IDLE = 0.25
_WORK = ("read", "cast", "encode", "order", "compress")


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One stage. wall: seconds, summed over threads, and cpu: of processor time, in it.

    size: bytes that it handled. first, last: seconds into the run between which it was at work.
    """

    stage: str
    wall: float
    cpu: float
    size: int
    first: float
    last: float

    @property
    def rate(self) -> float:
        """MB/s (powers of 1000) of one thread."""
        return self.size / self.wall / 1e6 if self.wall else 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident memory in bytes, `at` seconds into the run."""

    at: float
    memory: int


@dataclass(frozen=True, slots=True)
class Profile:
    """One run. seconds: from begin to end; cpu: processor time of the process. jobs: threads.

    peak: bytes of memory at most. target: bytes per second that DEST's file system took in a test,
    None where it was not tested. began_at: seconds since 1970. remote: whether `jobs` are threads
    of workers that were there, which no `-j` makes more or fewer. writers: threads that write.
    """

    spans: tuple[Span, ...]
    samples: tuple[Sample, ...]
    began: float
    began_at: float
    seconds: float
    cpu: float
    jobs: int
    peak: int
    target: float | None = None
    remote: bool = False
    writers: int = 1

    @property
    def stages(self) -> tuple[StageFigures, ...]:
        """The stages that did something, in their order."""
        found = [(stage, [s for s in self.spans if s.stage == stage]) for stage in STAGES]
        return tuple(self._figures(stage, spans) for stage, spans in found if spans)

    def _figures(self, stage: str, spans: Sequence[Span]) -> StageFigures:
        return StageFigures(
            stage,
            sum(span.wall for span in spans),
            sum(span.cpu for span in spans),
            sum(span.size for span in spans),
            min(span.start for span in spans) - self.began,
            max(span.stop for span in spans) - self.began,
        )

    @property
    def bottleneck(self) -> str:
        """One sentence: what the run waited for most, and which option would move it."""
        stages = {figures.stage: figures for figures in self.stages}
        survey = stages["survey"].wall if "survey" in stages else 0.0
        work = self.seconds - survey
        if not stages or survey > work:
            return (
                f"The survey took {_share(survey, self.seconds)} of the time: give the schema "
                "(--schema) of an earlier run, and types need not be found out."
            )
        writing = stages["write"].wall / work / self.writers if "write" in stages else 0.0
        threads = [stages[name] for name in _WORK if name in stages]
        busy = sum(figures.wall for figures in threads) / (work * self.jobs)
        if writing > max(_BUSY, busy):
            return self._slow_target(stages["write"], writing)
        if not threads:
            return "Nothing was converted."
        most = max(threads, key=lambda figures: figures.wall)
        if self._held_up(threads):
            return (
                f"Threads waited for processors, which other programs use: {most.stage} took "
                f"{most.wall:.1f} s for {most.cpu:.1f} s of work. Run it on {self._quieter}."
            )
        if most.cpu < most.wall / 2 and most.stage == "read":
            return (
                f"Reading waited for the source: {most.rate:.0f} MB/s a thread with "
                f"{_share(most.cpu, most.wall)} of a processor; {self._more_threads} keep more "
                "reads under way."
            )
        return self._slow_stage(most, busy)

    @property
    def _quieter(self) -> str:
        if self.remote:
            return "quiet machines, or workers of no more threads than these have processors free"
        return "a quiet machine, or with fewer threads (-j)"

    @property
    def _more_threads(self) -> str:
        if self.remote:
            return f"more workers, or such of more threads (now {self.jobs:,} in all),"
        return f"more threads (-j {2 * self.jobs})"

    def _held_up(self, threads: Sequence[StageFigures]) -> bool:
        """Whether work that waits for nothing but a processor had to wait."""
        pure = [figures for figures in threads if figures.stage in ("cast", "encode", "compress")]
        wall = sum(figures.wall for figures in pure)
        waited = sum(figures.cpu for figures in pure) < _BUSY * wall
        return waited and wall > self.seconds * self.jobs / 20

    def _slow_target(self, write: StageFigures, share: float) -> str:
        target = f"; it takes {self.target / 1e6:.0f} MB/s at most" if self.target else ""
        return (
            f"Writing took {share:.0%} of the time, at {write.rate:.0f} MB/s{target}: "
            "--compression gzip:1 would write less, another disk would take more."
        )

    def _slow_stage(self, most: StageFigures, busy: float) -> str:
        cores = os.cpu_count() or 1
        if busy < _IDLE:
            return (
                f"Threads were at work {busy:.0%} of the time, so that no stage holds this run up: "
                "the rest is start-up, and what is looked at beforehand. Larger inputs go faster."
            )
        if busy < _BUSY:
            move = "the rest is start-up and waiting, so larger inputs go faster"
        elif most.stage == "compress":
            move = "a lower level (--compression gzip:1) or --compressor isal is faster"
        elif self.remote:
            move = "all workers are in use, so only more of them would help"
        elif self.jobs < cores:
            move = f"there are {cores} processors: -j {cores} uses them all"
        else:
            move = "all processors are in use, so only more of them (-j) would help"
        return (
            f"{most.stage.capitalize()} took most, {_share(most.wall, self._threads_wall())} of "
            f"the threads' time, and threads were at work {busy:.0%} of it: {move}."
        )

    def _threads_wall(self) -> float:
        return sum(figures.wall for figures in self.stages if figures.stage in _WORK)


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "0%"
