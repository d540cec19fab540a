"""`--profile`: what it says, and the files that other tools read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tfrec_cli.cli.profile import Profiling
from tfrec_cli.errors import DatasetError
from tfrec_cli.options import ConvertOptions
from tfrec_cli.profiling import Profile, Recorder, write_events
from tfrec_cli.profiling.figures import Sample
from tfrec_cli.stages import Span, timed, timed_items


def tfrec(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfrec_cli", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, text=True)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = "".join(f"{i},{i / 7:.3f},name {i}\n" for i in range(20_000))
    (tmp_path / "t.csv").write_text("id,score,name\n" + rows)
    return tmp_path


def span(stage: str, start: float, seconds: float, cpu: float | None = None) -> Span:
    cpu = seconds if cpu is None else cpu
    return Span(stage, "one", start, start + seconds, seconds, cpu, int(seconds * 1e8))


def profile(*spans: Span, seconds: float = 10.0, jobs: int = 1, cpu: float = 9.0) -> Profile:
    samples = (Sample(0.5, 2**20), Sample(9.0, 2**21))
    return Profile(spans, samples, 0.0, 1000.0, seconds, cpu, jobs, 2**21, 5e8)


def test_profile_shows_every_stage_and_one_sentence(table: Path) -> None:
    result = tfrec("convert", "t.csv", "out", "--compression", "gzip", "--profile", cwd=table)
    assert result.returncode == 0
    assert "stage" not in result.stdout
    lines = result.stderr.splitlines()
    stages = [line.split()[0] for line in lines if line.startswith("  ")]
    assert stages[:6] == ["stage", "survey", "read", "cast", "encode", "compress"]
    assert "MiB at most, the target takes" in lines[-2]
    assert lines[-1].endswith(".")
    assert sorted(os.listdir(table)) == ["out", "t.csv"]


def test_profile_of_a_shuffle_tells_what_ordering_took(table: Path) -> None:
    result = tfrec("convert", "t.csv", "out", "--shuffle", "--json", "--profile", cwd=table)
    found = json.loads(result.stdout)["profile"]
    stages = {stage["stage"]: stage for stage in found["stages"]}
    assert list(stages) == ["survey", "read", "cast", "encode", "order", "write"]
    assert all(stage["wall"] > 0 for stage in stages.values())
    assert stages["write"]["bytes"] == sum(
        os.path.getsize(path) for path in (table / "out").glob("*.tfrecord-*")
    )
    assert found["peak_memory"] > 2**20
    assert found["bottleneck"] in result.stdout


def test_the_same_bytes_with_and_without_a_profile(table: Path) -> None:
    tfrec("convert", "t.csv", "a.tfrecord", cwd=table)
    tfrec("convert", "t.csv", "b.tfrecord", "--profile-trace", "trace.json", cwd=table)
    assert (table / "a.tfrecord").read_bytes() == (table / "b.tfrecord").read_bytes()


def test_trace_is_what_perfetto_reads(table: Path) -> None:
    result = tfrec("convert", "t.csv", "o.tfrecord", "--profile-trace", "trace.json", cwd=table)
    assert "stage" not in result.stderr
    events = json.loads((table / "trace.json").read_text())["traceEvents"]
    work = [event for event in events if event["ph"] == "X"]
    assert {"survey", "read", "cast", "encode", "write"} <= {event["name"] for event in work}
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in work)
    threads = {event["tid"] for event in events if event.get("name") == "thread_name"}
    assert {event["tid"] for event in work} == threads


def test_tensorboard_reads_the_event_file(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    path = write_events(profile(span("read", 0, 4), span("write", 4, 6)), str(tmp_path / "board"))
    first, *events = loader.LegacyEventFileLoader(path).Load()
    assert first.file_version == "brain.Event:2"
    steps = [event.step for event in events]
    assert steps == list(range(len(steps)))
    assert events[-1].wall_time == pytest.approx(1010, abs=0.2)
    curves: dict[str, list[float]] = {}
    for event in events:
        for value in event.summary.value:
            curves.setdefault(value.tag, []).append(value.simple_value)
    assert set(curves) == {
        "memory/MiB", "read/MB_per_s", "read/threads", "write/MB_per_s", "write/threads",
    }  # fmt: skip
    assert curves["memory/MiB"] == [1, 2]
    assert sum(curves["read/MB_per_s"]) * 0.05 == pytest.approx(400, rel=1e-3)
    assert curves["read/threads"][:10] == pytest.approx([1] * 10)
    assert curves["read/threads"][-1] == 0


def test_events_of_a_run_lie_in_the_folder_asked_for(table: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    tfrec("convert", "t.csv", "o.tfrecord", "--profile-tensorboard", "board", cwd=table)
    (path,) = (table / "board").iterdir()
    tags = {v.tag for e in loader.LegacyEventFileLoader(str(path)).Load() for v in e.summary.value}
    assert {"survey/threads", "write/MB_per_s"} <= tags


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (profile(span("survey", 0, 7), span("read", 7, 3)), "--schema"),
        (profile(span("read", 0, 1), span("write", 1, 9)), "takes 500 MB/s at most: --compression"),
        (profile(span("compress", 0, 8), span("write", 8, 1)), "--compressor isal"),
        (profile(span("read", 0, 9, cpu=1)), "waited for the source"),
        (profile(span("encode", 0, 9, cpu=3)), "waited for processors"),
        (profile(span("encode", 0, 2), jobs=2), "start-up"),
        (profile(), "--schema"),
    ],
)
def test_the_sentence_names_the_bottleneck_and_what_moves_it(found: Profile, words: str) -> None:
    assert words in found.bottleneck
    assert found.bottleneck.count(". ") <= 1


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (profile(span("read", 0, 9, cpu=1)), "more workers"),
        (profile(span("encode", 0, 9, cpu=3)), "workers of no more threads"),
        (profile(span("encode", 0, 9, cpu=9)), "all workers are in use"),
        (profile(span("read", 0, 18), span("write", 1, 9), jobs=2), "all workers are in use"),
    ],
)
def test_of_a_cluster_the_sentence_speaks_of_workers(found: Profile, words: str) -> None:
    there = replace(found, remote=True, writers=found.jobs)
    assert words in there.bottleneck
    assert "-j" not in there.bottleneck


def test_what_happens_inside_is_not_counted_twice() -> None:
    @timed("encode", len)
    def inner() -> bytes:
        return bytes(sum(range(200_000)) % 7 + 3)

    @timed("order", lambda _: 0)
    def outer() -> bytes:
        return inner()

    outer()
    with Recorder() as recorder:
        outer()
        assert list(timed_items("read", [b"ab", b"c"], len)) == [b"ab", b"c"]
    outer()
    found = {figures.stage: figures for figures in recorder.profile(1, None).stages}
    spans = recorder.profile(1, None).spans
    whole = next(s for s in spans if s.stage == "order")
    assert found["order"].wall == pytest.approx(whole.stop - whole.start - found["encode"].wall)
    assert [s.size for s in spans if s.stage == "read"] == [2, 1, 0]


def asked(flag: str, path: str, *more: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A run over the folder `in` onto `out` that is asked for a profile at `path`."""
    args = ["convert", "in", "out", "--schema", "s.yaml", "--overwrite", "--force", flag, path]
    return tfrec(*args, *more, cwd=cwd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("k,v\n1,x\n2,2\n")
    (tmp_path / "s.yaml").write_text("features: {k: int64}\n")
    (tmp_path / "keep.txt").write_text("mine")
    (tmp_path / "link.json").symlink_to("in/a.csv")
    os.link(tmp_path / "in" / "a.csv", tmp_path / "hard.json")
    assert tfrec("convert", "in", "out", "--schema", "s.yaml", cwd=tmp_path).returncode == 0
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("flag", "path", "words"),
    [
        ("--profile-trace", "in/a.csv", "lies in a source folder"),
        ("--profile-trace", "in/new.json", "lies in a source folder"),
        ("--profile-trace", "link.json", "lies in a source folder"),
        ("--profile-trace", "hard.json", "exists and is no trace"),
        ("--profile-trace", "s.yaml", "exists and is no trace"),
        ("--profile-trace", "keep.txt", "exists and is no trace"),
        ("--profile-trace", "/dev/null", "exists and is no trace"),
        ("--profile-trace", ".", "is a folder. Give a file."),
        ("--profile-trace", "out", "is a folder. Give a file."),
        ("--profile-trace", "out/out-train.tfrecord-00000-of-00001", "lies in DEST"),
        ("--profile-trace", "out/trace.json", "lies in DEST"),
        ("--profile-trace", "no/where.json", "there is no folder for it. Make it first."),
        ("--profile-trace", "keep.txt/t.json", "keep.txt is not a folder"),
        ("--profile-trace", "-", "standard output holds the summary. Give a file."),
        ("--profile-tensorboard", "-", "standard output holds the summary. Give a folder."),
        ("--profile-tensorboard", "keep.txt", "keep.txt is not a folder"),
        ("--profile-tensorboard", "in", "lies in a source folder"),
        ("--profile-tensorboard", "in/board", "lies in a source folder"),
        ("--profile-tensorboard", "out", "lies in DEST"),
        ("--profile-tensorboard", "out/board", "lies in DEST"),
    ],
)
def test_a_profile_that_must_not_be_written_there_is_refused_before_the_work(
    folder: Path, flag: str, path: str, words: str
) -> None:
    before = contents(folder)
    result = asked(flag, path, cwd=folder)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"tfrec: {flag} {path}")
    assert words in line
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("--rejects", "x"), ("--profile-trace", "./x")),
        (("--rejects", "x"), ("--profile-tensorboard", "x/board")),
        (("--profile-trace", "x"), ("--profile-tensorboard", "x")),
    ],
)
def test_two_accounts_in_one_place_are_refused(
    folder: Path, one: tuple[str, str], two: tuple[str, str]
) -> None:
    before = contents(folder)
    result = asked(*one, *two, "--on-error", "skip", cwd=folder)
    assert result.returncode == 2
    line = f"tfrec: {' '.join(two)} and {' '.join(one)} are one place. Choose another for one."
    assert result.stderr.splitlines() == [line]
    assert contents(folder) == before


