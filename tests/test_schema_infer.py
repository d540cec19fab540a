"""Inferred schemas: what each kind of column becomes, and what the user is told of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tfrec_cli.errors import SchemaError
from tfrec_cli.schema import Missing, TextRules, bind, infer_schema
from tfrec_cli.sources.base import Column, LabelHint


def column(name: str, kind: pa.DataType, nulls: bool | None = False, **facts: Any) -> Column:
    return Column(name, kind, nulls, **facts)


def text(name: str, kind: str, nulls: bool | None = False, reason: str = "") -> Column:
    return Column(name, pa.string(), nulls, TextRules(), kind, reason)


def entries(*columns: Column) -> dict[str, dict[str, Any]]:
    schema, _ = infer_schema(columns)
    return {key: feature.entries() for key, feature in schema.features.items()}


def notes(*columns: Column) -> tuple[str, ...]:
    return infer_schema(columns)[1]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int64(), {"type": "int64"}),
        (pa.bool_(), {"type": "int64", "arrow": "bool"}),
        (pa.uint8(), {"type": "int64", "arrow": "uint8"}),
        (pa.uint64(), {"type": "int64", "arrow": "uint64"}),
        (pa.float16(), {"type": "float", "arrow": "halffloat"}),
        (pa.float32(), {"type": "float"}),
        (pa.float64(), {"type": "float", "arrow": "double"}),
        (pa.decimal128(24, 2), {"type": "float", "arrow": "decimal128(24, 2)"}),
        (pa.string(), {"type": "bytes"}),
        (pa.large_string(), {"type": "bytes", "arrow": "large_string"}),
        (pa.string_view(), {"type": "bytes", "arrow": "string_view"}),
        (pa.binary(), {"type": "bytes", "arrow": "binary"}),
        (pa.binary(16), {"type": "bytes", "arrow": "fixed_size_binary[16]"}),
        (pa.dictionary(pa.int8(), pa.string()), {"type": "bytes", "arrow": "dictionary<string>"}),
        (pa.timestamp("us", "UTC"), {"type": "int64", "arrow": "timestamp[us, tz=UTC]"}),
        (pa.date32(), {"type": "int64", "arrow": "date32[day]"}),
        (pa.time64("ns"), {"type": "int64", "arrow": "time64[ns]"}),
        (pa.duration("ms"), {"type": "int64", "arrow": "duration[ms]"}),
        (pa.list_(pa.int64()), {"type": "int64", "arrow": "list<int64>"}),
        (
            pa.list_(pa.float32(), 4),
            {"type": "float", "shape": [4], "arrow": "fixed_size_list<float, 4>"},
        ),
        (
            pa.fixed_shape_tensor(pa.float32(), (2, 3)),
            {"type": "float", "shape": [2, 3], "arrow": "fixed_size_list<float, 6>"},
        ),
        (pa.list_(pa.list_(pa.string())), {"type": "bytes", "arrow": "list<list<string>>"}),
    ],
)
def test_every_arrow_type(kind: pa.DataType, expected: dict[str, Any]) -> None:
    assert entries(column("x", kind)) == {"x": expected}


def test_text_columns_by_what_their_cells_are() -> None:
    found = entries(text("a", "int64"), text("b", "float"), text("c", "bytes"), text("d", "null"))
    assert found == {"a": {"type": "int64"}, "b": {"type": "float"}, "c": {"type": "bytes"}}


def test_missing_follows_the_nulls_seen() -> None:
    found = entries(text("a", "int64", True), text("b", "int64", None), text("c", "int64", False))
    assert [found[key].get("missing") for key in "abc"] == ["omit", "omit", None]


def test_structs_become_features_of_their_children() -> None:
    deep = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float32()))])
    found = entries(column("meta", pa.struct([("owner", pa.string()), ("at", deep)])))
    assert list(found) == ["meta/owner", "meta/at/x", "meta/at/y"]
    assert all(entry["missing"] == "omit" for entry in found.values())


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.struct([("a", pa.int64())])),
        pa.list_(pa.map_(pa.string(), pa.int64())),
        pa.struct([("m", pa.map_(pa.string(), pa.int64()))]),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int64())]),
    ],
)
def test_what_has_no_form_in_a_record_is_an_error_naming_the_column(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"^f\.parquet, column odd") as caught:
        infer_schema([column("odd", kind)], source="f.parquet")
    assert "schema" in str(caught.value) or "column of its own" in str(caught.value)


def test_a_map_names_both_ways_out() -> None:
    with pytest.raises(SchemaError, match=r"JSON.*tags: bytes.*columns of their own"):
        infer_schema([column("tags", pa.map_(pa.string(), pa.int64()))])


def test_columns_without_values_are_left_out_and_named() -> None:
    assert any("empty" in note for note in notes(text("a", "int64"), column("empty", pa.null())))
    with pytest.raises(SchemaError, match="no column has a value"):
        infer_schema([text("empty", "null")])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (column("t", pa.float64()), ["rounded", "t"]),
        (text("t", "float"), ["rounded", "t"]),
        (column("price", pa.decimal128(9, 2)), ["price", "decimal128(9, 2)", "exact digits"]),
        (column("uid", pa.uint64()), ["uid", "uint64", "9223372036854775807"]),
        (column("when", pa.timestamp("ms")), ["when", "ms since 1970-01-01", "iso8601"]),
        (column("day", pa.date32()), ["day", "days since"]),
        (column("clock", pa.time32("s")), ["clock", "s since midnight"]),
        (column("wait", pa.duration("us")), ["wait", "in us"]),
        (column("ix", pa.list_(pa.list_(pa.int64()))), ["ix", "ix/row_lengths"]),
        (text("score", "bytes", False, "b.csv line 2 holds 'five'"),
         ["score is bytes: b.csv line 2 holds 'five'"]),
        (column("late", pa.int64(), absent=("b.csv",)), ["late", "b.csv"]),
    ],
)  # fmt: skip
def test_what_is_not_obvious_is_said(given: Column, words: list[str]) -> None:
    said = "\n".join(notes(given))
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize(
    "given", [column("a", pa.int64()), column("a", pa.float32()), text("a", "bytes")]
)
def test_what_is_obvious_is_not_said(given: Column) -> None:
    assert notes(given) == ()


def test_columns_of_one_kind_share_a_note() -> None:
    said = notes(*(text(f"x{chr(97 + n)}", "float") for n in range(20)))
    assert len(said) == 1
    assert "xa, xb" in said[0]
    assert "12 more" in said[0]


def test_many_numbered_columns_get_the_vector_form_suggested() -> None:
    pixels = [column(f"pixel{n}", pa.uint8()) for n in range(64)]
    (said,) = notes(*pixels)
    assert 'pixel: {columns: "pixel*", type: int64}' in said
    (said,) = notes(*pixels, column("pixel_format", pa.string()))
    assert 'columns: "pixel[0-9]*"' in said
    assert notes(*pixels[:49]) == ()


def test_a_label_hint_becomes_a_numbered_feature() -> None:
    hint = LabelHint("image/class/label", "image/class/text", ("ant", "bee"))
    schema, _ = infer_schema([column("image/class/text", pa.string())], [hint])
    assert schema.features["image/class/label"].entries() == {
        "column": "image/class/text",
        "type": "int64",
        "labels": ["ant", "bee"],
    }


@pytest.mark.parametrize(
    "columns",
    [
        [column("a", pa.struct([("b", pa.int64())])), column("a/b", pa.int64())],
        [column("a", pa.struct([("b", pa.int64()), ("b", pa.int64())]))],
        [column("a", pa.int64()), column("a", pa.string())],
    ],
)
def test_two_features_of_one_name_are_an_error(columns: list[Column]) -> None:
    with pytest.raises(SchemaError, match="two features would be called a"):
        infer_schema(columns)


def test_row_lengths_never_meet_a_column() -> None:
    columns = [
        column("a", pa.list_(pa.list_(pa.int64()))),
        column("a/row_lengths", pa.list_(pa.int64())),
    ]
    schema, _ = infer_schema(columns)
    with pytest.raises(SchemaError, match="a/row_lengths"):
        bind(schema, columns)


def test_a_file_that_lacks_a_column_is_left_to_the_user() -> None:
    late = column("late", pa.int64(), True, absent=("b.csv",))
    schema, _ = infer_schema([late])
    assert schema.features["late"].missing == Missing("error")
    with pytest.raises(SchemaError, match=r'b\.csv lacks the column "late".*missing: omit'):
        bind(schema, [late])


def test_source_options_are_kept() -> None:
    schema, _ = infer_schema([text("a", "int64")], (), {"null_words": ("NA", "-"), "name": "csv"})
    assert list(schema.source) == ["name", "null_words"]
    assert schema.source == {"name": "csv", "null_words": ["NA", "-"]}
