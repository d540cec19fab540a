"""A run as a trace that Perfetto and chrome://tracing show.

The format is Chrome's Trace Event Format, JSON object form:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from tfrec_cli.accounts import Account, replacing
from tfrec_cli.profiling.figures import Profile


def write_trace(profile: Profile, path: str) -> None:
    """Write `profile` to the file at `path`. Raises DatasetError where it cannot be written."""
    document = {"traceEvents": list(_events(profile)), "displayTimeUnit": "ms"}
    with replacing(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def trace_account(path: str) -> Account:
    """The trace as `--profile-trace` names it."""
    return Account("--profile-trace", path, "trace", b'{"traceEvents": ')


def _events(profile: Profile) -> Iterator[dict[str, Any]]:
    """Complete events ("X") for spans, counters ("C") for memory, names ("M"); in microseconds."""
    process = os.getpid()
    numbers = {name: n for n, name in enumerate(dict.fromkeys(s.thread for s in profile.spans))}
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": "tfrec"}}
    for name, number in numbers.items():
        about = {"ph": "M", "pid": process, "tid": number, "name": "thread_name"}
        yield about | {"args": {"name": name}}
    for span in profile.spans:
        yield {
            "ph": "X",
            "pid": process,
            "tid": numbers[span.thread],
            "name": span.stage,
            "ts": (span.start - profile.began) * 1e6,
            "dur": (span.stop - span.start) * 1e6,
            "args": {"bytes": span.size, "cpu_ms": span.cpu * 1e3},
        }
    for sample in profile.samples:
        counter = {"ph": "C", "pid": process, "name": "memory", "ts": sample.at * 1e6}
        yield counter | {"args": {"MiB": sample.memory / 2**20}}