def test_a_trace_is_not_put_where_dest_will_be(table: Path) -> None:
    for path in ("new", "new/o.tfrecord"):
        result = tfrec("convert", "t.csv", "new/o.tfrecord", "--profile-trace", path, cwd=table)
        assert (result.returncode, "lies in DEST" in result.stderr) == (2, True)
    assert sorted(os.listdir(table)) == ["t.csv"]


def test_a_trace_is_replaced_by_the_next_and_may_lie_beside_dest(folder: Path) -> None:
    (folder / "real.json").touch()
    (folder / "to.json").symlink_to("real.json")
    for _ in range(2):
        result = asked("--profile-trace", "to.json", "--profile-tensorboard", ".", cwd=folder)
        assert result.returncode == 0
    assert json.loads((folder / "real.json").read_text())["traceEvents"]
    assert (folder / "to.json").is_symlink()
    assert not list(folder.glob(".tfrec*"))


def test_a_profile_that_cannot_be_written_after_all_says_that_the_dataset_is_there(
    table: Path,
) -> None:
    for option, path in (("profile_trace", "gone/t.json"), ("profile_tensorboard", "gone/t")):
        given = {"profile": False, "profile_trace": None, "profile_tensorboard": None}
        profiling = Profiling({**given, option: str(table / path)})
        (table / "gone").mkdir()
        options = ConvertOptions((str(table / "t.csv"),), str(table / "out"))
        profiling.check(options)
        with profiling.recording():
            pass
        (table / "gone").rmdir()
        (table / "gone").touch()
        with pytest.raises(DatasetError) as caught:
            profiling.finish(options)
        assert str(caught.value).startswith(f"{table / path} cannot be written: a part of the path")
        assert str(caught.value).endswith("/out is whole: its profile alone is missing.")
        (table / "gone").unlink()
