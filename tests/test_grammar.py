"""The grammar of text cells against an obvious reading of it, one cell at a time."""

import math
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.schema.grammar import (
    Cell,
    KindFacts,
    Meaning,
    TextRules,
    classify,
    null_declared,
    parse_float,
    parse_int64,
)

USUAL = TextRules()
WORDS = [
    "NA",
    "na",
    "N/A",
    "n/a",
    "#N/A",
    "#n/a",
    "#NA",
    "#na",
    "<NA>",
    "<na>",
    "NULL",
    "null",
    "Null",
    "None",
    "none",
    "NONE",
    "-",
    "--",
    ".",
    "?",
    "\\N",
]
GERMAN = TextRules(decimal=",", thousands=".")
ENGLISH = TextRules(thousands=",")
DECLARED = TextRules(null_words=("missing", "-99", "nan"))
RULES = [USUAL, GERMAN, ENGLISH, DECLARED, TextRules(null_words=()), TextRules(decimal=",")]


# The reference: plain Python over one cell.


def canonical(text, rules):
    """The number with a point and without thousands marks, or None."""
    d, t = re.escape(rules.decimal), rules.thousands
    if t is not None and t in text:
        pattern = rf"[+-]?[1-9]\d{{0,2}}({re.escape(t)}\d{{3}})+({d}\d*)?"
        if not re.fullmatch(pattern, text, re.ASCII):
            return None
        text = text.replace(t, "")
    if rules.decimal != "." and "." in text:
        return None
    return text.replace(rules.decimal, ".")


def missing_word(text, rules):
    return text in (WORDS if rules.null_words is None else rules.null_words)


def is_nan(text):
    return re.fullmatch("[+-]?nan", text, re.IGNORECASE | re.ASCII)


def read_int64(cell, rules):
    """The integer, None where missing, "bad" or "beyond"."""
    if cell is None:
        return None
    text = cell.strip(" \t")
    if missing_word(text, rules) or not text:
        return None
    if is_nan(text):
        return None if rules.null_words is None else "bad"
    if text.lower() in ("true", "yes", "t", "y"):
        return 1
    if text.lower() in ("false", "no", "f", "n"):
        return 0
    number = canonical(text, rules)
    if number is None or not re.fullmatch(r"[+-]?[0-9]+(\.0*)?", number):
        return "bad"
    value = int(number.partition(".")[0])
    return value if -(2**63) <= value < 2**63 else "beyond"


def read_float(cell, rules):
    if cell is None:
        return None
    text = cell.strip(" \t")
    if missing_word(text, rules) or not text:
        return None
    if is_nan(text):
        return math.nan
    if re.fullmatch("[+-]?inf(inity)?", text, re.IGNORECASE | re.ASCII):
        return -math.inf if text[0] == "-" else math.inf
    number = canonical(text, rules)
    if number is None or not re.fullmatch(
        r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", number
    ):
        return "bad"
    value = float(number)
    with np.errstate(over="ignore"):
        return "beyond" if np.isinf(np.float32(value)) else value


def mean(cell, rules):
    """What the cell means to inference."""
    if cell is None:
        return Meaning.NULL
    text = cell.strip(" \t")
    if rules.null_words is not None and text in rules.null_words:
        return Meaning.NULL
    if not text:
        return Meaning.EMPTY
    if missing_word(text, rules):
        return Meaning.WORD
    if is_nan(text):
        return Meaning.NAN if rules.null_words is None else Meaning.SPECIAL
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return Meaning.BOOLEAN
    if re.fullmatch("[+-]?inf(inity)?", text, re.IGNORECASE | re.ASCII):
        return Meaning.SPECIAL
    number = canonical(text, rules) or ""
    if re.fullmatch("-?(0|[1-9][0-9]*)", number):
        return Meaning.INTEGER if -(2**63) <= int(number) < 2**63 else Meaning.TEXT
    plain = re.fullmatch(r"[+-]?(([0-9]+)\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", number)
    if not plain or re.match("[+-]?0[0-9]", number) or re.fullmatch(r"[+-]?[0-9]+", number):
        return Meaning.TEXT
    return Meaning.FLOAT


