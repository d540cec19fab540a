"""Schema files: read with lines and YAML 1.2 scalars, written so that they read back equal."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.errors import SchemaError
from tfrec_cli.schema import Feature, Schema, dump_schema, load_schema, parse_schema
from tfrec_cli.schema.yaml import parse_yaml

WORDS = ["no", "yes", "on", "off", "null", "~", "true", "1_000", "2024-01-01", "0o14", "1e5", "=",
         "<<", ":", "a: b", " lead", "trail ", "#x", "x #y", "-", "- a", "?", "é", "😀", "*a", "&a",
         "%", "@", "`", "'", '"', "\t", "\n", "\r\n", "\x85", "\u2028", "\ufeff", "\x7f", "12:30",
         "0x10", ".5", ".inf", "-.INF", ".nan", "+1", "[", "{", "!x", "|", ">", "a" * 200,
         "\udcff", "\U0010ffff", "\x00"]  # fmt: skip
names = st.one_of(st.text(max_size=20), st.sampled_from(WORDS))
integers = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(width=32, allow_nan=False)


def message(text: str) -> str:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text, "p.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def constant(text: str) -> object:
    return parse_yaml(f"a: {text}", "f.yaml")[0]["a"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("on", "on"), ("Yes", "Yes"), ("n", "n"), ("true", True), ("False", False),
        ("12", 12), ("012", 12), ("-7", -7), ("0o14", 12), ("0x1F", 31), ("1_000", "1_000"),
        ("1e5", 1e5), ("1.", 1.0), (".5", 0.5), (".inf", float("inf")), ("-.inf", -float("inf")),
        ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("~", None), ("null", None), ("", None),
        ("'12'", "12"), ('"null"', "null"), ("=", "="), ("0b11", "0b11"), ("!!str 5", "5"),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    assert constant(text) == value
    assert type(constant(text)) is type(value)


def test_names_are_text_as_written() -> None:
    schema = parse_schema(
        "features:\n  1: {column: 007, labels: [no, 1.0, 1, true, ~], type: int64}\n"
        "  no: {columns: [1, null], type: float}\n",
        "p.yaml",
    )
    assert list(schema.features) == ["1", "no"]
    assert schema.features["1"].column == "007"
    assert schema.features["1"].labels == ("no", "1.0", "1", "true", "~")
    assert schema.features["no"].columns == ("1", "null")


def test_lines_of_every_part() -> None:
    _, lines = parse_yaml("a:\n  b: [1,\n    2]\n# c\nd: 3\n", "f.yaml")
    assert lines == {
        (): 1, ("a",): 1, ("a", "b"): 2, ("a", "b", 0): 2, ("a", "b", 1): 3, ("d",): 5
    }  # fmt: skip


def test_anchors_are_followed() -> None:
    schema = parse_schema("features:\n  a: &f {type: int64, missing: omit}\n  b: *f\n", "p.yaml")
    assert schema.features["a"] == schema.features["b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "p.yaml: the schema is empty"),
        ("# only a comment\n", "p.yaml: the schema is empty"),
        ("- a\n", "p.yaml, line 1: found a list, expected a mapping"),
        ("version: 1\nfeatures:\n\ta: int64\n", "p.yaml, line 3: found a tab"),
        ("features:\n  a: int64\n  b: float\n  a: bytes\n", 'line 4: the key "a" stands on line 2'),
        ("features: {a: int64}\nx: 'open\n", "p.yaml, line 3: not YAML"),
        ("features: {a: int64}\n--- \nb: c\n", "p.yaml, line 2: not YAML"),
        ("features:\n  a: !!python/object:os.system {}\n", "p.yaml, line 2: the tag"),
        ("features: {a: *b}\n", "p.yaml, line 1: not YAML"),
        ("features: {? [a] : int64}\n", "p.yaml, line 1: a key is a list or mapping"),
        ("features: {a: \x01}\n", "p.yaml, line 1: control character U+0001"),
        ("a: &a [*a]\n", "nested too deeply"),
        ("[" * 1200, "nested too deeply"),
        ("source: {a: " + "9" * 5000 + "}\n", "p.yaml, line 1"),
        ('features: {"\\UFFFFFFFF": int64}\n', "p.yaml"),
    ],
)
def test_what_is_not_a_schema_file_is_refused_with_its_line(text: str, expected: str) -> None:
    assert expected in message(text)


def test_aliases_cannot_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfrec_cli.schema.yaml.MAX_NODES", 10_000)
    levels = "".join(f"l{i + 1}: &l{i + 1} [{', '.join([f'*l{i}'] * 10)}]\n" for i in range(9))
    assert "too many aliases" in message("l0: &l0 [x]\n" + levels)


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes("features:\n  größe: int64\n".encode("latin-1"))
    with pytest.raises(SchemaError, match=r"s\.yaml, line 2: byte 0xf6 is not UTF-8"):
        load_schema(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="No such file"):
        load_schema(tmp_path / "gone.yaml")
    with pytest.raises(SchemaError, match="directory"):
        load_schema(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\r\nfeatures:\r\n  a: int64\r\n")
    assert load_schema(path) == load_schema({"features": {"a": "int64"}})


@given(st.text())
def test_any_text_is_a_schema_or_one_line_of_error(text: str) -> None:
    try:
        parse_schema(text, "p.yaml")
    except SchemaError as error:
        said = str(error)
    else:
        return
    assert said.startswith("p.yaml")
    assert "\n" not in said


rules = st.sampled_from(["error", "omit"])


@st.composite
def features(draw: st.DrawFn) -> Feature:
    kind = draw(st.sampled_from(["int64", "float", "bytes"]))
    value = {"int64": integers, "float": floats, "bytes": names}[kind]
    labels = st.lists(st.text(min_size=1).filter(lambda t: not {"\n", "\r"} & {*t}), min_size=1)
    default = st.one_of(rules, st.fixed_dictionaries({"default": value}))
    form = draw(st.sampled_from(["plain", "column", "columns", "constant", "labels", "list"]))
    entries = {"type": kind} | draw(st.fixed_dictionaries({}, optional={"missing": default}))
    if form == "column":
        entries["column"] = draw(names)
    elif form == "columns":
        entries["columns"] = draw(st.one_of(names, st.lists(names, min_size=1)))
    elif form == "constant":
        entries = {"type": kind, "constant": draw(st.one_of(value, st.lists(value, min_size=1)))}
    elif form == "labels":
        unknown = st.one_of(rules, st.fixed_dictionaries({"default": integers}))
        entries = {"type": "int64", "labels": draw(labels.map(lambda x: list(dict.fromkeys(x))))}
        entries["unknown"] = draw(unknown)
    elif form == "list":
        entries |= {"null_item": draw(st.sampled_from(["error", "drop", {"default": draw(value)}]))}
        entries |= draw(
            st.fixed_dictionaries(
                {"separator": names.filter(bool)},
                optional={"shape": st.lists(st.integers(1, 9), min_size=1, max_size=3)},
            )
        )
    return Feature.model_validate(entries)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
schemas = st.builds(
    lambda source, rest, features: Schema(source=source, rest=rest, features=features),
    st.dictionaries(names, plain, max_size=4),
    st.sampled_from(["drop", "keep"]),
    st.dictionaries(names, features(), min_size=1, max_size=5),
)


@given(schemas, st.lists(names, max_size=2))
def test_a_written_schema_reads_back_equal(schema: Schema, notes: list[str]) -> None:
    text = dump_schema(schema, notes)
    text.encode()
    assert parse_schema(text, "s.yaml") == schema
    assert dump_schema(parse_schema(text, "s.yaml"), notes) == text


def test_other_yaml_readers_read_names_as_text() -> None:
    schema = load_schema({"features": {"no": "int64", "12:30": "bytes", "0o14": "float"}})
    assert list(yaml.safe_load(dump_schema(schema))["features"]) == ["no", "12:30", "0o14"]


def test_written_files_are_pleasant_to_read() -> None:
    schema = load_schema(
        {
            "source": {"name": "csv", "delimiter": ";"},
            "features": {
                "island": {"type": "bytes"},
                "mass": {"type": "int64", "column": "body_mass_g", "missing": {"default": -1}},
                "species": {"labels": [f"kind {number}" for number in range(9)]},
                "many": {"labels": [f"a rather long class name {number}" for number in range(5)]},
            },
        }
    )
    assert dump_schema(schema, ["island is bytes"]) == (
        "# island is bytes\n"
        "version: 1\n"
        "source: {name: csv, delimiter: ;}\n"
        "features:\n"
        "  island: bytes\n"
        "  mass: {column: body_mass_g, type: int64, missing: {default: -1}}\n"
        "  species:\n"
        "    type: int64\n"
        "    labels: [kind 0, kind 1, kind 2, kind 3, kind 4, kind 5, kind 6, kind 7, kind 8]\n"
        "  many:\n"
        "    type: int64\n"
        "    labels:\n"
        + "".join(f"    - a rather long class name {number}\n" for number in range(5))
    )  # fmt: skip
