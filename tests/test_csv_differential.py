"""What convert makes of CSV, cell by cell, against Python's csv module and the written grammar."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfrec_cli
from tfrec_cli._kernel._reference import _messages
from tfrec_cli.errors import TfrecError
from tfrec_cli.records.framing import read_records

# The reference: plain Python over one cell. A cell is a value, MISSING, or a FAULT.

MISSING, FAULT = "missing", "fault"
USUAL = ["NA", "N/A", "#N/A", "#NA", "<NA>", "NULL", "None", "-", "--", ".", "?", "\\N"]
USUAL += ["na", "n/a", "#n/a", "#na", "<na>", "null", "none", "Null", "NONE"]


def number_of(text, dialect):
    """The number with a point and without marks of thousands, or None."""
    decimal, thousands = dialect.get("decimal", "."), dialect.get("thousands")
    if thousands and thousands in text:
        groups = rf"[+-]?[1-9]\d{{0,2}}({re.escape(thousands)}\d{{3}})+({re.escape(decimal)}\d*)?"
        if not re.fullmatch(groups, text, re.ASCII):
            return None
        text = text.replace(thousands, "")
    if decimal != "." and "." in text:
        return None
    text = text.replace(decimal, ".")
    pattern = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    return text if re.fullmatch(pattern, text) else None


def is_missing(text, kind, words):
    if words is not None:
        return text.strip(" \t") in words or not (text if kind == "bytes" else text.strip(" \t"))
    if kind == "bytes":
        return not text
    text = text.strip(" \t")
    is_nan = re.fullmatch("[+-]?nan", text, re.IGNORECASE) is not None
    return not text or text in USUAL or (kind == "int64" and is_nan)


def value_of(text, kind, dialect, words):
    """What the cell is in a feature of this kind."""
    if is_missing(text, kind, words):
        return MISSING
    if kind == "bytes":
        return text.encode()
    bare = text.strip(" \t")
    number = number_of(bare, dialect)
    if kind == "int64":
        if bare.lower() in ("true", "yes", "t", "y", "false", "no", "f", "n"):
            return int(bare.lower() in ("true", "yes", "t", "y"))
        if number is None or not re.fullmatch(r"[+-]?[0-9]+(\.0*)?", number):
            return FAULT
        whole = int(number.partition(".")[0])
        return whole if -(2**63) <= whole < 2**63 else FAULT
    if special := re.fullmatch("([+-]?)(nan|inf|infinity)", bare, re.IGNORECASE):
        is_nan = special[2].lower() == "nan"
        return math.nan if is_nan else math.inf * (-1 if special[1] == "-" else 1)
    if number is None:
        return FAULT
    with np.errstate(over="ignore"):
        rounded = np.float32(float(number))
    return FAULT if np.isinf(rounded) else float(rounded)


def kind_of(texts, dialect, words):
    """What a column is over all its cells, or None without any."""
    seen = {meaning(text, dialect, words) for text in texts} - {"null"}
    numbers = seen & {"int64", "float", "nan"}
    if "text" in seen or (numbers and "bool" in seen):
        return "bytes"
    if "float" in seen:
        return "float"
    if seen & {"int64", "bool"}:
        return "int64"
    if numbers:
        return "float"
    return "bytes" if seen else None


def meaning(text, dialect, words):
    bare = text.strip(" \t")
    if not text or (words is not None and bare in words):
        return "null"
    if not bare or (words is None and bare in USUAL):
        return "word"
    if special := re.fullmatch("[+-]?(nan|inf|infinity)", bare, re.IGNORECASE):
        return "nan" if words is None and special[1].lower() == "nan" else "float"
    if bare in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return "bool"
    number = number_of(bare, dialect)
    if number is None or re.match(r"[+-]?0[0-9]", number):
        return "text"
    if re.fullmatch("-?[0-9]+", number):
        return "int64" if -(2**63) <= int(number) < 2**63 else "text"
    return "text" if re.fullmatch(r"\+[0-9]+", number) else "float"


# Documents ----------------------------------------------------------------------------------------

PIECES = st.text(st.sampled_from(list("ab1. \"',;|\t\n\r\\é\0")), max_size=4)
NUMBERS = st.one_of(
    st.integers(-20, 20).map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.floats(width=64).map(repr),
    st.sampled_from(["007", "+5", "1,234", "1.234,5", "12.0", "1e5", "1e39", "-0.0", " 7 "]),
)
WORDS = st.sampled_from(
    ["", "", "NA", "null", "-", "nan", "inf", "true", "False", "yes", "x9", "five", " ", "0x10"]
)
COLUMNS = {
    "ints": st.integers(-999, 999).map(str) | st.sampled_from(["", "", "NA", "x9"]),
    "numbers": NUMBERS | WORDS,
    "words": WORDS,
    "any": PIECES | NUMBERS | WORDS,
}


@st.composite
def documents(draw):
    """Rows of cells, the text that Python's csv module writes for them, and the source options."""
    quote = draw(st.sampled_from(['"', "'"]))
    delimiter = draw(st.sampled_from([",", ";", "\t", "|"]))
    escape = draw(st.sampled_from([None, "\\"]))
    numbers = draw(
        st.sampled_from([{}, {}, {"decimal": ",", "thousands": "."}, {"thousands": ","}])
    )
    words = draw(st.sampled_from([None, None, ("x9", "-"), ()]))
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*(COLUMNS[kind] for kind in kinds)), min_size=1, max_size=12))
    rows = [list(row) for row in rows]
    for row in rows:
        if len(kinds) > 1 and draw(st.integers(0, 7)) == 0:
            row.append("more") if draw(st.booleans()) else row.pop()
    out = io.StringIO()
    # Line ends are quoted where they are those of the writer; all cells are where they are not.
    always = draw(st.booleans())
    csv.writer(
        out,
        delimiter=delimiter,
        quotechar=quote,
        escapechar=escape,
        doublequote=escape is None or draw(st.booleans()),
        lineterminator=draw(st.sampled_from(["\n", "\r", "\r\n"])) if always else "\r\n",
        quoting=csv.QUOTE_ALL if always else csv.QUOTE_MINIMAL,
    ).writerows([[f"c{i}" for i in range(len(kinds))], *rows])
    options = {"delimiter": delimiter, "quote": quote, **numbers}
    if escape:
        options["escape"] = escape
    if words is not None:
        options["null_words"] = ",".join(words)
    return out.getvalue(), options, words, len(kinds)