numberish = st.text("0123456789+-.,eE xXnaNifINFty\t", max_size=8)
digits = st.integers(-(2**65), 2**65).map(str)
spelled = st.floats(width=64).map(repr) | st.from_regex(
    r"\A[+-]?0{0,2}[0-9]{0,20}\.?[0-9]{0,4}([eE][+-]?[0-9]{1,3})?\Z"
)
words = st.sampled_from(
    [
        *WORDS,
        "nan",
        "NaN",
        "-NAN",
        "+nan",
        "inf",
        "-Infinity",
        "+INF",
        "iNf",
        "true",
        "False",
        "TRUE",
        "yes",
        "No",
        "t",
        "N",
        "missing",
        "-99",
        "1,234",
        "1.234,5",
        "12,34",
        "0x10",
        "1_0",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "2024-01-01",
        "3.4028235e38",
        "3.4028236e38",
        "1e39",
        "1e400",
        "1e-400",
        "-0.0",
        "007",
        "+5",
        "+007",
        "١٢",
        "1\n",
        "\n",
        "nan(1)",
        "12:30",
        "1.2.3",
        "--1",
        "1-2",
        "\xa01",
        "5,0",
        "1\x00",
    ]
)
padded = st.tuples(st.sampled_from(["", " ", "\t "]), words | digits, st.sampled_from(["", "  "]))
cells = st.none() | words | digits | spelled | numberish | padded.map("".join) | st.text(max_size=4)
columns = st.lists(cells, max_size=12)


def outcome(parsed, length):
    """One entry a cell: the value, None, "bad" or "beyond"."""
    result = parsed.values.to_pylist()
    assert len(result) == length
    for mark, positions in (("bad", parsed.bad), ("beyond", parsed.beyond)):
        for position in positions:
            assert result[position] is None
            result[position] = mark
    return [repr(value) for value in result]


@pytest.mark.parametrize("rules", RULES, ids=str)
@given(column=columns)
def test_a_cell_is_read_as_the_grammar_says(rules, column):
    array = pa.array(column, pa.string())
    ints = outcome(parse_int64(array, rules), len(column))
    floats = outcome(parse_float(array, rules), len(column))
    assert ints == [repr(read_int64(cell, rules)) for cell in column]
    assert floats == [repr(read_float(cell, rules)) for cell in column]


@given(column=st.lists(digits | spelled, max_size=6))
def test_columns_of_numbers_alone_take_no_other_way(column):
    array = pa.array(column, pa.string())
    assert outcome(parse_int64(array, USUAL), len(column)) == [
        repr(read_int64(cell, USUAL)) for cell in column
    ]
    assert outcome(parse_float(array, USUAL), len(column)) == [
        repr(read_float(cell, USUAL)) for cell in column
    ]
    assert classify(array, USUAL) == facts_of(column, USUAL)


def facts_of(column, rules):
    found = [mean(cell, rules) for cell in column]
    firsts = {m: found.index(m) for m in found if m != Meaning.NULL}
    cells = {m: Cell(position, column[position]) for m, position in firsts.items()}
    return KindFacts(tuple(found.count(m) for m in Meaning), cells)


@pytest.mark.parametrize("rules", RULES, ids=str)
@given(column=columns)
def test_inference_sees_each_cell_as_the_grammar_says(rules, column):
    assert classify(pa.array(column, pa.string()), rules) == facts_of(column, rules)


@given(before=columns, column=columns, after=columns)
def test_neighbours_slices_and_chunks_change_nothing(before, column, after):
    alone = pa.array(column, pa.string())
    among = pa.array(before + column + after, pa.large_string())[len(before) :][: len(column)]
    for parse in (parse_int64, parse_float):
        assert outcome(parse(alone, USUAL), len(column)) == outcome(
            parse(among, USUAL), len(column)
        )
    whole = classify(pa.array(before + column + after, pa.string()), USUAL)
    parts = [pa.array(part, pa.string()) for part in (before, column, after)]
    assert classify(pa.chunked_array(parts), USUAL) == whole
    merged = classify(parts[0], USUAL).merge(classify(parts[1], USUAL))
    assert merged.merge(classify(parts[2], USUAL), len(before) + len(column)) == whole


