"""Recording a run: its spans, its memory over time, and what its target can take."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import threading
import time
from types import TracebackType

from tfrec_cli.profiling.figures import Profile, Sample
from tfrec_cli.stages import Recording

# Seconds between looks at the memory, and bytes written to try the target.
_PERIOD = 0.05
_TRIAL = 32 * 2**20
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Recorder:
    """A context manager around a run; `profile` tells of it afterwards."""

    def __init__(self) -> None:
        self._recording = Recording()
        self._samples: list[Sample] = []
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._watch, name="tfrec-profile", daemon=True)
        self._seconds = self._cpu = 0.0

    def __enter__(self) -> Recorder:
        self._recording.__enter__()
        self._cpu = time.process_time()
        self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._seconds = time.perf_counter() - self._recording.began
        self._cpu = time.process_time() - self._cpu
        self._recording.__exit__(kind, error, trace)
        self._stop.set()
        self._sampler.join()

    def profile(self, jobs: int, target: str | None, remote: bool = False) -> Profile:
        """What was recorded. target: the folder that was written to, None where it was a pipe.
        remote: whether the work was done by workers that `jobs` does not tell of.
        """
        return Profile(
            spans=tuple(self._recording.spans),
            samples=tuple(self._samples),
            began=self._recording.began,
            began_at=self._recording.began_at,
            seconds=self._seconds,
            cpu=self._cpu + self._recording.cpu,
            jobs=self._recording.elsewhere or jobs,
            remote=remote,
            writers=self._recording.elsewhere or 1,
            peak=_peak_memory(),
            target=None if target is None else write_rate(target),
        )

    def _watch(self) -> None:
        while not self._stop.wait(_PERIOD):
            memory = _memory()
            if memory is not None:
                at = time.perf_counter() - self._recording.began
                self._samples.append(Sample(at, memory))


def write_rate(folder: str) -> float | None:
    """Bytes per second that a new file in `folder` takes, until they are on the disk.

    None where none can be written. The file has no name, so that nothing is left of it.
    """
    block = os.urandom(2**20)
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            began = time.perf_counter()
            for _ in range(_TRIAL // len(block)):
                file.write(block)
            os.fsync(file.fileno())
            return _TRIAL / (time.perf_counter() - began)
    except OSError:
        return None


def _memory() -> int | None:
    """Resident bytes now, None where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return None


def _peak_memory() -> int:
    """The most bytes that this process had in memory."""
    try:
        with open("/proc/self/status", "rb") as file:
            lines = [line for line in file if line.startswith(b"VmHWM")]
        return int(lines[0].split()[1]) * 1024
    except (OSError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
