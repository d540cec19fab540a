"""Shards of a split differ by one record at most, whatever orders, divides or leaves out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import shard_paths

import tfrec_cli
from tfrec_cli.records.framing import read_records

ROWS, LIMIT, SHARDS = 130, 101, 3
ORDERS: dict[str, dict[str, Any]] = {
    "source": {},
    "shuffled": {"shuffle": True, "seed": 5},
    "sorted": {"sort_by": ("name", "id")},
}
FRACTIONS = {"a": 0.6, "b": 0.3, "c": 0.1}
ASKED = "a=0.6,b=0.3,c=0.1"
SPLITS: dict[str, dict[str, Any]] = {
    "no split": {},
    "fractions": {"split": ASKED},
    "exact": {"split": ASKED, "split_exact": True},
    "groups": {"split": ASKED, "split_by": "group"},
    "classes": {"split": ASKED, "stratify": "class"},
    "column": {"split_column": "split"},
}


def is_bad(row: int) -> bool:
    return row % 9 == 4


def cells(row: int) -> list[str]:
    """The id, a name in no order, one of 20 groups, of 2 classes and of 3 splits."""
    group = f"g{row * 7919 % 1009 % 20}"
    return [str(row), f"n{row * 37 % 64}", group, "xy"[row % 5 % 2], "abc"[row % 11 % 3]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources of two files: all rows sound, and some that cannot become records."""
    found = tmp_path_factory.mktemp("exact")
    for name in ("sound", "faulty"):
        (found / name).mkdir()
        lines = [",".join(cells(row)) + "\n" for row in range(ROWS)]
        if name == "faulty":
            lines = [f"bad{line}" if is_bad(row) else line for row, line in enumerate(lines)]
        for file, part in (("1.csv", lines[:90]), ("2.csv", lines[90:])):
            (found / name / file).write_text("id,name,group,class,split\n" + "".join(part))
    (found / "s.yaml").write_text(
        "version: 1\nfeatures: {id: int64, name: bytes, group: bytes, class: bytes, split: bytes}\n"
    )
    return found


@pytest.mark.parametrize("limit", [None, LIMIT], ids=["all", "limit"])
@pytest.mark.parametrize("rows", ["sound", "faulty"])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("order", ORDERS)
def test_shards_are_as_many_as_asked_and_of_one_size(
    folder: Path, tmp_path: Path, order: str, split: str, rows: str, limit: int | None
) -> None:
    given = {"schema": str(folder / "s.yaml"), "fsync": False, "jobs": 1, "limit": limit}
    given |= {"on_error": "skip"} if rows == "faulty" else {}
    dest = tmp_path / "out"
    manifest = tfrec_cli.convert(
        str(folder / rows), str(dest), shards=SHARDS, **given, **ORDERS[order], **SPLITS[split]
    )
    good = [row for row in range(limit or ROWS) if rows == "sound" or not is_bad(row)]
    assert manifest.records == len(good)
    assert {s.name for s in manifest.splits} == (set("abc") if SPLITS[split] else {"train"})
    for each in manifest.splits:
        held = [shard.records for shard in each.shards]
        assert len(held) == SHARDS
        assert max(held) - min(held) <= 1
        assert sum(held) == expected(split, each.name, good, each.records)
    on_disk = {Path(path).name: len(list(read_records(path))) for path in shard_paths(dest)}
    assert on_disk == {shard.name: shard.records for shard in manifest.shards}


def expected(split: str, name: str, good: list[int], found: int) -> int:
    """The records of a split: what was found, where that is by lot or may be rounded either way."""
    if split == "no split":
        return len(good)
    if split == "column":
        return sum(cells(row)[4] == name for row in good)
    if split in ("exact", "classes"):
        classes = 2 if split == "classes" else 1
        assert abs(found - len(good) * FRACTIONS[name]) <= classes
    return found