@given(column=columns)
def test_what_inference_settles_can_be_read(column):
    array = pa.array(column, pa.string())
    facts = classify(array, USUAL)
    if facts.kind in ("int64", "float"):
        parsed = (parse_int64 if facts.kind == "int64" else parse_float)(array, USUAL)
        assert not len(parsed.bad)
        assert parsed.values.null_count == facts.nulls + len(parsed.beyond)


@pytest.mark.parametrize(
    ("column", "kind", "nulls"),
    [
        ([], "null", 0),
        ([None, None], "null", 2),
        (["1", None, "-3"], "int64", 1),
        (["1", "NA", "NaN"], "int64", 2),
        (["1", "NA", "NaN", "2.5"], "float", 1),
        (["100", "1E+05", "2.5"], "float", 0),
        (["nan", "NA"], "float", 1),
        (["NA", "NC", "null"], "bytes", 0),
        (["NA", None], "bytes", 1),
        (["", ""], "bytes", 0),
        (["1", ""], "int64", 1),
        (["01", "02"], "bytes", 0),
        (["0", "-0", "10"], "int64", 0),
        (["+4930123456"], "bytes", 0),
        (["+1.5", "-2"], "float", 0),
        (["18446744073709551615", "1"], "bytes", 0),
        (["18446744073709551615", "1.5"], "bytes", 0),
        (["TRUE", "NA", "FALSE"], "int64", 1),
        (["true", "1"], "bytes", 0),
        (["yes", "no"], "bytes", 0),
        (["0x10"], "bytes", 0),
        (["2024-01-01"], "bytes", 0),
        ([" 1", "2 ", "\t3"], "int64", 0),
        (["1e39"], "float", 0),
        (["inf", "-Infinity", "NaN", "-0.0"], "float", 0),
    ],
)
def test_kinds(column, kind, nulls):
    facts = classify(pa.array(column, pa.string()), USUAL)
    assert (facts.kind, facts.nulls) == (kind, nulls)


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (["1", "five", "3"], 'b.csv line 2 holds "five"'),
        (["a7", "12", "b9"], ""),
        (["five", "1"], 'b.csv line 2 holds "five"'),
        (["1", "2.5"], 'b.csv line 2 holds "2.5"'),
        (["10115", "01067"], 'b.csv line 2 holds "01067", whose leading zeros a number would lose'),
        (["1", str(2**63)], f'b.csv line 2 holds "{2**63}", which is beyond int64'),
        (["+49"], 'b.csv line 2 holds "+49", whose plus an int64 would lose'),
        (["true", "1"], 'b.csv line 2 holds "true"'),
        (["true", "false"], "true and false are written as 1 and 0"),
        (["NA", "five"], ""),
        (["1.5", "NA"], ""),
        (["1", "2"], ""),
    ],
)
def test_reasons(column, why):
    assert classify(pa.array(column), USUAL).why("b.csv line 2") == why


def test_declared_null_words_are_missing_in_text_too():
    column = pa.array(["missing", " missing ", "-99", "x", "", None])
    assert null_declared(column, DECLARED).to_pylist() == [None, None, None, "x", "", None]
    assert null_declared(column, USUAL) is column
    facts = classify(column, DECLARED)
    assert (facts.kind, facts.nulls) == ("bytes", 4)


def test_decimal_comma_and_thousands():
    column = pa.array(["10,20", "1.299,99", "-1.000.000", "3", "1.5", "12.34,5"])
    parsed = parse_float(column, GERMAN)
    assert parsed.values.to_pylist() == [10.2, 1299.99, -1e6, 3.0, None, None]
    assert parsed.bad.tolist() == [4, 5]
    assert classify(column[:4], GERMAN).kind == "float"
    assert parse_int64(pa.array(["1,234", "12,34"]), ENGLISH).values.to_pylist() == [1234, None]
    assert classify(pa.array(["1,234"]), USUAL).kind == "bytes"


@given(st.floats(width=64, allow_nan=False))
def test_floats_are_rounded_as_python_reads_them(value):
    parsed = parse_float(pa.array([repr(value)]), USUAL)
    if len(parsed.beyond):
        assert abs(value) > float(np.finfo(np.float32).max)
    else:
        assert np.float64(parsed.values[0].as_py()).tobytes() == np.float64(value).tobytes()
