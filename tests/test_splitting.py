"""Which split a row belongs to: what each form promises, and what is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import EXAMPLES, read_manifest
from hypothesis import given
from hypothesis import strategies as st

import tfrec_cli
from tfrec_cli.cli import main
from tfrec_cli.cli.order import split_classes
from tfrec_cli.dataset.manifest import load_manifest
from tfrec_cli.errors import CellError, DatasetError, SourceError, UsageError
from tfrec_cli.options import ConvertOptions
from tfrec_cli.records.framing import read_records
from tfrec_cli.rowrules import arrange
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.schema.grammar import TextRules
from tfrec_cli.sources.base import Column, Survey
from tfrec_cli.splitting.asked import RULES, parse_splits
from tfrec_cli.splitting.quota import HashFile, repeated, shares, thresholds

THREE = "train=0.8,validation=0.1,test=0.1"


def table(path: Path, rows: Sequence[int]) -> str:
    """A CSV file with an id, a group of about seven rows, and one of three classes, a row each."""
    lines = (f"{row},g{row * 7919 % 1009 % 60},{'abc'[row % 11 % 3]}\n" for row in rows)
    path.write_text("id,group,class\n" + "".join(lines))
    return str(path)


def found(dest: Path) -> dict[str, list[bytes]]:
    """The records of each split, in order."""
    splits = read_manifest(dest)["splits"]
    return {
        split["name"]: [r for shard in split["shards"] for r in read_records(dest / shard["name"])]
        for split in splits
    }


def split_of(dest: Path) -> dict[bytes, str]:
    """The split of each record."""
    return {record: name for name, records in found(dest).items() for record in records}


def convert(source: Any, dest: Path, **options: Any) -> dict[bytes, str]:
    tfrec_cli.convert(source, str(dest), **options)
    return split_of(dest)


@pytest.mark.parametrize("jobs", [1, 7])
def test_fractions_divide_all_rows_and_keep_their_order(tmp_path: Path, jobs: int) -> None:
    source = table(tmp_path / "a.csv", range(3000))
    tfrec_cli.convert(source, str(tmp_path / "plain"))
    order = found(tmp_path / "plain")["train"]
    manifest = tfrec_cli.convert(source, str(tmp_path / "out"), split=THREE, jobs=jobs, shards=2)
    assert [split.name for split in manifest.splits] == ["train", "validation", "test"]
    assert [split.asked for split in manifest.splits] == [0.8, 0.1, 0.1]
    records = found(tmp_path / "out")
    assert sorted(r for found_ in records.values() for r in found_) == sorted(order)
    for name, share in (("train", 0.8), ("validation", 0.1), ("test", 0.1)):
        assert len(records[name]) == pytest.approx(3000 * share, abs=4 * (3000 * 0.16) ** 0.5)
        assert records[name] == [record for record in order if record in set(records[name])]


def test_rows_and_files_that_are_added_move_no_old_row(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    table(tmp_path / "in" / "b.csv", range(1000))
    before = convert(str(tmp_path / "in"), tmp_path / "before", split=THREE)
    table(tmp_path / "in" / "b.csv", range(1700))
    table(tmp_path / "in" / "a.csv", range(5000, 5300))
    after = convert(str(tmp_path / "in"), tmp_path / "after", split=THREE)
    assert len(after) == 2000
    assert {record: after[record] for record in before} == before
    assert set(Counter(after.values())) == {"train", "validation", "test"}


@pytest.mark.parametrize("form", ["folder", "folder/", "./folder", "folder/*.csv", "files"])
def test_a_row_is_known_by_its_path_within_the_source(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("a.csv", "b.csv"):
        table(tmp_path / "folder" / name, range(500) if name == "a.csv" else range(500, 900))
    expected = convert(str(tmp_path / "folder"), tmp_path / "one", split=THREE)
    monkeypatch.chdir(tmp_path)
    source = ["folder/a.csv", "folder/b.csv"] if form == "files" else form
    assert convert(source, tmp_path / "two", split=THREE) == expected


def test_files_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    for folder, rows in (("x", range(2000)), ("y", range(2000, 4000))):
        (tmp_path / folder).mkdir()
        table(tmp_path / folder / "data.csv", rows)
    sources = [str(tmp_path / folder / "data.csv") for folder in "xy"]
    records = found_split_numbers(tmp_path, sources)
    assert 0.5 < np.mean(records[:2000] == records[2000:]) < 0.8
    alone = found_split_numbers(tmp_path, sources[:1])
    assert (alone == records[:2000]).all()


def grow(top: Path, names: Sequence[str]) -> None:
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            first = 1000 * len(list(top.rglob("*.csv")))
            table(path, range(first, first + 150))


OLD = ("x/b/a.csv", "x/d/a.csv", "x/d/e.csv")


@pytest.mark.parametrize(
    ("before", "after", "old", "new"),
    [
        (["x/*/a.csv"], ["x/*/a.csv"], OLD[:2], ["x/c/a.csv", "x/e/a.csv"]),
        (["x/*/a.csv"], ["x/*/a.csv"], OLD[:1], ["x/c/a.csv"]),
        (["x/*/*.csv"], ["x/*/*.csv"], OLD, ["x/c/a.csv", "x/d/f.csv", "x/e/a.csv"]),
        (["x/*"], ["x/*"], OLD[:2], ["x/c/a.csv", "x/e/a.csv", "x/e/0.csv"]),
        (["x"], ["x"], OLD, ["x/a.csv", "x/a/a.csv", "x/d/a/a.csv"]),
        (["x"], ["x", "y"], OLD, ["y/b/a.csv", "y/d/e.csv", "x/a/a.csv"]),
        (["x"], ["x", "w", "y"], OLD, ["y/b/a.csv", "w/b/a.csv"]),
        (["x/d/*.csv"], ["x/d/*.csv", "y/*/*.csv"], OLD[1:], ["x/d/b.csv", "y/d/a.csv"]),
        (["x/d/a.csv"], ["x/d/a.csv", "a.csv"], OLD[1:2], ["a.csv"]),
    ],
)  # fmt: skip
def test_files_that_are_added_move_no_old_row(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: list[str],
    after: list[str],
    old: Sequence[str],
    new: list[str],
) -> None:
    def run(sources: list[str], dest: str) -> dict[bytes, str]:
        quoted = convert(sources, tmp_path / f"{dest}q", split=THREE)
        names = [name for source in sources for name in sorted(glob(source))]
        assert convert(names, tmp_path / f"{dest}s", split=THREE) == quoted
        return quoted

    monkeypatch.chdir(tmp_path)
    grow(tmp_path, old)
    first = run(before, "o1")
    grow(tmp_path, new)
    second = run(after, "o2")
    assert len(first) < len(second)
    assert {record: second[record] for record in first} == first


def test_a_file_put_before_moves_only_the_one_that_was_called_so(tmp_path: Path) -> None:
    grow(tmp_path, OLD)
    old = [str(tmp_path / name) for name in OLD]
    first = convert(old, tmp_path / "o1", split=THREE)
    grow(tmp_path, ["x/a/a.csv"])
    second = convert([str(tmp_path / "x/a/a.csv"), *old], tmp_path / "o2", split=THREE)
    assert 0 < sum(second[record] != first[record] for record in first) < 100


def test_a_folder_of_images_put_before_moves_only_names_it_has(tmp_path: Path) -> None:
    for number, path in enumerate(sorted((EXAMPLES / "digits").rglob("*.png"))):
        copy = tmp_path / ("old" if number % 2 else "new") / path.parent.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    first = convert(str(tmp_path / "old"), tmp_path / "o1", split=THREE)
    sources = [str(tmp_path / "new"), str(tmp_path / "old")]
    second = convert(sources, tmp_path / "o2", split=THREE)
    assert len(first) < len(second)
    assert {record: second[record] for record in first} == first


def test_images_named_one_by_one_are_told_apart(tmp_path: Path) -> None:
    paths = sorted((EXAMPLES / "digits").rglob("*.png"))
    sources = []
    for number in range(60):
        copy = tmp_path / f"{number:02}" / "a.png"
        copy.parent.mkdir()
        copy.write_bytes(paths[number % len(paths)].read_bytes())
        sources.append(str(copy))
    manifest = tfrec_cli.convert(sources, str(tmp_path / "out"), **HALVES)
    assert {split.records > 15 for split in manifest.splits} == {True}


def test_only_copies_are_known_by_their_names_within_a_spool(tmp_path: Path) -> None:
    expected = None
    for folder in ("in", "tfrec-in", "tfrec-a/b"):
        grow(tmp_path / folder, ["c/a.csv", "d/a.csv"])
        splits = convert(str(tmp_path / folder), tmp_path / f"o{len(folder)}", split=THREE)
        expected = expected or splits
        assert splits == expected


def found_split_numbers(tmp_path: Path, sources: list[str]) -> np.ndarray:
    dest = tmp_path / f"out{len(sources)}"
    splits = convert(sources, dest, split=THREE)
    tfrec_cli.convert(sources, str(tmp_path / f"plain{len(sources)}"))
    order = found(tmp_path / f"plain{len(sources)}")["train"]
    return np.array([splits[record] for record in order])


def test_the_shuffle_seed_moves_no_row_between_splits_and_the_split_seed_does(
    tmp_path: Path,
) -> None:
    source = table(tmp_path / "a.csv", range(1000))
    plain = convert(source, tmp_path / "o0", split=THREE)
    for seed in (1, 2):
        assert convert(source, tmp_path / f"o{seed}", split=THREE, shuffle=True, seed=seed) == plain
    other = convert(source, tmp_path / "o3", split=THREE, split_seed=1)
    assert 0.2 < np.mean([other[record] != plain[record] for record in plain]) < 0.5


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_exact_fractions_hold_to_one_record(tmp_path: Path, rows: int) -> None:
    source = table(tmp_path / "a.csv", range(rows))
    manifest = tfrec_cli.convert(source, str(tmp_path / "out"), split=THREE, split_exact=True)
    for split in manifest.splits:
        assert split.asked is not None
        assert abs(split.records - split.asked * rows) < 1
    assert sum(map(len, found(tmp_path / "out").values())) == rows


def test_groups_never_straddle(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", range(3000))
    splits = convert(source, tmp_path / "out", split="a=0.5,b=0.5", split_by="group")
    groups: dict[bytes, set[str]] = {}
    for record, split in splits.items():
        word = re.search(rb"(?<![a-z])g\d+", record)
        assert word
        groups.setdefault(word[0], set()).add(split)
    assert len(groups) == 60
    assert {len(found) for found in groups.values()} == {1}
    assert Counter(split for found in groups.values() for split in found)["a"] in range(18, 43)


def test_a_group_is_its_value_whatever_the_format(tmp_path: Path) -> None:
    column = [row % 50 for row in range(600)]
    (tmp_path / "a.csv").write_text("g\n" + "".join(f"{g}\n" for g in column))
    pq.write_table(pa.table({"g": pa.array(column, pa.int16())}), tmp_path / "b.parquet")
    options = {"split": "a=0.5,b=0.5", "split_by": "g"}
    first, second = (
        convert(str(tmp_path / name), tmp_path / name[0], **options)
        for name in ("a.csv", "b.parquet")
    )
    assert first == second


NUMBERS = ["17", " 17", "17.0", "017", "+17", "17."]
HALVES = {"split": "a=0.5,b=0.5"}


def groups_of(tmp_path: Path, cells: Sequence[str], **options: Any) -> list[tuple[str, ...]]:
    """The splits that rows with each of these cells in the column `g` go to, 40 groups of them."""
    paths = []
    for number, cell in enumerate(cells):
        paths.append(tmp_path / f"{number}.csv")
        rows = (f"{cell.replace('17', str(100 + at))},r{at}f{number}\n" for at in range(40))
        paths[-1].write_text("g,x\n" + "".join(rows))
    splits = convert([str(path) for path in paths], tmp_path / "out", **options)
    words = {re.search(rb"r\d+f\d+", record)[0].decode(): s for record, s in splits.items()}  # type: ignore[index]
    return [tuple(words[f"r{at}f{n}"] for n in range(len(cells))) for at in range(40)]


@pytest.mark.parametrize(
    ("kind", "cells"), [(None, ["17", "17.0", " 17"]), ("int64", NUMBERS), ("float", NUMBERS)]
)
@pytest.mark.parametrize("feature", [True, False])
def test_a_group_of_numbers_is_one_however_they_are_written(
    tmp_path: Path, kind: str | None, cells: list[str], feature: bool
) -> None:
    cells = cells if feature else ["17", "17.0", " 17"]
    features = {"g": kind or "float", "x": "bytes"} if feature else {"x": "bytes"}
    options = {"schema": {"features": features}} if kind or not feature else {}
    groups = groups_of(tmp_path, cells, split_by="g", **options, **HALVES)
    assert {len(set(group)) for group in groups} == {1}
    assert len(set(groups)) == 2


def test_a_group_of_text_is_what_is_written_with_the_lot_of_the_number_that_it_is(
    tmp_path: Path,
) -> None:
    schema = {"features": {"g": "bytes", "x": "bytes"}}
    groups = groups_of(
        tmp_path, ["17", "17.0", "017", "g17"], split_by="g", schema=schema, **HALVES
    )
    assert {len(set(group[:2])) for group in groups} == {1}
    assert len({group[1:] for group in groups}) == 8


def test_a_float_beside_integers_moves_no_group(tmp_path: Path) -> None:
    times = [1_700_000_000_000 + 1000 * row for row in range(300)]
    (tmp_path / "a.csv").write_text("g,x\n" + "".join(f"{t},r{t}\n" for t in times))
    (tmp_path / "b.csv").write_text("g,x\n0.5,other\n")
    options = {"split_by": "g", "schema": {"features": {"x": "bytes"}}, **HALVES}
    before = convert(str(tmp_path / "a.csv"), tmp_path / "o1", **options)
    sources = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    after = convert(sources, tmp_path / "o2", **options)
    assert {record: after[record] for record in before} == before


def test_numbers_written_in_two_ways_are_one_key_and_one_class(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("n,x\n5,1\n6,2\n5.0,3\n")
    with pytest.raises(SourceError, match=r'"5" is there before'):
        tfrec_cli.convert(str(source), str(tmp_path / "o"), key="n", shuffle=True)
    source.write_text("n,x\n" + "5,1\n 5,2\n5.0,3\n-0.0,4\n0,5\nNA,6\n,7\n" * 10)
    manifest = tfrec_cli.convert(str(source), str(tmp_path / "o"), stratify="n", **HALVES)
    assert manifest.splits[0].classes == {"0": 10, "5": 15}
    assert manifest.splits[0].classless == 10


@pytest.mark.parametrize(
    ("flag", "cells"),
    [
        ("--split-by", "1,2.5"), ("--key", "1,2"), ("--split-column", "1,2"), ("--key", "1,2.5"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("schema", [None, {"features": {"x": "int64"}}])
def test_a_null_word_among_numbers_is_no_value(
    tmp_path: Path, flag: str, cells: str, schema: dict[str, Any] | None
) -> None:
    lines = [*cells.split(","), "NA", " "]
    (tmp_path / "a.csv").write_text("n,x\n" + "".join(f"{cell},1\n" for cell in lines))
    options: dict[str, Any] = {flag[2:].replace("-", "_"): "n", "schema": schema}
    options |= {"--split-by": HALVES, "--key": {"shuffle": True}}.get(flag, {})
    source, dest = str(tmp_path / "a.csv"), tmp_path / "out"
    with pytest.raises(CellError, match=r"line 4, column n: has no value, "):
        tfrec_cli.convert(source, str(dest), **options)
    manifest = tfrec_cli.convert(source, str(dest), on_error="skip", **options)
    assert manifest.records == 2


def test_splits_in_cells_are_taken_to_the_letter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,x\ntrue,1\nfalse,2\nTRUE,3\n")
    with pytest.raises(CellError, match=r'line 4, column n: "TRUE" is not one of'):
        tfrec_cli.convert(
            str(tmp_path / "a.csv"), str(tmp_path / "o"), split="true,false", split_column="n"
        )


def test_classes_are_divided_to_one_record(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", [*range(800), *range(0, 99, 11)])
    manifest = tfrec_cli.convert(
        source, str(tmp_path / "out"), split=THREE, stratify="class", shuffle=True
    )
    totals = Counter("abc"[row % 11 % 3] for row in [*range(800), *range(0, 99, 11)])
    for split in manifest.splits:
        assert split.classes is not None
        assert sum(split.classes.values()) == split.records
        for name, total in totals.items():
            assert abs(split.classes[name] - total * (split.asked or 0)) < 1
    entry = read_manifest(tmp_path / "out")["splits"][0]
    assert list(entry["classes"]) == ["a", "b", "c"]


def test_empty_text_is_a_class_and_no_value_another(tmp_path: Path) -> None:
    column = ["", None, None, "no value"] * 30
    pq.write_table(pa.table({"c": column, "n": range(120)}), tmp_path / "a.parquet")
    dest = tmp_path / "out"
    manifest = tfrec_cli.convert(str(tmp_path / "a.parquet"), str(dest), stratify="c", **HALVES)
    for split in manifest.splits:
        assert split.classes == {"": 15, "no value": 15}
        assert split.classless == 30
        assert sum(split.classes.values()) + split.classless == split.records
    assert load_manifest(dest) == manifest
    assert split_classes(manifest.splits) == [
        '    "": 15 a, 15 b', '    "no value": 15 a, 15 b', "    no value: 30 a, 30 b",
    ]  # fmt: skip


def test_many_small_classes_do_not_leave_a_split_short() -> None:
    counts = [shares(3, parse_splits(THREE).cumulative, number) for number in range(1000)]
    total = np.sum(counts, axis=0)
    assert total == pytest.approx([2400, 300, 300], abs=5)


def test_penguins_are_stratified(tmp_path: Path) -> None:
    manifest = tfrec_cli.convert(
        EXAMPLES / "penguins.csv", str(tmp_path / "out"), split="train=0.8,test=0.2",
        stratify="species",
    )  # fmt: skip
    classes = {split.name: dict(split.classes or {}) for split in manifest.splits}
    assert sum(classes["test"].values()) == pytest.approx(344 * 0.2, abs=1.5)
    assert {name: count + classes["test"][name] for name, count in classes["train"].items()} == {
        "Adelie": 152, "Chinstrap": 68, "Gentoo": 124,
    }  # fmt: skip


SPLIT_CELLS = "split,x\ntrain,1\nTRAIN,2\nvalidation,3\ntest,4\n,5\nvla,6\n"


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_cell_that_is_none_of_the_splits_is_an_error_that_names_it(
    tmp_path: Path, jobs: int
) -> None:
    (tmp_path / "sp.csv").write_text(SPLIT_CELLS)
    with pytest.raises(CellError, match=r'sp\.csv, line 3, column split: "TRAIN" is not one of'):
        tfrec_cli.convert(
            str(tmp_path / "sp.csv"), str(tmp_path / "out"), split="train,validation,test",
            split_column="split", jobs=jobs,
        )  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_rows_without_a_good_split_can_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "sp.csv").write_text(SPLIT_CELLS)
    manifest = tfrec_cli.convert(
        str(tmp_path / "sp.csv"), str(tmp_path / "out"), split="train,validation,test",
        split_column="split", on_error="skip", rejects=str(tmp_path / "rejects"),
    )  # fmt: skip
    assert [(split.name, split.records) for split in manifest.splits] == [
        ("train", 1), ("validation", 1), ("test", 1),
    ]  # fmt: skip
    lines = (tmp_path / "rejects").read_text().splitlines()
    assert [f'"line": {line}' in text for line, text in zip((3, 6, 7), lines, strict=True)]


def test_without_names_every_value_is_a_split_and_a_blank_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "sp.csv"
    source.write_text("split,x\nb,1\na,2\nb,3\n")
    manifest = tfrec_cli.convert(str(source), str(tmp_path / "out"), split_column="split")
    assert [(split.name, split.records) for split in manifest.splits] == [("b", 2), ("a", 1)]
    source.write_text("split,x\nb,1\n,2\n")
    with pytest.raises(CellError, match=r"sp\.csv, line 3, column split: has no value"):
        tfrec_cli.convert(str(source), str(tmp_path / "o2"), split_column="split")
    source.write_text("split,x\nb,1\nB,2\n")
    with pytest.raises(UsageError, match='"b" and "B" differ in case only'):
        tfrec_cli.convert(str(source), str(tmp_path / "o2"), split_column="split")
    source.write_text("split,x\nb,1\na b,2\n")
    with pytest.raises(CellError, match=r'line 3, column split: "a b" is not a split name'):
        tfrec_cli.convert(str(source), str(tmp_path / "o3"), split_column="split")
    source.write_text("split,x\n" + "".join(f"s{row},1\n" for row in range(101)))
    with pytest.raises(UsageError, match="more than 100 different values"):
        tfrec_cli.convert(str(source), str(tmp_path / "o4"), split_column="split")


def test_the_first_error_is_reported_though_the_split_column_is_read_first(tmp_path: Path) -> None:
    source = tmp_path / "sp.csv"
    source.write_text("split,x\ntrain,1\ntrain,z\nbad,3\n")
    schema = {"features": {"x": "int64"}}
    for split in ("train,test", None):
        with pytest.raises(CellError, match="line 3, column x"):
            tfrec_cli.convert(
                str(source), str(tmp_path / "out"), split=split, split_column="split", schema=schema
            )
        source.write_text("split,x\ntrain,1\ntrain,z\nb ad,3\n")


def test_columns_that_are_no_features_decide_as_well(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", range(500))
    schema = {"features": {"id": "int64"}}
    for number, options in enumerate(
        (
            {"split": THREE, "split_by": "group"},
            {"split": THREE, "stratify": "class"},
            {"split_column": "class"},
            {"sort_by": "group", "split": THREE},
            {"key": ("group", "id"), "shuffle": True},
        )
    ):
        manifest = tfrec_cli.convert(source, str(tmp_path / f"{number}"), schema=schema, **options)  # type: ignore[arg-type]
        assert manifest.records == 500
        assert [feature.key for feature in manifest.features] == ["id"]


def test_key_columns_tell_rows_apart_wherever_they_stand(tmp_path: Path) -> None:
    forward = table(tmp_path / "a.csv", range(800))
    backward = table(tmp_path / "b.csv", range(799, -1, -1))
    options: dict[str, Any] = {"key": "id", "split": THREE}
    assert convert(forward, tmp_path / "o1", **options) == convert(
        backward, tmp_path / "o2", **options
    )
    for source, dest in ((forward, "o3"), (backward, "o4")):
        convert(source, tmp_path / dest, key="id", shuffle=True)
    assert found(tmp_path / "o3") == found(tmp_path / "o4")


@pytest.mark.parametrize("memory", ["1GiB", "1"])
def test_two_rows_of_one_key_are_an_error_that_names_both(tmp_path: Path, memory: str) -> None:
    sources = [table(tmp_path / "a.csv", range(50)), table(tmp_path / "b.csv", [90, 17, 91])]
    with pytest.raises(SourceError, match=r'b\.csv, line 3, .*"17".*a\.csv, line 19'):
        tfrec_cli.convert(sources, str(tmp_path / "o"), key="id", shuffle=True, memory=memory)
    (tmp_path / "c.csv").write_text("id,x\n1,1\n,2\n")
    with pytest.raises(CellError, match=r"c\.csv, line 3, column id: has no value, which --key"):
        tfrec_cli.convert(str(tmp_path / "c.csv"), str(tmp_path / "o"), key="id", shuffle=True)


def test_images_are_known_by_their_names(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(EXAMPLES / "digits", tmp_path / "digits")
    before = convert(str(tmp_path / "digits"), tmp_path / "o1", split=THREE)
    first = sorted((tmp_path / "digits").rglob("*.png"))[0]
    shutil.copy(first, first.with_name("000-new.png"))
    after = convert(str(tmp_path / "digits"), tmp_path / "o2", split=THREE)
    assert {record: after[record] for record in before} == before
    assert len(after) == len(before) + 1


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("form", [{}, {"split_exact": True}, {"stratify": "class"}])
def test_shards_are_exact_with_skipped_rows_and_a_limit(
    tmp_path: Path, form: dict[str, Any], shuffle: bool
) -> None:
    lines = [f"{row if row % 97 else 'bad'},{'xy'[row % 5 % 2]}\n" for row in range(1500)]
    (tmp_path / "a.csv").write_text("id,class\n" + "".join(lines[:800]))
    (tmp_path / "b.csv").write_text("id,class\n" + "".join(lines[800:]))
    sources = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    manifest = tfrec_cli.convert(
        sources, str(tmp_path / "out"), schema={"features": {"id": "int64", "class": "bytes"}},
        on_error="skip", limit=1200, shards=3, split=THREE, shuffle=shuffle, **form,
    )  # fmt: skip
    good = sum(1 for row in range(1200) if row % 97)
    assert manifest.records == good
    for split in manifest.splits:
        sizes = [shard.records for shard in split.shards]
        assert max(sizes) - min(sizes) <= 1
        if form:
            assert abs(split.records - good * (split.asked or 0)) < 3
    assert {name: len(records) for name, records in found(tmp_path / "out").items()} == {
        split.name: split.records for split in manifest.splits
    }


# What is refused ---------------------------------------------------------------------------------

REFUSED = [
    ({"seed": 1}, "--seed needs --shuffle"),
    ({"shuffle": True, "sort_by": "id"}, "--sort-by"),
    ({"split": "a,b"}, "fraction for each"),
    ({"split_column": "class", "split": THREE}, "--split-column and fractions"),
    ({"split_exact": True}, "--split-exact needs"),
    ({"split_by": "group"}, "--split-by needs"),
    ({"stratify": "class"}, "--stratify needs"),
    ({"split_seed": 0}, "--split-seed needs"),
    ({"split": THREE, "split_by": "group", "stratify": "class"}, "--split-by and --stratify"),
    ({"split": THREE, "split_by": "group", "split_exact": True}, "--split-by and --split-exact"),
    ({"split": THREE, "stratify": "class", "split_exact": True}, "--stratify and --split-exact"),
    ({"key": "id"}, "--key needs"),
    ({"key": "id", "split": THREE, "split_by": "group"}, "--key and --split-by"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_combinations_that_make_no_sense(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    source = table(tmp_path / "a.csv", range(5))
    with pytest.raises(UsageError) as caught:
        tfrec_cli.convert(source, str(tmp_path / "out"), **options)
    assert words in str(caught.value)


def test_every_rule_is_tried() -> None:
    tried = set()
    for options, _ in REFUSED:
        tuples = {k: (v,) if k in ("sort_by", "key") else v for k, v in options.items()}
        given_options = ConvertOptions(("a",), "b", **tuples)
        asked = parse_splits(given_options.split)
        tried.add(next(rule.reason for rule in RULES if rule.broken(given_options, asked)))
    assert tried == {rule.reason for rule in RULES}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a=0.5,b=0.4", "add up to 0.9"),
        ("a=0.5,b=x", '"x" is not a fraction'),
        ("a=1,b=0", '"0" is not a fraction'),
        ("a=0.5,b", '"" is not a fraction'),
        ("a=-0.5,b=1.5", "not a fraction"),
        (f"a=0.{'0' * 5000}1,b=0.9", "a fraction of 5,003 characters"),
        (f"a={'9' * 5000},b=0.9", "a fraction of 5,000 characters"),
        (f"a=1/{'9' * 5000},b=0.9", "a fraction of 5,002 characters"),
        (f"a={'9' * 99},b=0.9", "add up to 1e+99"),
        ("a=0.5,a=0.5", "a is there twice"),
        ("a=0.5,A=0.5", "a and A differ in case only"),
        ("a b=1", "not a split name"),
        ("", "not a split name"),
    ],
)
def test_wrong_fractions(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_splits(text)
    assert words in str(caught.value)


def test_fractions_are_exact_numbers() -> None:
    assert parse_splits("a=0.1,b=0.2,c=0.7").cumulative[-1] == 1
    assert parse_splits("a=33%,b=1/3,c=101/300").fractions[1] == Fraction(1, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split": THREE, "stratify": "clas"}, 'no column "clas". Did you mean "class"'),
        ({"sort_by": "idd"}, 'no column "idd"'),
        ({"key": "x", "shuffle": True}, 'no column "x"'),
        ({"key": ("id", "id"), "shuffle": True}, "once"),
        ({"seed": -1, "shuffle": True}, "seed is -1"),
    ],
)
def test_columns_that_are_not_there(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    source = table(tmp_path / "a.csv", range(5))
    with pytest.raises(UsageError) as caught:
        tfrec_cli.convert(source, str(tmp_path / "out"), **options)
    assert words in str(caught.value)


def test_one_file_takes_one_split(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", range(50))
    with pytest.raises(UsageError, match="one file"):
        tfrec_cli.convert(source, str(tmp_path / "a.tfrecord"), split=THREE)
    with pytest.raises(UsageError, match="one file"):
        tfrec_cli.convert(source, str(tmp_path / "a.tfrecord"), split_column="class")


@pytest.mark.parametrize("options", [{"split": "a=1"}, {"split_column": "image/class/text"}])
def test_folders_that_name_splits_leave_nothing_to_ask(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    import shutil

    for split in ("train", "test"):
        shutil.copytree(EXAMPLES / "digits" / "0", tmp_path / "in" / split / "0")
    with pytest.raises(UsageError, match="folders already name splits"):
        tfrec_cli.convert(str(tmp_path / "in"), str(tmp_path / "out"), **options)


# Exact thresholds --------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**64 - 1)), min_size=1, unique=True),
    st.sampled_from([THREE, "a=0.5,b=0.5", "a=1", "a=1/3,b=1/3,c=1/3"]),
)
def test_thresholds_cut_sorted_hashes_where_they_should(
    rows: list[tuple[int, int]], text: str
) -> None:
    cumulative = parse_splits(text).cumulative
    with HashFile(64) as file:
        for code, value in rows:
            file.add(np.array([code], np.uint32), np.array([value], np.uint64))
        totals = [sum(code == row[0] for row in rows) for code in range(4)]
        quotas = [shares(total, cumulative, code) for code, total in enumerate(totals)]
        begins = thresholds(file, quotas)
    for code, quota in enumerate(quotas):
        ordered = sorted(value for c, value in rows if c == code)
        edges = np.cumsum(quota)[:-1].tolist()
        assert list(begins[code]) == [
            ordered[edge] if edge < len(ordered) else 2**64 - 1 for edge in edges
        ]


def test_hashes_that_cannot_be_kept_are_told(tmp_path: Path) -> None:
    with HashFile(8, str(tmp_path / "none")) as file, pytest.raises(DatasetError, match="temp-dir"):
        file.add(np.zeros(9, np.uint32), np.zeros(9, np.uint64))


@given(st.lists(st.integers(0, 2**64 - 1).map(lambda n: n >> 58 << 58)), st.integers(1, 400))
def test_repeated_hashes_are_found_in_any_memory(values: list[int], memory: int) -> None:
    with HashFile(32) as file:
        file.add(np.zeros(len(values), np.uint32), np.array(values, np.uint64))
        result = sorted(repeated(file, memory).tolist())
    assert result == sorted(value for value, count in Counter(values).items() if count > 1)


class Counted(tuple[BoundFeature, ...]):
    """Features that count how often somebody goes through them."""

    times = 0

    def __iter__(self) -> Iterator[BoundFeature]:
        Counted.times += 1
        return super().__iter__()


def test_wide_tables_are_arranged_in_one_pass_over_their_features() -> None:
    columns = tuple(Column(f"c{i}", pa.string(), text=TextRules()) for i in range(50))
    features = Counted(BoundFeature(c.name, "int64", (c.name,)) for c in columns)
    Counted.times = 0
    arrange(ConvertOptions(("a.csv",), "out"), Survey(columns, ()), features)
    assert Counted.times == 1


def test_words_for_no_value_name_no_split(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("split,x\ntrain,1\nNA,2\ntest,3\nnull,4\n")
    source = str(tmp_path / "a.csv")
    with pytest.raises(CellError, match='line 3, column split: "NA" says that there is no value'):
        tfrec_cli.convert(source, str(tmp_path / "o"), split_column="split")
    manifest = tfrec_cli.convert(
        source, str(tmp_path / "o"), split_column="split", split="train,test,NA,null"
    )
    assert [split.records for split in manifest.splits] == [1, 1, 1, 1]


def test_rows_left_out_are_told_the_first_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("split,x\ntrain,1\nTRAIN,2\n,3\nvla,4\nzz,5\n")
    argv = ["convert", str(tmp_path / "a.csv"), str(tmp_path / "o"), "--split-column", "split",
            "--split", "train,test", "--on-error", "skip"]  # fmt: skip
    with pytest.raises(SystemExit):
        main(argv)
    notes = [line for line in capsys.readouterr().err.splitlines() if "left out: " in line]
    assert [re.search(r"line \d", note)[0] for note in notes] == ["line 3", "line 4", "line 5"]  # type: ignore[index]
    assert '"TRAIN" is not one of the splits train, test.' in notes[0]


@pytest.mark.parametrize("column", ["size, cm", 'a"b', "plain"])
def test_names_with_commas_are_quoted_as_in_csv(tmp_path: Path, column: str) -> None:
    table = pa.table({column: [2, 1, 3], "n": [1, 1, 1]})
    pq.write_table(table, tmp_path / "a.parquet")
    quoted = '"' + column.replace('"', '""') + '"'
    for option, value in (("--sort-by", f"n,{quoted}"), ("--key", quoted)):
        argv = ["convert", str(tmp_path / "a.parquet"), str(tmp_path / "o"), option, value]
        with pytest.raises(SystemExit) as ended:
            main([*argv, "--overwrite", *(["--shuffle"] if option == "--key" else [])])
        assert ended.value.code == 0
        options = read_manifest(tmp_path / "o")["options"]
        assert options["sort_by"] == (["n", column] if option == "--sort-by" else [])
        assert options["key"] == ([] if option == "--sort-by" else [column])


@pytest.mark.parametrize("text", ['"a', "", "a,,b", "a,a", '"a"b'])
def test_what_is_no_list_of_columns_is_a_usage_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["convert", "a.csv", str(tmp_path / "o"), "--sort-by", text])
    assert ended.value.code == 2
