"""The tasks of a cluster write what threads write, to the byte, however they are cut."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES, content, csv_files

import tfrec_cli
from tfrec_cli import conversion
from tfrec_cli.cluster import layout
from tfrec_cli.cluster.layout import Layout
from tfrec_cli.cluster.ledger import Ledger, Left, settled_layout
from tfrec_cli.cluster.shared import share
from tfrec_cli.engines.threads import Threads
from tfrec_cli.errors import CellError, DatasetError, EngineError, TfrecError, UsageError
from tfrec_cli.receipts import Receipts
from tfrec_cli.shuffle.spills import index_path


class Elsewhere(Threads):
    """Threads that get nothing but pickles, and do each task twice, as a cluster may."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self.remote = True

    def map(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], wanted: str | None = None
    ) -> Iterator[Any]:
        sent = pickle.dumps(function)

        def run(task: bytes) -> bytes:
            pickle.loads(sent)(pickle.loads(task))
            return pickle.dumps(pickle.loads(sent)(pickle.loads(task)))

        for receipt in super().map(run, map(pickle.dumps, tasks)):
            assert len(receipt) < 200_000
            yield pickle.loads(receipt)

    def require(self, check: Callable[[], str | None]) -> None:
        if (wrong := pickle.loads(pickle.dumps(check))()) is not None:
            raise EngineError(wrong)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """`engine="dask"` is the engine above."""
    real = conversion.open_engine

    @contextmanager
    def opened(name: Any, scheduler: str | None, jobs: int, _: Any) -> Iterator[Any]:
        if name == "threads":
            with real(name, scheduler, jobs) as engine:
                yield engine
        else:
            yield Elsewhere(jobs)

    monkeypatch.setattr(conversion, "open_engine", opened)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of a few records, and a merge pass as soon as there are a few runs."""
    monkeypatch.setattr(layout, "LEAST_PER_TASK", 2000)
    monkeypatch.setattr(layout, "MOST_PER_TASK", 4000)
    monkeypatch.setattr(layout, "MOST_ENTRIES", 60)


def same(tmp_path: Path, source: Any, **options: Any) -> None:
    """Threads and the cluster write the same dataset, and nothing else."""
    found = []
    for engine in ("threads", "dask"):
        home = tmp_path / engine
        manifest = tfrec_cli.convert(source, home / "d", engine=engine, jobs=2, **options)  # type: ignore[arg-type]
        found.append((content(home / "d"), (home / "d" / "manifest.json").read_bytes(), manifest))
        assert [path.name for path in home.iterdir()] == ["d"]
    assert found[0] == found[1]


ORDERS: list[dict[str, Any]] = [
    {},
    {"shards": 5},
    {"shards": 5, "compression": "gzip"},
    {"shards": 3, "compression": "zlib:1", "limit": 700},
    {"shards": 30, "limit": 20},
    {"shuffle": True, "shards": 4},
    {"shuffle": True, "shards": 4, "memory": "30kB", "compression": "gzip"},
    {"sort_by": ("c", "text"), "shards": 3},
    {"split": "a=0.7,b=0.3", "shards": 3},
    {"split": "a=0.7,b=0.3", "split_exact": True, "shards": 2},
    {"split": "a=0.6,b=0.4", "split_by": "c"},
    {"split": "a=0.6,b=0.4", "stratify": "c", "shards": 7},
    {"split_column": "c", "shards": 2},
    {"shuffle": True, "stratify": "c", "split": "a=0.6,b=0.4", "compression": "gzip"},
    {"shuffle": True, "key": "n", "split": "a=0.5,b=0.5", "shards": 3},
]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_a_cluster_writes_what_threads_write(tmp_path: Path, options: dict[str, Any]) -> None:
    same(tmp_path, csv_files(tmp_path), **options)


@pytest.mark.usefixtures("elsewhere", "small")
@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_small_tasks_write_the_same(tmp_path: Path, options: dict[str, Any]) -> None:
    same(tmp_path, csv_files(tmp_path), **options)


@pytest.mark.usefixtures("elsewhere", "small")
@pytest.mark.parametrize(
    "options",
    [{}, {"shuffle": True}, {"limit": 333}, {"split": "a=0.5,b=0.5"}, {"sort_by": "c"}],
    ids=str,
)
def test_rows_in_error_are_left_out_alike(tmp_path: Path, options: dict[str, Any]) -> None:
    rows = "".join(f"{'x' if n % 10 == 3 or 150 < n < 190 else n},{n % 3}\n" for n in range(500))
    (tmp_path / "bad.csv").write_text("n,c\n" + rows)
    schema = {"features": {"n": "int64"}}
    source = str(tmp_path / "bad.csv")
    same(tmp_path, source, schema=schema, on_error="skip", shards=7, **options)


@pytest.mark.usefixtures("elsewhere", "small")
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"split": "a=0.5,b=0.5"}], ids=str)
def test_images_boxes_and_named_files_are_written_alike(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    same(tmp_path / "images", str(EXAMPLES / "digits"), shards=3, **options)
    shapes = [str(EXAMPLES / "shapes" / name) for name in ("boxes.csv", "pictures")]
    same(tmp_path / "boxes", shapes, adapter="boxes", shards=2, **options)
    pictures = sorted((EXAMPLES / "digits").glob("*/*.png"))[:40]
    shutil.copytree(EXAMPLES / "digits", tmp_path / "digits")
    names = [str(path.relative_to(EXAMPLES)) for path in pictures]
    (tmp_path / "named.csv").write_text("path\n" + "".join(f"{name}\n" for name in names))
    schema = {"features": {"image": {"column": "path", "load": "file"}}}
    same(tmp_path / "named", str(tmp_path / "named.csv"), schema=schema, shards=3, **options)


@pytest.mark.usefixtures("elsewhere")
def test_folders_that_name_splits(tmp_path: Path) -> None:
    for split, digits in (("train", "01"), ("test", "23")):
        for digit in digits:
            shutil.copytree(EXAMPLES / "digits" / digit, tmp_path / "in" / split / digit)
    for number, options in enumerate(({}, {"shuffle": True})):
        same(tmp_path / f"{number}", str(tmp_path / "in"), shards=2, **options)


@pytest.mark.usefixtures("elsewhere")
def test_tables_in_memory_travel(tmp_path: Path) -> None:
    import pandas as pd
    import pyarrow as pa

    frame = pd.DataFrame({"n": range(100), "t": [f"{n}" for n in range(100)]})
    same(tmp_path / "frame", frame, shards=3)
    reader = pa.Table.from_pandas(frame).to_reader
    for engine in ("threads", "dask"):
        tfrec_cli.convert(reader(), tmp_path / engine / "d", engine=engine, shuffle=True)  # type: ignore[arg-type]
    assert content(tmp_path / "threads" / "d") == content(tmp_path / "dask" / "d")


@pytest.mark.usefixtures("elsewhere")
def test_one_file(tmp_path: Path) -> None:
    for engine in ("threads", "dask"):
        dest = tmp_path / f"{engine}.tfrecord.gz"
        tfrec_cli.convert(csv_files(tmp_path), dest, name="d", engine=engine, shuffle=True)  # type: ignore[arg-type]
    assert (tmp_path / "threads.tfrecord.gz").read_bytes() == (
        tmp_path / "dask.tfrecord.gz"
    ).read_bytes()


@pytest.mark.usefixtures("elsewhere", "small")
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"split": "a=0.5,b=0.5"}], ids=str)
def test_the_first_error_of_the_source_is_raised_and_nothing_is_left(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    paths = csv_files(tmp_path)
    for path, row in ((paths[1], 20), (paths[2], 3)):
        lines = Path(path).read_text().splitlines()
        lines[row] = f"wrong{row},t,1"
        Path(path).write_text("\n".join(lines) + "\n")
    schema = {"features": {"n": "int64", "text": "bytes"}}
    with pytest.raises(CellError, match=r"part-1.csv, line 21, column n: .wrong20"):
        tfrec_cli.convert(paths, tmp_path / "d", schema=schema, engine="dask", shards=9, **options)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["part-0.csv", "part-1.csv", "part-2.csv"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dest": "-", "engine": "dask"}, "DEST is -"),
        ({"scheduler": "tcp://127.0.0.1:1"}, "only --engine dask has a scheduler"),
        ({"engine": "spark"}, "choose threads or dask"),
    ],
    ids=str,
)
def test_options_that_exclude_each_other(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    given = {"dest": str(tmp_path / "d")} | options
    with pytest.raises(UsageError, match=words):
        tfrec_cli.convert(csv_files(tmp_path), **given)


def test_a_missing_dask_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'tfrec-cli\[dask\]'"):
        tfrec_cli.convert(csv_files(tmp_path), tmp_path / "d", engine="dask")
    assert not (tmp_path / "d").exists()
    assert issubclass(UsageError, TfrecError)


def test_only_what_a_run_has_shared_is_loaded(tmp_path: Path) -> None:
    shared = share(tmp_path, {"a": 1})
    assert pickle.loads(pickle.dumps(shared)).load() == {"a": 1}
    other = share(tmp_path, {"a": 2})
    planted = f"c__builtin__\nopen\n(V{tmp_path}/planted\nVw\ntR."
    for bad in (planted.encode(), Path(other.path).read_bytes()[:-1], b""):
        Path(other.path).write_bytes(bad)
        with pytest.raises(DatasetError, match="not what this run wrote there"):
            other.load()
    assert not (tmp_path / "planted").exists()
    # So it would have run.
    pickle.loads(planted.encode()).close()
    assert (tmp_path / "planted").exists()


LAYOUT = Layout(lot=1, run=2, segment=3, most=4)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """One that knows of a run."""
    path = tmp_path / "run-1"
    path.write_bytes(b"some records")
    Path(index_path(str(path))).write_bytes(b"an index")
    made = Ledger(str(tmp_path / "receipts"), LAYOUT)
    made.leave("map-1", [str(path)])
    made.leave_pass(0, ["map-1"], ())
    return made


@pytest.mark.parametrize("name", ["run-1", "run-1.index"])
def test_a_run_is_held_to_its_bytes(tmp_path: Path, ledger: Ledger, name: str) -> None:
    assert ledger.runs("map-1") == Left((str(tmp_path / "run-1"),), ())
    right = (tmp_path / name).read_bytes()
    for wrong in (right[:-1], right + b"x", bytes([right[0] ^ 1]) + right[1:]):
        (tmp_path / name).write_bytes(wrong)
        assert ledger.runs("map-1") is None
    (tmp_path / name).write_bytes(right)
    assert ledger.runs("map-1") is not None
    (tmp_path / name).unlink()
    assert ledger.runs("map-1") is None


@pytest.mark.parametrize(
    "receipt",
    [{}, {"runs": 1, "files": []}, {"runs": [["run-1"]], "files": []}, {"runs": []},
     {"runs": [[1, "x", None]], "files": []}, {"runs": [], "files": [[1, 2, 3, 4, 5, 6]]}],
    ids=str,
)  # fmt: skip
def test_a_receipt_that_says_something_else_is_none(
    tmp_path: Path, ledger: Ledger, receipt: dict[str, Any]
) -> None:
    receipts = Receipts(tmp_path / "receipts")
    for kept in (receipt, {"cut": [2, 3, 4], **receipt}):
        receipts.leave("map-1", kept)
        assert ledger.runs("map-1") is None
        receipts.leave("pass-0", kept)
        assert ledger.passed(0) is None
        receipts.leave("layout", kept)
        assert settled_layout(str(tmp_path / "receipts"), LAYOUT) == LAYOUT


def test_runs_that_were_cut_in_another_way_are_not_taken(tmp_path: Path, ledger: Ledger) -> None:
    folder = str(tmp_path / "receipts")
    assert ledger.passed(0) == (("map-1",), ())
    other = Ledger(folder, replace(LAYOUT, segment=5))
    assert (other.runs("map-1"), other.passed(0), other.knows("map-1")) == (None, None, False)
    # The layout is that of the run that began, but for its lots.
    assert settled_layout(folder, LAYOUT) == LAYOUT
    assert settled_layout(folder, Layout(9, 9, 9, 9)) == replace(LAYOUT, lot=9)
