"""The threads engine: results in order whatever finishes first, errors where they stand."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tfrec_cli.engines.threads import ordered_flat_map, ordered_map

JOBS = [1, 2, 7]


def slow_at_first(item: int) -> int:
    """The earlier the item, the longer it takes."""
    time.sleep(max(0, 5 - item) / 500)
    return item * 10


@pytest.mark.parametrize("jobs", JOBS)
def test_results_come_in_the_order_of_the_items(jobs: int) -> None:
    assert list(ordered_map(slow_at_first, range(30), jobs)) == [i * 10 for i in range(30)]


@pytest.mark.parametrize("jobs", JOBS)
def test_parts_come_in_the_order_of_items_and_parts(jobs: int) -> None:
    def expand(item: int) -> Iterator[int]:
        for part in range(item % 4):
            time.sleep(max(0, 3 - item) / 500)
            yield item * 4 + part

    expected = [(i * 4 + p) * 10 for i in range(40) for p in range(i % 4)]
    assert list(ordered_flat_map(expand, slow_at_first, range(40), jobs)) == expected


@pytest.mark.parametrize("jobs", JOBS)
@pytest.mark.parametrize("stage", ["expand", "handle"])
def test_the_first_error_in_order_is_raised_and_what_stands_before_it_is_given(
    jobs: int, stage: str
) -> None:
    def fail(kind: str, item: int) -> None:
        if kind == stage and item in (3, 4, 20):
            time.sleep(0.05 if item == 3 else 0)
            raise ValueError(f"item {item}")

    def expand(item: int) -> Iterator[int]:
        yield item
        fail("expand", item)

    def handle(part: int) -> int:
        fail("handle", part)
        return part

    given: list[int] = []
    results = ordered_flat_map(expand, handle, range(30), jobs)
    with pytest.raises(ValueError, match="item 3"):
        given.extend(results)
    assert given == ([0, 1, 2, 3] if stage == "expand" else [0, 1, 2])


@pytest.mark.parametrize("jobs", [2, 7])
def test_only_a_few_parts_wait_for_a_slow_consumer(jobs: int) -> None:
    made: list[int] = []

    def expand(item: int) -> Iterator[int]:
        for part in range(1000):
            made.append(part)
            yield item

    results = ordered_flat_map(expand, lambda part: part, range(100), jobs)
    next(results)
    time.sleep(0.3)
    assert len(made) < 10 * (jobs + 1)
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("jobs", [2, 7])
def test_a_consumer_that_stops_leaves_no_thread_at_work(jobs: int) -> None:
    before = threading.active_count()

    def expand(item: int) -> Iterator[int]:
        while True:
            yield item

    results = ordered_flat_map(expand, slow_at_first, range(20), jobs)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_one_large_item_is_handled_by_several_workers() -> None:
    seen: set[int] = set()
    met = threading.Barrier(2, timeout=30)

    def handle(part: int) -> int:
        seen.add(threading.get_ident())
        met.wait()
        return part

    assert list(ordered_flat_map(lambda _: range(6), handle, [0], 2)) == list(range(6))
    assert len(seen) == 2
