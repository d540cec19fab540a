"""Label lists: their order, their files, what counts as a value, and the error for unknown ones."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.errors import Location, SchemaError
from tfrec_cli.schema import (
    TextRules,
    count_values,
    label_file_text,
    read_label_file,
    sort_labels,
    unknown_labels_error,
    unknown_values,
)


def label_file(folder: Path, content: bytes) -> Path:
    path = folder / "labels.txt"
    path.write_bytes(content)
    return path


def test_integers_sort_as_numbers_only_where_all_are() -> None:
    assert sort_labels(["10", "9", "1", "9"]) == ("1", "9", "10")
    assert sort_labels(["-1", "+5", "07"]) == ("-1", "+5", "07")
    assert sort_labels(["10", "9", "a"]) == ("10", "9", "a")
    assert sort_labels(["b", "B", "é", "z", "Ω"]) == ("B", "b", "z", "é", "Ω")
    assert sort_labels(["1", "01"]) == ("01", "1")


@given(st.lists(st.text()))
def test_order_does_not_depend_on_the_order_of_sight(names: list[str]) -> None:
    assert sort_labels(names) == sort_labels(reversed(names))


def test_label_files(tmp_path: Path) -> None:
    assert read_label_file(label_file(tmp_path, b"dog\r\ncat \n\n \n")) == ("dog", "cat ")
    assert read_label_file(label_file(tmp_path, b"\xef\xbb\xbfdog\ncat")) == ("dog", "cat")
    assert read_label_file(label_file(tmp_path, b"0:dog\n1:cat\n")) == ("dog", "cat")
    # To the letter, blanks and further colons included, as without numbers.
    assert read_label_file(label_file(tmp_path, b"0: dog\n1:a:b \n")) == (" dog", "a:b ")
    assert read_label_file(label_file(tmp_path, b" dog\na:b \n")) == (" dog", "a:b ")
    assert read_label_file(label_file(tmp_path, b"1:dog\n2:cat\n")) == ("1:dog", "2:cat")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"a\n\nb\n", "line 2: the line is blank"),
        (b"a\nb\na\n", 'line 3: "a" stands on line 1 already'),
        (b"a\n\xff\n", "byte 2 is not UTF-8"),
    ],
)
def test_wrong_label_files(tmp_path: Path, content: bytes, expected: str) -> None:
    with pytest.raises(SchemaError, match=expected):
        read_label_file(label_file(tmp_path, content))


def test_missing_label_file(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"gone\.txt: No such file"):
        read_label_file(tmp_path / "gone.txt")


names = st.text(min_size=1).filter(lambda text: text.strip() and not {*"\n\r\ufeff"} & {*text})


@given(st.lists(names, min_size=1, unique=True).filter(lambda n: not n[0].startswith("0:")))
def test_label_files_read_back_equal(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = label_file(Path(folder), label_file_text(names).encode())
        assert read_label_file(path) == tuple(names)


@pytest.mark.parametrize("names", [[], [""], ["a\nb"], ["a\r"], ["a", "a"]])
def test_names_that_no_label_file_can_hold(names: list[str]) -> None:
    with pytest.raises(SchemaError):
        label_file_text(names)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["a", None, "b", "a"]), {"a": 2, "b": 1}),
        (pa.array(["a", "b"], pa.string_view()), {"a": 1, "b": 1}),
        (pa.array([b"a", b"\xff"]), {"a": 1, "\ufffd": 1}),
        (pa.array([1.0, None, 0.5]), {"1": 1, "0.5": 1}),
        (pa.array([7, 7, None]), {"7": 2}),
        (pa.array([True, False]), {"true": 1, "false": 1}),
        (pa.array(["a", None, "a"]).dictionary_encode(), {"a": 2}),
        (pa.array([["a", "b"], None, [], ["a", None]]), {"a": 2, "b": 1}),
        (pa.array([["a", "b"], None], pa.list_(pa.string(), 2)), {"a": 1, "b": 1}),
        (pa.chunked_array([["a"], ["b"]]), {"a": 1, "b": 1}),
        (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), {"a": 2, "b": 1}),
        (pa.nulls(3), {}),
    ],
)
def test_values_are_counted_as_text(array: pa.Array, expected: dict[str, int]) -> None:
    assert count_values(array) == expected


def test_values_within_structs_lists_and_cells() -> None:
    struct = pa.array([{"a": {"b": "x"}}, {"a": None}, None])
    assert count_values(struct, ("a", "b")) == {"x": 1}
    assert count_values(pa.array(["a  b", " b ", "", None]), separator=" ") == {"a": 1, "b": 2}
    assert count_values(pa.array(["a|b", "b"]), separator="|") == {"a": 1, "b": 2}


def test_declared_null_words_are_no_values() -> None:
    cells = pa.array(["cat", "NA", "none"])
    assert count_values(cells, text=TextRules(null_words=("none",))) == {"cat": 1, "NA": 1}
    assert count_values(cells, text=TextRules()) == {"cat": 1, "NA": 1, "none": 1}


def test_one_error_lists_all_unknown_values_with_counts() -> None:
    unknown = unknown_values({"dog": 5, "Dog": 1, "cat ": 3}, ["dog", "cat"])
    first = (Location("labels.csv", 1, 3), "Dog")
    text = str(unknown_labels_error("class", unknown, ["dog", "cat"], first))
    assert text.startswith('labels.csv, line 3, column class: "Dog" is not a label.')
    assert '"cat " (3 rows), "Dog" (1 row); the labels are dog, cat.' in text
    assert 'Did you mean "dog"?' in text
    assert "\n" not in text


def test_long_lists_are_cut() -> None:
    unknown = {f"u{number}": 1 for number in range(500)}
    first = (Location("a.csv", 0, 2), "u0")
    text = str(unknown_labels_error("c", unknown, [f"l{n}" for n in range(500)], first))
    assert "and 480 more" in text
    assert len(text) < 1500
