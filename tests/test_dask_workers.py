"""Tasks whose workers fail or die: others do them, in bounded tries, and nothing waits for ever."""

from __future__ import annotations

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from clusters import cluster, kill, wait_for

from tfrec_cli.engines.opening import open_engine
from tfrec_cli.errors import EngineError

pytest.importorskip("distributed")

import troubles

FOUR_DIED = r"^1: 4 workers that had it in hand died, at last tcp://\S+\. It may need more memory"


@pytest.mark.slow
@pytest.mark.parametrize("nanny", [False, True], ids=["another joins", "its nanny starts another"])
def test_a_task_that_some_have_failed_outlives_all_others(tmp_path: Path, nanny: bool) -> None:
    with cluster(tmp_path / "cluster", 1) as made, ThreadPoolExecutor(1) as pool:
        made.join(nanny=nanny)
        made.wait(2)
        second = made.pid("w1")
        with open_engine("dask", made.address, 1) as engine:
            work = partial(troubles.full, str(tmp_path))
            found = pool.submit(lambda: list(engine.map(work, range(4))))
            wait_for(lambda: (tmp_path / "failed").exists() and (tmp_path / "begun").exists())
            time.sleep(2)  # Until what has failed is sent to the other one.
            (tmp_path / "begun").unlink()
            os.kill(second, signal.SIGKILL)
            if not nanny:
                made.join()
            wait_for((tmp_path / "begun").exists)
            (tmp_path / "go").touch()
            assert found.result(120) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_task_that_all_have_failed_fails_once_no_other_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfrec_cli.engines import workers

    monkeypatch.setattr(workers, "JOINING", 5.0)
    with (
        cluster(tmp_path / "cluster", 2) as made,
        ThreadPoolExecutor(1) as pool,
        open_engine("dask", made.address, 1) as engine,
    ):
        work = partial(troubles.full, str(tmp_path))
        found = pool.submit(lambda: list(engine.map(work, range(4))))
        wait_for(lambda: (tmp_path / "failed").exists() and (tmp_path / "begun").exists())
        kill(made.workers[1])
        with pytest.raises(EngineError, match=r", on worker tcp://.*No space left on device"):
            found.result(120)


@pytest.mark.slow
@pytest.mark.parametrize("allowed", ["0", "3"])
def test_a_task_that_kills_its_workers_kills_four_and_fails(
    tmp_path: Path, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client

    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", allowed)
    with cluster(tmp_path / "cluster", 0) as made:
        for _ in range(2):
            made.join(nanny=True)
        made.wait(2)
        with (
            open_engine("dask", made.address, 1) as engine,
            pytest.raises(EngineError, match=FOUR_DIED),
        ):
            list(engine.map(os._exit, [1]))
        # What a scheduler allows to others stays as it was.
        with Client(made.address, set_as_default=False) as client:
            bears = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.allowed_failures)
        assert bears == int(allowed)
        assert killed(made.folder) == 4


@pytest.mark.slow
def test_deaths_are_counted_too_where_few_workers_may_have_the_task(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster", 1) as made:
        made.join(nanny=True)
        made.wait(2)
        with (
            open_engine("dask", made.address, 1) as engine,
            pytest.raises(EngineError, match=r"workers that had it in hand died, at last tcp://"),
        ):
            list(engine.map(partial(troubles.deadly, str(tmp_path)), range(3)))
        assert 2 <= killed(made.folder) <= 6


@pytest.mark.slow
def test_a_worker_that_dies_while_it_is_asked_ends_nothing(tmp_path: Path) -> None:
    for number in range(3):
        with (
            cluster(tmp_path / str(number), 2) as made,
            open_engine("dask", made.address, 1) as engine,
        ):
            engine.require(troubles.deadly_on_w0)
            assert list(engine.map(abs, [-1, -2])) == [1, 2]
            assert engine.notices == []


@pytest.mark.slow
def test_what_cannot_be_reached_is_asked_again_and_then_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that takes no connections any more, though the scheduler knows it."""
    from tfrec_cli.engines import workers

    monkeypatch.setattr(workers, "AGAIN", (0.1, 0.1))
    with cluster(tmp_path / "cluster", 2) as made, open_engine("dask", made.address, 1) as engine:
        engine.require(partial(troubles.deaf_on_w0, str(tmp_path)))
        assert list(engine.map(abs, [-1, -2])) == [1, 2]
        (notice,) = engine.notices
        assert re.match(r"worker tcp://\S+ was not used: it could not be reached \(", notice)
        assert len((tmp_path / "asked").read_text()) == 3


@pytest.mark.slow
def test_a_worker_that_is_stopped_is_gone_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfrec_cli.engines import workers

    monkeypatch.setattr(workers, "SILENCE", 8.0)
    told = list[str]()
    with cluster(tmp_path / "cluster", 2) as made:
        os.kill(made.workers[0].pid, signal.SIGSTOP)
        time.sleep(1)
        began = time.monotonic()
        with open_engine("dask", made.address, 1, told.append) as engine:
            engine.require(troubles.passed)
            engine.require(troubles.passed)
            assert list(engine.map(abs, range(-9, 0))) == list(range(9, 0, -1))
        assert time.monotonic() - began < 30
        os.kill(made.workers[0].pid, signal.SIGCONT)
    assert len(told) == 1
    assert re.match(r"waiting for worker tcp://\S+ to answer", told[0])
    (notice,) = engine.notices
    assert re.match(r"worker tcp://\S+ was not used: it has not answered for 8 s", notice)


def killed(folder: Path) -> int:
    """The workers that nannies saw die."""
    return (folder / "log").read_text().count("Worker process")
