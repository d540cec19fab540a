"""The Dask engine with a real scheduler and real workers: the same bytes, and errors that name."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster, cluster
from conftest import EXAMPLES, REPOSITORY, content

import tfrec_cli
from tfrec_cli.engines import opening
from tfrec_cli.engines.opening import open_engine
from tfrec_cli.errors import CellError, EngineError, UsageError

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two workers, elsewhere in the file system."""
    with cluster(tmp_path_factory.mktemp("cluster"), 2) as made:
        yield made


def table(tmp_path: Path, rows: int = 2000) -> str:
    path = tmp_path / "t.csv"
    path.write_text("n,text,c\n" + "".join(f"{n},{'w' * (n % 13)},{n % 4}\n" for n in range(rows)))
    return str(path)


def tfrec(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tfrec_cli", *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | environment,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


ALIKE: list[dict[str, Any]] = [
    {"shards": 3, "index": "dali,tfindex"},
    {"shards": 3, "shuffle": True, "split": "a=0.7,b=0.3", "compression": "gzip"},
    {"shards": 5, "sort_by": "text", "split": "a=0.7,b=0.3", "stratify": "c", "index": "dali"},
]


@pytest.mark.parametrize("options", ALIKE[:2], ids=str)
def test_workers_write_what_threads_write(
    tmp_path: Path, two: Cluster, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Indexes are made where shards are written.
    monkeypatch.delattr("tfrec_cli.dataset.indexes.find_records")
    source = table(tmp_path)
    for engine in ("threads", "dask"):
        where = {"scheduler": two.address} if engine == "dask" else {}
        tfrec_cli.convert(source, tmp_path / engine / "d", engine=engine, **where, **options)  # type: ignore[arg-type]
    assert content(tmp_path / "threads" / "d") == content(tmp_path / "dask" / "d")
    assert [path.name for path in (tmp_path / "dask").iterdir()] == ["d"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_the_number_of_workers_changes_no_byte(tmp_path: Path, workers: int) -> None:
    source = table(tmp_path)
    with cluster(tmp_path / "cluster", workers) as made:
        for number, options in enumerate(ALIKE):
            found = []
            for engine in ("threads", "dask"):
                where = {"scheduler": made.address} if engine == "dask" else {}
                home = tmp_path / engine / f"{number}"
                tfrec_cli.convert(source, home / "d", engine=engine, **where, **options)  # type: ignore[arg-type]
                found.append(content(home / "d"))
            assert found[0] == found[1]


def test_the_command_with_relative_paths_and_a_profile(tmp_path: Path, two: Cluster) -> None:
    table(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tfrec_cli", "convert", "t.csv", "out/d", "--engine", "dask",
         "--scheduler", two.address, "--json", "--profile", "--shards", "2"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["rows"]["written"] == 2000
    stages = {stage["stage"]: stage for stage in document["profile"]["stages"]}
    written = sum(shard["bytes"] for shard in document["splits"][0]["shards"])
    assert stages["write"]["bytes"] == written
    assert stages["encode"]["bytes"] >= written
    assert document["profile"]["jobs"] == 2


def test_errors_are_those_of_threads(tmp_path: Path, two: Cluster) -> None:
    source = table(tmp_path)
    with open(source, "a") as file:
        file.write("wrong,t,1\n")
    schema = {"features": {"n": "int64"}}
    with pytest.raises(CellError, match=r"t.csv, line 2002, column n: .wrong. is not an int64"):
        tfrec_cli.convert(
            source, tmp_path / "d", schema=schema, engine="dask", scheduler=two.address
        )
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_cluster_of_its_own(tmp_path: Path) -> None:
    done = tfrec(
        "convert", EXAMPLES / "penguins.csv", tmp_path / "d", "--engine", "dask", "-j", 2,
        "--shards", 2,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tfrec_cli.convert(str(EXAMPLES / "penguins.csv"), tmp_path / "threads" / "d", shards=2)
    assert content(tmp_path / "d") == content(tmp_path / "threads" / "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "threads"]
    assert done.stderr.startswith("note: ")


def test_a_scheduler_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CONNECT", 1.0)
    with (
        pytest.raises(EngineError, match=r"tcp://127\.0\.0\.1:1: no scheduler answers there"),
        open_engine("dask", "tcp://127.0.0.1:1", 1),
    ):
        pass
    for address in (
        "nonsense",
        "http://x:1",
        "tcp://",
        "tcp://127.0.0.1:99999",
        "tcp://no.such.invalid:1",
        "",
    ):
        with pytest.raises((UsageError, EngineError), match=r"--scheduler \S*:? "):
            tfrec_cli.convert(table(tmp_path), tmp_path / "d", engine="dask", scheduler=address)
    assert not (tmp_path / "d").exists()


ANSWERS = {
    "nothing": b"",
    "HTTP": b"HTTP/1.0 400 Bad request\r\nContent-Length: 0\r\n\r\n",
    "zeros": bytes(64),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_answers_may_be_no_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(opening, "CONNECT", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def answered() -> None:
            held = []
            with suppress(OSError):
                while True:
                    held.append(server.accept()[0])
                    held[-1].sendall(ANSWERS[answer])

        pool.submit(answered)
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(EngineError, match=r"what answers there is no Dask scheduler\. Give"):
            tfrec_cli.convert(table(tmp_path), tmp_path / "d", engine="dask", scheduler=address)
        server.shutdown(socket.SHUT_RDWR)
    assert not (tmp_path / "d").exists()


def test_a_worker_is_no_scheduler(tmp_path: Path, two: Cluster) -> None:
    from distributed import Client

    with Client(two.address, set_as_default=False) as client:
        worker = next(iter(client.scheduler_info()["workers"]))
    with pytest.raises(EngineError, match=r"is no Dask scheduler, but a Worker\. Give"):
        tfrec_cli.convert(table(tmp_path), tmp_path / "d", engine="dask", scheduler=worker)


def test_relative_sources_are_the_same_for_all_engines(
    tmp_path: Path, two: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path)
    monkeypatch.chdir(tmp_path)
    for engine in ("threads", "dask"):
        where = {"scheduler": two.address} if engine == "dask" else {}
        tfrec_cli.convert("t.csv", f"{engine}/d", engine=engine, **where, shuffle=True)  # type: ignore[arg-type]
    assert content(tmp_path / "threads" / "d") == content(tmp_path / "dask" / "d")
    for options in ([], ["--engine", "dask", "--scheduler", two.address]):
        for dest in ("threads/d", "dask/d"):
            done = tfrec("convert", "t.csv", dest, "--shuffle", *options)
            assert (done.returncode, "up to date" in done.stdout) == (0, True), done


def test_a_scheduler_without_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "WORKER", 0.5)
    monkeypatch.setattr(opening, "TOLD", 0.5)
    told: list[str] = []
    with cluster(tmp_path, 0) as empty:
        began = time.monotonic()
        with (
            pytest.raises(EngineError, match="no worker has joined it"),
            open_engine("dask", empty.address, 1, told.append),
        ):
            pass
        assert len(told) == 1
        assert told[0].startswith("waiting up to")
        assert empty.address in told[0]
        assert time.monotonic() - began < 60


def other_version(folder: Path) -> dict[str, str]:
    """The environment of a worker whose tfrec has another version."""
    shutil.copytree(REPOSITORY / "tfrec_cli", folder / "tfrec_cli")
    module = folder / "tfrec_cli" / "__init__.py"
    text, count = re.subn(r'__version__ = "[^"]+"', '__version__ = "0.0.9"', module.read_text())
    assert count == 1
    module.write_text(text)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.slow
def test_workers_of_other_versions_are_named(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster", 1) as one:
        one.join(environment=other_version(tmp_path / "old"))
        one.wait(2)
        done = tfrec(
            "convert", table(tmp_path), tmp_path / "d", "--engine", "dask", "--scheduler",
            one.address,
        )  # fmt: skip
    assert done.returncode == 1
    here = tfrec_cli.__version__
    assert re.search(rf"^tfrec: worker tcp://\S+ has tfrec 0.0.9 \(here {here}\)\.", done.stderr)
    assert done.stderr.count("worker tcp") == done.stderr.count("\n") == 1
    assert not (tmp_path / "d").exists()


@pytest.mark.slow
def test_late_workers_of_other_versions_get_no_work(tmp_path: Path) -> None:
    from tfrec_cli.cluster.probes import require_versions
    from tfrec_cli.options import Compression

    environment = other_version(tmp_path / "old")
    with (
        cluster(tmp_path / "cluster", 1) as one,
        open_engine("dask", one.address, 1) as engine,
    ):
        require_versions(engine, Compression())
        one.join(environment=environment)
        one.wait(2)
        assert list(engine.map(time.sleep, [0.1] * 40)) == [None] * 40
        assert len(engine.notices) == 1
        assert re.search(r"^worker tcp://\S+ was not used: it has tfrec 0.0.9", engine.notices[0])


def without_tfrec(folder: Path) -> dict[str, str]:
    """The environment of a process that has no tfrec."""
    folder.mkdir()
    told = "No module named 'tfrec_cli'"
    (folder / "tfrec_cli.py").write_text(f'raise ModuleNotFoundError("{told}", name="tfrec_cli")\n')
    return {"PYTHONPATH": str(folder)}


@pytest.mark.slow
def test_workers_without_tfrec_are_named_and_late_ones_get_no_work(tmp_path: Path) -> None:
    from tfrec_cli.cluster.probes import require_versions
    from tfrec_cli.options import Compression

    told = r"has no tfrec, or another one \(install there what is installed here\)"
    with (
        cluster(tmp_path / "cluster", 1) as one,
        open_engine("dask", one.address, 1) as engine,
    ):
        require_versions(engine, Compression())
        late = one.join(environment=without_tfrec(tmp_path / "bare"))
        one.wait(2)
        assert list(engine.map(time.sleep, [0.1] * 40)) == [None] * 40
        (notice,) = engine.notices
        assert re.fullmatch(rf"worker tcp://\S+ was not used: it {told}", notice)
        # It is none the worse for that.
        assert late.poll() is None
        with pytest.raises(EngineError, match=rf"^worker tcp://\S+ {told}\. Mend or stop"):
            tfrec_cli.convert(table(tmp_path), tmp_path / "d", engine="dask", scheduler=one.address)


@pytest.mark.slow
def test_a_scheduler_needs_no_tfrec(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster", 0, without_tfrec(tmp_path / "bare")) as made:
        made.join()
        made.wait(1)
        where = {"engine": "dask", "scheduler": made.address}
        how: dict[str, Any] = {"shards": 2, "shuffle": True, "name": "d"}
        source = table(tmp_path)
        tfrec_cli.convert(source, tmp_path / "d", **how, **where)
    tfrec_cli.convert(source, tmp_path / "threads", **how)
    assert content(tmp_path / "d") == content(tmp_path / "threads")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        ("source", r"cannot read \S+/source/t.csv \(No such file or directory\), a source"),
        ("out", r"does not see \S+/work \(No such file or directory\), where DEST is written"),
        ("temp", r"does not see \S+ \(No such file or directory\), --temp-dir"),
    ],
)
def test_workers_that_do_not_see_the_storage_are_named(
    tmp_path: Path, hidden: str, words: str
) -> None:
    unshare = ["unshare", "-m", "sh", "-c"]
    if subprocess.run([*unshare, "mount -t tmpfs none /mnt"], check=False).returncode:
        pytest.skip("no rights to hide a folder from a process")
    for name in ("source", "out", "temp"):
        (tmp_path / name).mkdir()
    with cluster(tmp_path / "cluster", 1) as one:
        before = [*unshare, f'mount -t tmpfs none {tmp_path / hidden} && exec "$@"', "sh"]
        one.join(before=before)
        one.wait(2)
        done = tfrec(
            "convert", table(tmp_path / "source"), tmp_path / "out" / "d", "--engine", "dask",
            "--scheduler", one.address, "--temp-dir", tmp_path / "temp", "--shuffle",
        )  # fmt: skip
    assert done.returncode == 1
    assert re.search(rf"^tfrec: worker tcp://\S+ {words}\. Mend or stop", done.stderr), done.stderr
    assert done.stderr.count("worker tcp") == 1
    assert not list((tmp_path / "out").iterdir())
    assert not list((tmp_path / "temp").iterdir())