def parsed(text, options):
    """The rows below the header as Python's csv module reads them, each with its first line."""
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=options["delimiter"],
        quotechar=options["quote"],
        escapechar=options.get("escape"),
    )
    next(reader)
    rows, line = [], reader.line_num + 1
    for row in reader:
        rows.append((line, row))
        line = reader.line_num + 1
    return rows


def expected(rows, kinds, options, words):
    """The records, and the rejects as (line, column); columns without a kind are left out."""
    records, rejects = [], []
    for line, row in rows:
        if len(row) != len(kinds):
            rejects.append((line, None))
            continue
        values = {
            f"c{i}": value_of(cell, kind, options, words)
            for i, (cell, kind) in enumerate(zip(row, kinds, strict=True))
            if kind is not None
        }
        faults = sorted(name for name, value in values.items() if value == FAULT)
        if faults:
            rejects.append((line, faults[0]))
        else:
            records.append({k: v for k, v in values.items() if v is not MISSING})
    return records, rejects


def converted(path, dest, schema, options, jobs):
    """The records that convert writes for the file, and its rejects as (line, column)."""
    rejects = f"{dest}.jsonl"
    how = {"on_error": "skip", "rejects": rejects, "jobs": jobs, "source_options": options}
    tfrec_cli.convert(str(path), str(dest), schema=schema, **how)
    (shard,) = Path(dest).glob("*.tfrecord-*")
    records = [values_of(record) for record in read_records(shard)]
    lines = Path(rejects).read_text("utf-8").splitlines()
    return records, [(r["line"], r["column"]) for r in map(json.loads, lines)]


def values_of(record):
    """The one value of each feature."""
    example = _messages()["Example"].FromString(record)
    features = _messages()["Features"].FromString(example.features).feature
    found = {}
    for key, feature in features.items():
        kind = feature.WhichOneof("kind")
        (value,) = getattr(feature, kind).value
        # Floats are held as their bits.
        is_float = kind == "float_list"
        found[key] = struct.unpack("<f", struct.pack("<I", value))[0] if is_float else value
    return found


def schema_for(kinds):
    return {
        "version": 1,
        "features": {f"c{i}": {"type": k, "missing": "omit"} for i, k in enumerate(kinds) if k},
    }


BLOCKS = st.sampled_from([1, 3, 17, 100, 2**22])
JOBS = st.sampled_from([1, 3])
FEW = settings(max_examples=60, deadline=None)


def check(document, kinds, block, jobs, schema):
    text, options, words, _ = document
    records, rejects = expected(parsed(text, options), kinds, options, words)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        path.write_bytes(text.encode())
        options = options | {"block": block}
        if not records:
            with pytest.raises(TfrecError, match=f"none of the {len(rejects)} rows"):
                converted(path, Path(folder, "out"), schema, options, jobs)
            return
        found, left_out = converted(path, Path(folder, "out"), schema, options, jobs)
    assert left_out == rejects
    assert list(map(spelled, found)) == list(map(spelled, records))


def spelled(record):
    """A record in a form in which NaN equals NaN, and 0.0 is not -0.0."""
    return {key: repr(value) for key, value in sorted(record.items())}


@given(documents(), BLOCKS, JOBS)
@FEW
def test_inferred_types_give_what_the_csv_module_and_the_grammar_say(document, block, jobs):
    text, options, words, width = document
    rows = [row for _, row in parsed(text, options) if len(row) == width]
    kinds = [kind_of([row[i] for row in rows], options, words) for i in range(width)]
    if any(kinds):
        check(document, kinds, block, jobs, None)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        path.write_bytes(text.encode())
        ragged = [line for line, row in parsed(text, options) if len(row) != width]
        message = f"x.csv, line {ragged[0]}: found" if ragged else "no column has a value"
        with pytest.raises(TfrecError, match=message):
            converted(path, Path(folder, "out"), None, options | {"block": block}, jobs)


@given(documents(), st.data(), BLOCKS, JOBS)
@FEW
def test_given_types_give_what_the_csv_module_and_the_grammar_say(document, data, block, jobs):
    kind = st.sampled_from(["int64", "float", "bytes"])
    kinds = data.draw(st.lists(kind, min_size=document[3], max_size=document[3]))
    check(document, kinds, block, jobs, schema_for(kinds))
