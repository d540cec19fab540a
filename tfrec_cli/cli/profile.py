"""`--profile` and its kin: where the time of a run went."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfrec_cli.cli.common import PATH, human_size
from tfrec_cli.errors import DatasetError

if TYPE_CHECKING:
    from tfrec_cli.options import ConvertOptions
    from tfrec_cli.profiling import Profile, Recorder

Function = TypeVar("Function", bound=Callable[..., Any])


def profile_options(function: Function) -> Function:
    """`--profile`, `--profile-trace` and `--profile-tensorboard`."""
    for option in (
        click.option(
            "--profile-tensorboard", metavar="DIR", type=PATH,
            help="Write the profile over time as a TensorBoard event file in DIR.",
        ),
        click.option(
            "--profile-trace", metavar="FILE", type=PATH,
            help="Write the profile as a trace for Perfetto (JSON).",
        ),
        click.option(
            "--profile", is_flag=True,
            help="Show where the time went, and what would make it less.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


class Profiling:
    """What was asked for of a profile: takes its options out of `given`, records, tells."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._shown: bool = given.pop("profile")
        self._trace: str | None = given.pop("profile_trace")
        self._events: str | None = given.pop("profile_tensorboard")
        self._recorder: Recorder | None = None
        self._profile: Profile | None = None

    def check(self, options: ConvertOptions) -> None:
        """Raise UsageError where a file that was asked for must not be written, or cannot be."""
        if self._trace is None and self._events is None:
            return
        from tfrec_cli.accounts import check_account, refuse_same
        from tfrec_cli.preparation import choose_dest, paths_of
        from tfrec_cli.profiling import events_account, trace_account
        from tfrec_cli.rejects import rejects_account

        asked = [] if self._trace is None else [trace_account(self._trace)]
        asked += [] if self._events is None else [events_account(self._events)]
        dest = choose_dest(options)
        for one in asked:
            check_account(one, dest, paths_of(options))
        refuse_same(
            [*([rejects_account(options.rejects)] if options.rejects is not None else []), *asked]
        )

    def recording(self) -> AbstractContextManager[Any]:
        """To be entered around the run."""
        if not self._shown and self._trace is None and self._events is None:
            return nullcontext()
        from tfrec_cli.profiling import Recorder

        self._recorder = Recorder()
        return self._recorder

    def finish(self, options: ConvertOptions) -> None:
        """Write the files that were asked for. Raises DatasetError where one cannot be written."""
        if self._recorder is None:
            return
        to_pipe = options.dest == "-"
        target = None if to_pipe else os.path.dirname(os.path.abspath(options.dest))
        self._profile = self._recorder.profile(options.jobs, target, options.scheduler is not None)
        try:
            self._write(self._profile)
        except DatasetError as error:
            raise DatasetError(
                f"{error} {options.dest} is whole: its profile alone is missing."
            ) from error

    def _write(self, profile: Profile) -> None:
        from tfrec_cli.profiling import write_events, write_trace

        if self._trace is not None:
            write_trace(profile, self._trace)
        if self._events is not None:
            write_events(profile, self._events)

    def lines(self) -> list[str]:
        """The profile as text, nothing where `--profile` was not given."""
        return _table(self._profile) if self._profile is not None and self._shown else []

    def document(self) -> dict[str, Any]:
        """The profile for `--json`, nothing where `--profile` was not given."""
        if self._profile is None or not self._shown:
            return {}
        return {"profile": _document(self._profile)}


def _table(profile: Profile) -> list[str]:
    """Columns: stage, seconds in all threads, of them processor time, bytes, MB/s of one thread."""
    lines = [f"  {'stage':<9}{'wall s':>8}{'cpu s':>8}{'bytes':>11}{'MB/s':>8}"]
    for s in profile.stages:
        size = human_size(s.size) if s.size else ""
        rate = f"{s.rate:,.0f}" if s.size else ""
        lines.append(f"  {s.stage:<9}{s.wall:>8.2f}{s.cpu:>8.2f}{size:>11}{rate:>8}")
    target = f", the target takes {profile.target / 1e6:,.0f} MB/s" if profile.target else ""
    lines.append(
        f"  {profile.seconds:.2f} s, {profile.cpu:.2f} s of processor time in "
        f"{profile.jobs} threads, {profile.peak / 2**20:,.0f} MiB at most{target}"
    )
    return [*lines, f"  {profile.bottleneck}"]


def _document(profile: Profile) -> dict[str, Any]:
    stages = [
        {"stage": s.stage, "wall": s.wall, "cpu": s.cpu, "bytes": s.size} for s in profile.stages
    ]
    return {
        "seconds": profile.seconds,
        "cpu": profile.cpu,
        "jobs": profile.jobs,
        "peak_memory": profile.peak,
        "target_bytes_per_second": profile.target,
        "stages": stages,
        "bottleneck": profile.bottleneck,
    }
