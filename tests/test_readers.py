"""Many small files are read by shared threads: in order, bounded, and never waiting in a ring."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from tfrec_cli.sources.loading import load_cells
from tfrec_cli.sources.readers import HELPERS, read_each


@pytest.mark.parametrize("count", [0, 1, 2, 31, 33, 500])
def test_results_are_in_the_order_of_the_items(count: int) -> None:
    assert read_each(str, range(count)) == [str(n) for n in range(count)]


def test_several_threads_take_part() -> None:
    together = threading.Barrier(3, timeout=30)
    assert read_each(lambda item: together.wait() >= 0 and item, [1, 2, 3]) == [1, 2, 3]


def test_many_callers_have_a_bounded_number_of_threads(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("y")
    cells = pa.array(["a", "b"] * 20)
    seen: set[int] = set()

    def load(_: int) -> None:
        load_cells(cells, "path", str(tmp_path / "t.csv"))
        seen.add(threading.active_count())

    before = threading.active_count()
    with ThreadPoolExecutor(40) as workers:
        list(workers.map(load, range(400)))
    assert max(seen) <= before + 40 + HELPERS


def test_work_that_asks_for_help_itself_ends() -> None:
    def tree(depth: int) -> int:
        return sum(read_each(tree, [depth - 1] * 4)) if depth else 1

    with ThreadPoolExecutor(30) as workers:
        assert list(workers.map(tree, [4] * 30)) == [4**4] * 30


@pytest.mark.parametrize("kind", [ValueError, IndexError, KeyboardInterrupt])
def test_an_error_of_the_work_is_raised_and_the_rest_left(kind: type[BaseException]) -> None:
    done = []

    def work(item: int) -> None:
        if item == 0:
            raise kind("broken")
        done.append(item)

    with pytest.raises(kind, match="broken"):
        read_each(work, range(100_000))
    assert len(done) < 99_999


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_helpers_of_its_own() -> None:
    read_each(str, range(100))
    child = os.fork()
    if not child:
        os._exit(len(read_each(str, range(100))) != 100)
    assert os.waitpid(child, 0)[1] == 0
