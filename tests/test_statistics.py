"""`tfrec stats`: what NumPy says of the same values, in one pass over the records."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_head_command import picture, tfrec
from test_inspect_command import write
from test_kernel_examples import entry, example, field, floats, ints, texts

import tfrec_cli
from tfrec_cli.errors import UsageError
from tfrec_cli.reading.features import FeatureInfo
from tfrec_cli.statistics import counting, run, statistics
from tfrec_cli.statistics.columns import FeatureStatistics, summarise
from tfrec_cli.statistics.moments import Moments, moments, spread
from tfrec_cli.statistics.run import document, histogram, quantiles
from tfrec_cli.statistics.sampling import number_sample


def take(path, **asked):
    return statistics(tfrec_cli.open_dataset(path), **asked)


def one(path, key="x", split=0):
    """The statistics of one feature of a dataset."""
    found = take(path)
    place = [feature.key for feature in found.features].index(key)
    return found.splits[split].features[place]


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """A dataset of several batches, and its columns."""
    monkeypatch.setattr(run, "BLOCK", 1 << 14)
    chance = np.random.default_rng(7)
    table = pa.table(
        {
            "small": pa.array(chance.integers(0, 5, 5000)),
            "large": pa.array(chance.integers(-(2**62), 2**62, 5000)),
            "weight": pa.array(chance.normal(3, 2, 5000).astype(np.float32)),
            "gaps": pa.array([None if n % 10 == 0 else n for n in range(5000)], pa.int64()),
            "word": [("alpha", "beta", "a" * 70)[n % 3] for n in range(5000)],
            "ragged": pa.array([list(range(n % 4)) for n in range(5000)]),
        }
    )
    tfrec_cli.convert(table, tmp_path / "d")
    return tmp_path / "d", table


@given(
    st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), max_size=4),
    st.lists(st.lists(st.floats(width=32, min_value=-1e6, max_value=1e6), max_size=20), max_size=4),
)
def test_moments_of_parts_are_those_of_the_whole(whole, fractions):
    for parts, kind in ((whole, np.int64), (fractions, np.float32)):
        found, values = Moments(), np.array([v for part in parts for v in part], kind)
        for part in parts:
            found.add(moments(np.array(part, kind)))
        assert found.count == len(values)
        if len(values):
            assert (found.low, found.high) == (values.min(), values.max())
            scale = max(1.0, np.abs(values.astype(np.float64)).max())
            assert found.mean == pytest.approx(values.mean(dtype=np.float64), abs=1e-9 * scale)
            assert found.deviation == pytest.approx(
                values.std(dtype=np.float64), rel=1e-6, abs=1e-6 * scale
            )


def test_numbers_that_are_none_are_counted_apart():
    found = moments(np.array([np.nan, 1, np.inf, -np.inf, 0, 3], np.float32))
    assert (found.count, found.nan, found.infinite, found.zeros) == (3, 1, 2, 1)
    assert (found.low, found.high, found.mean) == (0, 3, pytest.approx(4 / 3))
    nothing = moments(np.array([np.nan], np.float32))
    assert (nothing.count, nothing.nan, nothing.low, nothing.deviation) == (0, 1, None, None)


def test_numbers_as_numpy_has_them(rows):
    path, table = rows
    for key in ("small", "large", "weight"):
        values, found = table[key].to_numpy(), one(path, key)
        assert found.numbers.count == 5000
        assert (found.numbers.low, found.numbers.high) == (values.min(), values.max())
        assert found.numbers.mean == pytest.approx(values.mean(dtype=np.float64), rel=1e-9)
        assert found.numbers.deviation == pytest.approx(values.std(dtype=np.float64), rel=1e-6)
        expected = np.quantile(values, run.QUANTILES, method="inverted_cdf")
        assert list(quantiles(found).values()) == pytest.approx(expected.tolist(), rel=1e-6)
        _, counts = histogram(found)
        assert sum(counts) == 5000


def test_missing_values_lists_and_lengths(rows):
    path, _ = rows
    gaps, ragged, word = (one(path, key) for key in ("gaps", "ragged", "word"))
    assert (gaps.records, gaps.missing, gaps.numbers.count) == (5000, 500, 4500)
    assert (ragged.counts.low, ragged.counts.high) == (0, 3)
    assert ragged.counts.mean == pytest.approx(1.5)
    assert ragged.numbers.count == 7500
    assert (word.numbers.low, word.numbers.high) == (4, 70)


def test_values_are_counted_until_there_are_too_many(rows, monkeypatch):
    path, table = rows
    expected = Counter(table["small"].to_pylist())
    assert one(path, "small").classes == expected
    assert one(path, "large").classes is None
    assert one(path, "large").top(5) == []
    monkeypatch.setattr(counting, "MOST_CLASSES", 4)
    small = one(path, "small")
    assert small.classes is None
    top = dict(small.top(5))
    assert {value: round(count) for value, count in top.items()} == expected


def test_a_feature_that_stops_being_counted_forgets_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "BLOCK", 1 << 12)
    values = [7] * 3000 + list(range(1000, 3000))
    path = write(tmp_path / "a.tfrecord", [example(entry(b"x", ints(v))) for v in values])
    found = one(path)
    assert found.classes is None
    assert dict(found.top(1)) == {7: 3000.0}
    assert quantiles(found)["0.5"] == 7
    words = write(tmp_path / "b.tfrecord", [example(entry(b"x", texts(b"%d" % v))) for v in values])
    assert one(words).top(1)[0][0] == b"7"


def test_samples_are_even_and_bounded():
    sample = number_sample(1000)
    for start in range(0, 100_000, 500):
        sample.add(np.arange(start, start + 500), 500)
    assert sample.seen == 100_000
    assert not sample.is_whole
    assert 300 < len(sample.values) <= 1000
    assert np.mean(sample.values) == pytest.approx(50_000, rel=0.1)
    whole = number_sample(10)
    whole.add(np.arange(10), 10)
    assert whole.is_whole
    assert whole.values.tolist() == list(range(10))


def test_a_sample_that_begins_with_counts():
    sample = number_sample(100)
    sample.begin(np.array([1, 2]), np.array([9000, 1000]))
    assert sample.seen == 10_000
    assert len(sample.values) < 200
    assert np.mean(sample.values == 1) == pytest.approx(0.9, abs=0.1)


def test_classes_by_split_and_their_labels(tmp_path):
    schema = "version: 1\nfeatures:\n  c: {type: int64, labels: [cat, dog]}\n"
    (tmp_path / "s.yaml").write_text(schema)
    table = pa.table({"c": ["cat", "dog", "dog", "dog"] * 25})
    tfrec_cli.convert(
        table, tmp_path / "d", schema=str(tmp_path / "s.yaml"), split="train=0.8,test=0.2",
        split_exact=True,
    )  # fmt: skip
    found = document(take(tmp_path / "d"))
    assert [split["records"] for split in found["splits"]] == [80, 20]
    labels = Counter()
    for split in found["splits"]:
        labels.update({t["label"]: t["count"] for t in split["features"][0]["top"]})
    assert labels == {"0 cat": 25, "1 dog": 75}
    text = tfrec("stats", tmp_path / "d").stdout
    assert any(line.split()[:2] == ["1", "dog"] for line in text.splitlines())


def drift(tmp_path, train, test):
    for name, values in (("train", train), ("test", test)):
        records = [example(*([entry(b"x", v)] if v else [])) for v in values]
        write(tmp_path / f"d-{name}.tfrecord", records)
    return take(str(tmp_path / "d-*.tfrecord")).drift


@pytest.mark.parametrize("kind", [ints, floats])
def test_splits_that_differ_are_told(tmp_path, kind):
    chance = np.random.default_rng(3)
    far = [kind(int(v)) for v in chance.normal(1000, 300, 2000)]
    near = [kind(int(v)) for v in chance.normal(1200, 300, 2000)]
    same = [kind(int(v)) for v in chance.normal(1000, 300, 2000)]
    (found,) = drift(tmp_path, far, near)
    assert {found.split, found.base} == {"train", "test"}
    assert found.distance > 0.05
    assert drift(tmp_path, far, same) == ()


def test_classes_and_gaps_that_differ_are_told(tmp_path):
    a, b = texts(b"a"), texts(b"b")
    (found,) = drift(tmp_path, [a, b] * 500, [a, b, b, b] * 250)
    assert found.kind == "value"
    assert "50.0%" in found.text
    assert drift(tmp_path, [a, b] * 500, [a, b] * 100) == ()
    assert drift(tmp_path, [a, b] * 5, [a, b, b, b]) == ()
    kinds = {found.kind for found in drift(tmp_path, [a] * 500, [a, None] * 250)}
    assert kinds == {"missing"}


def test_many_different_values_are_compared_by_their_lengths_and_samples(tmp_path):
    long = [texts(b"word-%d-%s" % (n, b"x" * 20)) for n in range(3000)]
    short = [texts(b"%d" % n) for n in range(3000)]
    (found,) = drift(tmp_path, long, short)
    assert found.kind == "length"
    assert found.distance == 1.0
    hot = [texts(b"word-0-%s" % (b"x" * 20))] * 3000
    kinds = {found.kind for found in drift(tmp_path, long, [*long[:2000], *hot])}
    assert "value" in kinds
    assert drift(tmp_path, long, [texts(b"word-%d-%s" % (n, b"y" * 20)) for n in range(3000)]) == ()


def test_lengths_of_lists_and_shares_of_nan_and_empty_text_are_compared(tmp_path):
    (found,) = drift(tmp_path, [ints(1, 1, 1)] * 300, [ints(*[1] * 90)] * 300)
    assert (found.kind, found.distance) == ("list length", 1.0)
    (found,) = drift(tmp_path, [floats(1.5)] * 600, [floats(1.5), floats(np.nan)] * 300)
    assert found.kind == "nan"
    (found,) = drift(tmp_path, [floats(1.5)] * 600, [floats(1.5), floats(np.inf)] * 300)
    assert found.kind == "infinite"
    found = drift(tmp_path, [texts(b"ab")] * 600, [texts(b"ab"), texts(b"")] * 300)
    assert "empty" in {one.kind for one in found}


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=50))
def test_lengths_are_spread_in_their_order(lengths):
    bins = [len(spread(np.array([n]), np.array([1]))) for n in sorted(lengths)]
    assert bins == sorted(bins)
    assert all(len(spread(np.array([n]), np.array([1]))) == n + 1 for n in lengths if n < 64)
    assert spread(np.array(lengths), np.ones(len(lengths), np.int64)).sum() == len(lengths)


def test_a_sample_holds_no_value_twice():
    sample = number_sample(1000)
    for start in range(0, 1_000_000, 50_000):
        sample.add(np.arange(start, start + 50_000), 50_000)
    assert len(np.unique(sample.values)) == len(sample.values) > 300


def test_floats_that_are_few_are_counted(tmp_path):
    values = [0.0, 1.0, 1.0, 0.1, float("nan"), -0.0] * 50
    path = write(tmp_path / "a.tfrecord", [example(entry(b"label", floats(v))) for v in values])
    (entry_,) = document(take(path))["splits"][0]["features"]
    assert (entry_["distinct"], entry_["counted"]) == (3, True)
    assert {t["label"]: t["count"] for t in entry_["top"]} == {"0.0": 100, "1.0": 100, "0.1": 50}
    assert "0.1        50  20.0%" in tfrec("stats", path).stdout
    many = [example(entry(b"label", floats(n / 3))) for n in range(500)]
    assert one(write(tmp_path / "b.tfrecord", many), "label").classes is None


def test_integers_have_all_their_digits_between_the_extremes_too(tmp_path):
    for name, first in (("a", 2**62), ("b", -(2**63)), ("c", 1_700_000_000_000)):
        table = pa.table({"x": pa.array([first + n for n in range(2001)], pa.int64())})
        tfrec_cli.convert(table, tmp_path / name)
        found = one(tmp_path / name)
        assert quantiles(found)["0.5"] == first + 1000
        edges, counts = histogram(found)
        assert (edges[0], edges[-1], sum(counts)) == (first, first + 2000, 2001)
        assert max(counts) < 150
        assert all(type(edge) is int for edge in edges) == (abs(first) >= 2**53)
        text = tfrec("stats", tmp_path / name).stdout
        assert f" {first + 500} " in text
        assert f" {first + 1000} " in text
    assert " 1700000001000  577.64" in text


def test_names_that_differ_at_their_ends_are_told_apart(tmp_path):
    records = [
        example(
            entry(b"", ints(n)),
            entry(b"label", texts(b"a class that is called so %d" % (n % 2))),
            entry(b"a feature with a long name that ends as number one", ints(1)),
            entry(b"a feature with a long name that ends as number two", ints(1)),
        )
        for n in range(9)
    ]
    path = write(tmp_path / "a.tfrecord", records)
    text = tfrec("stats", path).stdout
    for name in ("number one ", "number two ", "…called so 0 56%", "…called so 1 44%", '\n"" '):
        assert name in text
    for command in ("inspect", "head"):
        assert '""' in tfrec(command, path).stdout


def test_extremes_of_integers_have_all_their_digits(tmp_path):
    path = write(
        tmp_path / "a.tfrecord", [example(entry(b"x", ints(n))) for n in (10**12 + 7, 2**63 - 1)]
    )
    words = tfrec("stats", path).stdout.split()
    assert {"1000000000007", "9223372036854775807"} <= set(words)


def test_columns_and_splits_are_chosen(tmp_path):
    table = pa.table({"n": range(40), "m": range(40)})
    tfrec_cli.convert(table, tmp_path / "d", split="train=0.5,test=0.5", split_exact=True)
    found = take(tmp_path / "d", columns=["m"], split="test")
    assert [feature.key for feature in found.features] == ["m"]
    assert [(split.name, split.records) for split in found.splits] == [("test", 20)]
    with pytest.raises(UsageError, match="no feature"):
        take(tmp_path / "d", columns=["k"])
    assert tfrec("stats", tmp_path / "d", "--split", "no").returncode == 2


def test_images_are_told_in_place_of_words(tmp_path):
    path = write(tmp_path / "a.tfrecord", [example(entry(b"x", texts(picture("PNG"))))] * 3)
    assert "<png 64×48, …>" in tfrec("stats", path).stdout


def test_json_has_no_words_that_json_lacks(tmp_path):
    odd = [floats(np.nan), floats(np.inf), floats(1.5), field(2, b""), b""]
    path = write(tmp_path / "a.tfrecord", [example(entry(b"x", value)) for value in odd])
    done = tfrec("stats", path, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (split,) = json.loads(done.stdout, parse_constant=pytest.fail)["splits"]
    (x,) = split["features"]
    assert (x["records"], x["missing"]) == (5, 1)
    assert (x["numbers"]["nan"], x["numbers"]["infinite"], x["numbers"]["count"]) == (1, 1, 1)
    assert x["lists"]["zeros"] == 1


def test_payloads_that_are_no_example_are_counted(tmp_path):
    path = write(tmp_path / "a.tfrecord", [b"{}", b"[]"])
    text = tfrec("stats", path).stdout
    assert "2 records" in text
    assert "all records are no tf.train.Example, but JSON (" in text
    sequences = write(tmp_path / "b.tfrecord", [example(entry(b"x", ints(1))) + field(2, b"")])
    assert "SequenceExample" in tfrec("stats", sequences).stdout


def test_empty_datasets_and_damage(tmp_path):
    (tmp_path / "empty.tfrecord").touch()
    assert "0 records" in tfrec("stats", tmp_path / "empty.tfrecord").stdout
    path = write(tmp_path / "a.tfrecord", [example(entry(b"x", ints(1)))] * 9)
    path.write_bytes(path.read_bytes()[:-1])
    done = tfrec("stats", path)
    assert done.returncode == 3
    assert "record 8, byte" in done.stderr


def test_any_number_of_jobs_finds_the_same(rows):
    path, _ = rows
    found = [document(statistics(tfrec_cli.open_dataset(path, jobs=n))) for n in (1, 4)]
    assert found[0] == found[1]


def told(batches, kind, ahead):
    """What is told of all batches, each of which is counted `ahead` batches before it is added."""
    is_text = kind == pa.binary()
    feature = FeatureInfo("x", "bytes" if is_text else "int64")
    found, waiting = FeatureStatistics(feature, 1 << 12), []
    for batch in [*batches, *[None] * ahead]:
        if batch is not None:
            values = [b"%d" % v for v in batch] if is_text else list(batch)
            known = found.counted.values if found.counted is not None else None
            waiting.append(summarise(feature, pa.array(values, kind), known))
        if len(waiting) > ahead or (batch is None and waiting):
            found.add(waiting.pop(0))
    return found.top(20), found.classes, found.sample.seen, list(found.sample.values)


@pytest.mark.parametrize("kind", [pa.binary(), pa.int64()], ids=str)
@pytest.mark.parametrize("step", [1, 10**6], ids=["near", "far"])
def test_what_is_counted_does_not_depend_on_what_was_known_when(kind, step):
    few = [n * step for n in range(900)]
    many = [n * step for n in range(1500)] * 4
    for batches in ([few * 6, many], [few, few[:50] * 9, many, many], [few, many[800:1001], few]):
        at_once = told(batches, kind, 0)
        assert at_once == told(batches, kind, 1) == told(batches, kind, 3)


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9), max_size=4))
def test_the_mean_of_integers_is_exact(parts):
    found = Moments()
    for part in parts:
        found.add(moments(np.array(part, np.int64)))
    values = [value for part in parts for value in part]
    if values:
        assert found.mean == sum(values) / len(values)


def test_records_that_are_not_as_the_others_are_counted_and_passed_over(tmp_path):
    records = [example(entry(b"x", ints(n))) for n in range(30)]
    records[3:3] = [b"\xffno example", example(entry(b"x", texts(b"word")))]
    write(tmp_path / "a.tfrecord", records)
    found = take(tmp_path / "a.tfrecord")
    assert (found.records, found.skipped) == (30, 2)
    assert (
        "a.tfrecord: 32 records, 30 of them described here, " in tfrec("stats", found.path).stdout
    )
    assert found.splits[0].features[0].numbers.count == 30
    done = tfrec("stats", tmp_path / "a.tfrecord")
    assert done.returncode == 0
    assert "left out 2 records; the first: " in done.stdout
    assert "payload  1 record is no tf.train.Example" in done.stdout


def test_splits_are_held_to_the_one_that_is_trained_on(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    for name, value in (("validation", 1), ("test", 1), ("train", 2)):
        write(folder / f"x-{name}.tfrecord", [example(entry(b"x", ints(value)))] * 50)
    found = take(folder)
    assert {drift.base for drift in found.drift} == {"train"}
    assert {drift.split for drift in found.drift} == {"validation", "test"}


def test_long_values_have_plain_numbers(tmp_path):
    write(
        tmp_path / "a.tfrecord", [example(entry(b"x", texts(b"a" * n))) for n in (400000, 400001)]
    )
    done = tfrec("stats", tmp_path / "a.tfrecord")
    assert " 400000 " in done.stdout
    assert "e+05" not in done.stdout


@pytest.mark.parametrize("place", [0, 5])
def test_values_are_not_counted_where_a_long_one_is_left_out(tmp_path, place):
    values = [b"a", b"b"] * 3
    values[place] = b"x" * 65
    path = write(tmp_path / "a.tfrecord", [example(entry(b"x", texts(v))) for v in values])
    (split,) = document(take(path))["splits"]
    (feature,) = split["features"]
    assert (feature["counted"], feature["distinct"]) == (False, None)
    assert sorted(top["count"] for top in feature["top"]) == [2, 3]
    first, second = ("b", "a") if place == 0 else ("a", "b")
    assert f"  many  {first} about 50%, {second} about 33%" in tfrec("stats", path).stdout


def test_few_short_values_among_long_ones_are_not_told_to_differ(tmp_path):
    values = [b"x" * 100] * 8 + [b"y"]
    path = write(tmp_path / "a.tfrecord", [example(entry(b"x", texts(v))) for v in values])
    assert "many  too long to be counted" in tfrec("stats", path).stdout


def test_bytes_without_any_value_have_empty_cells(tmp_path):
    records = [example(entry(b"x", texts())), example(entry(b"x", texts()))]
    path = write(tmp_path / "a.tfrecord", records)
    told = tfrec("stats", path).stdout
    assert "different" not in told
    assert "many" not in told


def test_minus_zero_is_zero(tmp_path):
    records = [example(entry(b"x", floats(value))) for value in (-0.0, 0.0)]
    path = write(tmp_path / "a.tfrecord", records)
    for asked in ([], ["--json"]):
        told = tfrec("stats", path, *asked).stdout
        assert "-0 " not in told
        assert "-0.0" not in told


def test_records_without_features_and_rare_words(tmp_path):
    empty = write(tmp_path / "a.tfrecord", [b""] * 3)
    for command in ("stats", "inspect"):
        assert "the records have no features" in tfrec(command, empty).stdout
    assert tfrec("head", empty, "-n", "0").stdout == ""
    words = [b"hot"] * 4990 + [b"rare"] * 2 + [b"some"] * 8
    path = write(tmp_path / "b.tfrecord", [example(entry(b"x", texts(word))) for word in words])
    assert "hot 100%, some 0.2%, rare <0.1%" in tfrec("stats", path).stdout
