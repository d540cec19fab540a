"""What the CSV source gives for files as people have them."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import pickle
import threading
import time
import weakref
from dataclasses import replace

import crc32c
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tfrec_cli.errors import CellError, SourceError, UsageError
from tfrec_cli.schema.grammar import Meaning
from tfrec_cli.sources import csv_layout, csv_stream, csv_survey
from tfrec_cli.sources.base import Needs
from tfrec_cli.sources.csv import CsvSource
from tfrec_cli.sources.csv_options import CsvOptions
from tfrec_cli.sources.registry import open_source


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def open_csv(*paths, **options):
    return CsvSource(paths, CsvOptions(**options))


def rows_of(source, survey, columns=None):
    """All rows as dicts, and all faults as (file, line, column, reason)."""
    columns = [c.name for c in survey.columns] if columns is None else columns
    rows, faults = [], []
    for partition in survey.partitions:
        batches = list(source.read(partition, columns))
        assert sum(b.data.num_rows for b in batches) == partition.rows
        for batch in batches:
            rows += batch.data.to_pylist()
            for f in batch.faults:
                where = batch.origin.locate(f.row)
                faults.append((where.file, where.line, f.column, f.reason))
    return rows, faults


def read(*paths, jobs=1, **options):
    source = open_csv(*paths, **options)
    survey = source.survey(Needs(jobs=jobs))
    return rows_of(source, survey)[0], survey


def fails(*paths, **options):
    with pytest.raises(SourceError) as caught:
        open_csv(*paths, **options).survey(Needs())
    message = str(caught.value)
    assert "\n" not in message
    return message


TEXTS = st.text(st.sampled_from(list("ab \"',;|\t\n\r\\é\0")), max_size=5)


@st.composite
def written(draw):
    """Text that Python's csv module wrote, and the options that describe its dialect."""
    quote = draw(st.sampled_from(['"', "'", None]))
    delimiter = draw(st.sampled_from([",", ";", "\t", "|"]))
    escape = "\\" if quote is None else draw(st.sampled_from([None, "\\"]))
    width = draw(st.integers(1, 4))
    # An escaped "\r" before "\n" reads back as the writer meant only where a quote holds both.
    cells = TEXTS if quote else st.text(st.sampled_from(list("ab ',;|\t\\é")), max_size=5)
    rows = draw(st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=8))
    # The writer puts only those line ends in quotes that it uses itself.
    quoting = draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])) if quote else csv.QUOTE_NONE
    ends = ["\r\n"] if quoting == csv.QUOTE_MINIMAL else ["\n", "\r\n", "\r"]
    out = io.StringIO()
    writer = csv.writer(
        out,
        delimiter=delimiter,
        quotechar=quote,
        escapechar=escape,
        doublequote=escape is None or draw(st.booleans()),
        lineterminator=draw(st.sampled_from(ends)),
        quoting=quoting,
    )
    writer.writerow([f"n{i}" for i in range(width)])
    writer.writerows([cell if quote else cell or "-" for cell in row] for row in rows)
    options = {"delimiter": delimiter, "quote": quote or "none", "escape": escape}
    return out.getvalue(), options


@given(written(), st.sampled_from([1, 2, 7, 50, 2**22]))
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_cells_are_those_of_the_csv_module(tmp_path, document, block):
    text, options = document
    path = put(tmp_path, "x.csv", text)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=options["delimiter"],
        quotechar=None if options["quote"] == "none" else options["quote"],
        escapechar=options["escape"],
        quoting=csv.QUOTE_NONE if options["quote"] == "none" else csv.QUOTE_MINIMAL,
    )
    _, *expected = [[cell or None for cell in row] for row in reader]
    source = open_csv(path, block=block, **options)
    survey = source.survey(Needs(types=False))
    names = [f"n{i}" for i in range(len(survey.columns))]
    rows, faults = rows_of(source, survey, names)
    assert not faults
    assert [list(row.values()) for row in rows] == expected


def test_partitions_of_any_size_make_the_same_whole(tmp_path):
    lines = [f'{i},"a\r\n{i}",é{i}' for i in range(200)]
    path = put(tmp_path, "x.csv", "i,t,u\n" + "\n".join(lines))
    whole, survey = read(path)
    assert len(whole) == 200
    assert [c.kind for c in survey.columns] == ["int64", "bytes", "bytes"]
    for block in (1, 10, 100, 1000):
        rows, small = read(path, block=block, jobs=3)
        assert rows == whole
        assert small.columns == survey.columns
        assert small.fingerprints == survey.fingerprints
        first = 0
        for part in small.partitions:
            assert part.first_row == first
            first += part.rows
    assert len(small.partitions) > 1


def test_a_cell_larger_than_any_block(tmp_path):
    big = "x\n" * 50_000
    path = put(tmp_path, "x.csv", f'a,b\n1,"{big}"\n2,y\n')
    rows, _ = read(path, block=100)
    assert rows == [{"a": "1", "b": big}, {"a": "2", "b": "y"}]


def test_partitions_and_sources_can_be_pickled(tmp_path):
    path = put(tmp_path, "x.csv", "a\n1\n")
    source = open_csv(path)
    survey = pickle.loads(pickle.dumps(source.survey(Needs())))
    rows, _ = rows_of(pickle.loads(pickle.dumps(source)), survey)
    assert rows == [{"a": "1"}]


def test_columns_come_in_the_order_asked_and_lacking_ones_are_null(tmp_path):
    first = put(tmp_path, "a.csv", "x,y\n1,2\n")
    second = put(tmp_path, "b.csv", "z,y\n3,five\n")
    source = open_csv(first, second)
    survey = source.survey(Needs(jobs=2))
    assert [(c.name, c.absent) for c in survey.columns] == [
        ("x", (second,)),
        ("y", ()),
        ("z", (first,)),
    ]
    assert f'column "x" is absent from {second}' in survey.notices
    rows, _ = rows_of(source, survey, ["z", "x", "y"])
    assert [list(r.items()) for r in rows] == [
        [("z", None), ("x", "1"), ("y", "2")],
        [("z", "3"), ("x", None), ("y", "five")],
    ]
    assert survey.columns[1].reason == f'{second} line 2 holds "five"'
    (batch,) = source.read(survey.partitions[0], [])
    assert (batch.data.num_rows, batch.data.num_columns) == (1, 0)


def test_kinds_and_nulls_are_settled_over_all_rows(tmp_path):
    body = "".join(f"{i},,{i}\n" for i in range(3000)) + "7,8,late\n"
    _, survey = read(put(tmp_path, "x.csv", "a,b,c\n" + body), block=512, jobs=2)
    assert [(c.kind, c.nulls) for c in survey.columns] == [
        ("int64", False),
        ("int64", True),
        ("bytes", False),
    ]
    assert "line 3002" in survey.columns[2].reason
    assert all(c.text is not None and c.type == pa.string() for c in survey.columns)


@pytest.mark.parametrize("last", ["7", "x", ""])
def test_text_that_is_told_by_its_first_cells_is_counted_to_the_end(tmp_path, last):
    """The first block holds more cells than tell a text from a number."""
    body = "".join(f"word {i},{i}\n" for i in range(5000)) + f"{last},{last}\n"
    _, survey = read(put(tmp_path, "x.csv", "a,b\n" + body))
    assert [(c.kind, c.nulls) for c in survey.columns] == [
        ("bytes", last == ""),
        ("bytes" if last == "x" else "int64", last == ""),
    ]
    assert ("line 5002" in survey.columns[1].reason) == (last == "x")


def test_without_types_nothing_is_claimed(tmp_path):
    survey = open_csv(put(tmp_path, "x.csv", "a\n1\n")).survey(Needs(types=False))
    assert [(c.kind, c.nulls) for c in survey.columns] == [(None, None)]


def test_the_fingerprint_is_that_of_the_stored_bytes(tmp_path):
    for name, content in (("x.csv", b"\xef\xbb\xbfa\n1\n"), ("x.csv.gz", gzip.compress(b"a\n1\n"))):
        path = put(tmp_path, name, content)
        (found,) = open_csv(path).survey(Needs(types=False)).fingerprints
        assert (found.path, found.size) == (path, len(content))
        assert found.crc32c == crc32c.crc32c(content)
        assert found.mtime_ns == (tmp_path / name).stat().st_mtime_ns


def zstd(data):
    return pa.compress(data, codec="zstd", asbytes=True)


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zstd)],
)
def test_packed_files(tmp_path, ending, pack):
    text = b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i) for i in range(20_000))
    plain, _ = read(put(tmp_path, "p.csv", text))
    path = put(tmp_path, "x.csv" + ending, pack(text))
    rows, survey = read(path, block=5000)
    assert rows == plain
    assert len(survey.partitions) == 1
    two = put(tmp_path, "two.csv" + ending, pack(text[:40_000]) + pack(text[40_000:]))
    assert read(two)[0] == plain
    misnamed = put(tmp_path, "misnamed.csv", pack(text))
    assert read(misnamed)[0] == plain


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zstd)],
)
def test_packed_files_cut_short(tmp_path, ending, pack):
    text = b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i * 7919 % 10_007) for i in range(50_000))
    packed = pack(text)
    path = put(tmp_path, "x.csv" + ending, packed[: len(packed) // 2])
    assert path in fails(path)


def test_byte_order_marks_and_declared_encodings(tmp_path):
    text = "naïve,b\n“1”,é\n"
    plain = [{"naïve": "“1”", "b": "é"}]
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        assert read(put(tmp_path, "x.csv", text.encode(encoding)))[0] == plain
    for encoding in ("utf-16-le", "utf-16-be", "cp1252", "gb18030", "utf-8"):
        path = put(tmp_path, "x.csv", text.encode(encoding))
        assert read(path, encoding=encoding, block=3)[0] == plain
    assert "utf-16-le" in fails(put(tmp_path, "x.csv", text.encode("utf-16-le")[8:]))


def test_undeclared_encoding_is_a_fault_of_its_row(tmp_path):
    path = put(tmp_path, "x.csv", b"n,city\nAnn,Montr\xe9al\nBo,Rome\n")
    source = open_csv(path)
    survey = source.survey(Needs())
    assert survey.columns[1].kind == "bytes"
    rows, faults = rows_of(source, survey)
    assert faults == [(path, 2, "city", "is not UTF-8: byte 6 of the cell is 0xe9")]
    assert rows[1] == {"n": "Bo", "city": "Rome"}
    assert "line 1" in fails(put(tmp_path, "y.csv", b"\xe9,b\n1,2\n"))


def test_bytes_that_are_not_of_the_declared_encoding(tmp_path):
    path = put(tmp_path, "x.csv", b"a\n1\n\x81\n")
    message = fails(path, encoding="cp1252")
    assert f"{path}, line 3" in message
    assert "0x81" in message
    assert "line 3" in fails(
        put(tmp_path, "y.csv", "a\n1\n2".encode("utf-16-le")[:-1]), encoding="utf-16-le"
    )
    unmarked = put(tmp_path, "z.csv", b"a,b\n\x00\xd8,1")
    assert f"{unmarked}, line 1" in fails(unmarked, encoding="utf-16")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be-marked", "utf-32", "gb18030"])
def test_the_line_of_bytes_that_are_no_text_counts_every_line(tmp_path, monkeypatch, encoding):
    """Whatever the byte order, and wherever chunks part a line end or a character."""
    monkeypatch.setattr(csv_stream, "_CHUNK", 16)
    monkeypatch.setattr(csv_layout, "_SAMPLE", 16)
    codec = encoding.removesuffix("-be-marked").replace("16-be", "16")
    big = encoding == "utf-16-be-marked"
    bad = {"utf-32": b"\0\0\xff\xff", "gb18030": b"\xff"}.get(codec, b"\xdc\xdc" * 2)
    name = "utf-16-be" if big else {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(codec, codec)
    mark = "\ufeff" if codec.startswith("utf") else ""
    for pad in range(9):
        before = mark + "a" * (pad + 1) + "\r\n" + "1\r\n\n22\r" * 9 + "x"
        path = put(tmp_path, "x.csv", before.encode(name) + bad + "\n3\n".encode(name))
        options = {} if mark else {"encoding": codec}
        assert f"{path}, line 29: the byte" in fails(path, block=16, **options)


def test_faults_name_their_lines(tmp_path):
    text = 'a,b\n1,"x\ny"\n\n2\n3,"x"y"\n4,5,6\n7,8\n'
    path = put(tmp_path, "x.csv", text)
    for block in (1, 2**20):
        source = open_csv(path, block=block)
        rows, faults = rows_of(source, source.survey(Needs()))
        assert [fault[:3] for fault in faults] == [(path, n, None) for n in (5, 6, 7)]
        assert rows[0] == {"a": "1", "b": "x\ny"}
        assert rows[4] == {"a": "7", "b": "8"}
        assert len(rows) == 5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["is empty"]),
        ("\n\r\n", ["is empty"]),
        ("a,b\n", ["line 1", "no row"]),
        ('a,b\n1,2\n3,"x\ny\n', ["line 3", "never closed"]),
        ('a,"b\n1,2\n', ["line 1", "never closed"]),
        ("id,v,v\n1,2,3\n", ["line 1", '"v"', "cell 2 and cell 3"]),
        (",column_1\n1,2\n", ["line 1", '"column_1"']),
        (b"PAR1\x15\x04", ["Parquet"]),
        (b"PK\x03\x04xl", ["Excel"]),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, words):
    path = put(tmp_path, "x.csv", content)
    message = fails(path)
    assert all(word in message for word in [path, *words])


def test_a_missing_file_and_a_changed_one(tmp_path):
    assert "no such file" in fails(str(tmp_path / "no.csv"))
    path = put(tmp_path, "x.csv", "a,b\n1,2\n3,4\n")
    source = open_csv(path)
    survey = source.survey(Needs())
    put(tmp_path, "x.csv", "a,b\n1,2\n3\n")
    with pytest.raises(SourceError, match="changed"):
        rows_of(source, survey)
    put(tmp_path, "x.csv", "a,b\n1\n2\n3\n4\n")
    with pytest.raises(SourceError, match="changed"):
        rows_of(source, survey)


def test_a_file_that_changes_while_it_is_scanned_is_refused(tmp_path, monkeypatch):
    path = put(tmp_path, "x.csv", "a,b\n1,2\n3,4\n")

    def reading(*args):
        yield from csv_stream.read_blocks(*args)
        with open(path, "a") as file:
            file.write("5,6\n")

    monkeypatch.setattr(csv_survey, "read_blocks", reading)
    for jobs in (1, 2):
        with pytest.raises(SourceError, match="the file changed while"):
            open_csv(path, block=4).survey(Needs(jobs=jobs))


def test_a_file_replaced_between_its_header_and_its_scan_is_refused(tmp_path, monkeypatch):
    path = put(tmp_path, "x.csv", "a,b\n1,2\n")

    def finding(*args):
        layout = csv_layout.find_layout(*args)
        put(tmp_path, "new", "b,a\n1,2\n")
        (tmp_path / "new").rename(path)
        return layout

    monkeypatch.setattr(csv_survey, "find_layout", finding)
    assert "changed" in fails(path)


def test_the_first_file_with_an_error_is_named_whatever_the_number_of_jobs(tmp_path):
    paths = [put(tmp_path, f"{i}.csv", "a\n" + "1\n" * 50_000) for i in range(3)]
    bad = [put(tmp_path, f"{i}.csv", "") for i in (3, 4)]
    for jobs in (1, 4):
        with pytest.raises(SourceError) as caught:
            open_csv(*paths, *bad).survey(Needs(jobs=jobs))
        assert bad[0] in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "columns", "notice"),
    [
        ("x.csv", "a;b\n1,5;2\n3,5;4\n", ["a", "b"], "delimiter ; detected"),
        ("x.csv", "a|b\n1|2\n", ["a", "b"], "delimiter | detected"),
        ("x.csv", "a\tb\n1\t2\n", ["a", "b"], "delimiter tab detected"),
        ("x.csv", "a;b\n1;2\n3;4;5\n", ["a", "b"], "delimiter ; detected"),
        ("x.csv", "name;price, EUR;n\nx;1;2\ny;3;4\n", ["name", "price, EUR", "n"], "; detected"),
        ("x.tsv", "a\tb,c\n1\t2,3\n", ["a", "b,c"], None),
        ("x.tsv", "a,b\n1,2\n", ["a", "b"], "delimiter , detected"),
        ("x.csv", "text\nso; it goes\nor; not; so\n", ["text"], None),
        ("x.csv", "a;b|c\n1;2|3\n", ["a;b|c"], "the delimiter may be ; or |"),
        ("x.csv", "a,b\n1;1,2;2\n", ["a", "b"], None),
        ("x.csv", "sep=;\r\na,x;b\r\n1;2\r\n", ["a,x", "b"], "delimiter ; by its line sep="),
        ("a.b.tsv", "a\tb\n1\t2\n", ["a", "b"], None),
        ("x.csv", '"a";"b;c"\n"1";"2"\n', ["a", "b;c"], "delimiter ; detected"),
    ],
)
def test_delimiters_are_detected_where_there_is_no_doubt(tmp_path, name, content, columns, notice):
    path = put(tmp_path, name, content)
    survey = open_csv(path).survey(Needs())
    assert [c.name for c in survey.columns] == columns
    if notice is None:
        assert not survey.notices
    else:
        assert path in survey.notices[0]
        assert notice in survey.notices[0]


@pytest.mark.parametrize(
    ("content", "columns", "notice"),
    [
        ("A,B\n1,4,\n2,5,\n", ["A", "B"], "rows end in a delimiter that the header lacks"),
        ("A,B,\n1,4\n2,5\n", ["A", "B"], "header ends in a delimiter and the rows do not"),
        ("A,B,\n1,4,\n2,5,\n", ["A", "B"], "column 3 has neither a name nor a value"),
        ("A,B,\n1,4,\n2,5,6\n", ["A", "B", "column_3"], "column 3 has no name"),
        (",A\n0,1\n1,2\n", ["column_1", "A"], "column 1 has no name"),
        ("A,B\n1,\n2,\n", ["A", "B"], None),
        ("1,2\n3,4\n", ["1", "2"], "give -O header=false"),
        ("A, B\n3,4\n", ["A", " B"], "keeps it"),
        ("A,B\n\n1,2\n\r\n", ["A", "B"], "2 blank lines skipped"),
        ('"A\nx",B\n1,2\n', ["A\nx", "B"], None),
    ],
)
def test_odd_headers(tmp_path, content, columns, notice):
    path = put(tmp_path, "x.csv", content)
    source = open_csv(path)
    survey = source.survey(Needs())
    assert [c.name for c in survey.columns] == columns
    assert not rows_of(source, survey)[1]
    if notice is None:
        assert not survey.notices
    else:
        assert path in survey.notices[0]
        assert notice in survey.notices[0]


def test_a_file_without_the_header_of_the_others_is_told(tmp_path):
    paths = [put(tmp_path, "a.csv", "x,y,z,u\n1,2,3,4\n"), put(tmp_path, "b.csv", "5,6\n7,8\n")]
    survey = open_csv(*paths).survey(Needs())
    assert f'columns "x", "y", "z" and 1 more are absent from {paths[1]}' in survey.notices
    assert any(f"{paths[1]}: no column in common" in notice for notice in survey.notices)


def test_a_quote_left_open_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_stream, "ROW_LIMIT", 10_000)
    path = put(tmp_path, "x.csv", 'a,b\n1,2\n3,"x\n' + "4,5\n" * 100_000)
    assert "line 3: a quote opens" in fails(path, block=100)
    path = put(tmp_path, "y.csv", "a,b\n1,2\n" + "x" * 100_000)
    assert "line 3: the row is longer" in fails(path, block=100)


@pytest.mark.parametrize("jobs", [2, 4])
def test_blocks_in_memory_are_as_many_as_jobs_whatever_the_number_of_files(
    tmp_path, monkeypatch, jobs
):
    class Tracked(csv_stream.Block):
        __slots__ = ("__weakref__",)
        __hash__, __eq__ = object.__hash__, object.__eq__

    paths = [put(tmp_path, f"{i}.csv", "a,b\n" + "1,x\n" * 200) for i in range(8)]
    alive, most = weakref.WeakSet(), []

    def reading(*args):
        for block in csv_stream.read_blocks(*args):
            tracked = Tracked(block.data, block.offset, block.line, block.rows)
            del block
            alive.add(tracked)
            most.append(len(alive))
            yield tracked
            del tracked

    learn = csv_survey._Learner.learn

    def slowly(learner, block):
        time.sleep(0.002)
        return learn(learner, block)

    monkeypatch.setattr(csv_survey, "read_blocks", reading)
    monkeypatch.setattr(csv_survey._Learner, "learn", slowly)
    survey = open_csv(*paths, block=40).survey(Needs(jobs=jobs))
    assert survey.rows == 1600
    assert max(most) <= jobs + 2  # some may be on their way out
    few = open_csv(paths[0], block=40).survey(Needs(jobs=jobs))
    assert few.rows == 200


def test_one_file_is_surveyed_by_all_jobs(tmp_path, monkeypatch):
    threads = set()
    learn = csv_survey._Learner.learn

    def noting(learner, block):
        threads.add(threading.get_ident())
        time.sleep(0.002)
        return learn(learner, block)

    monkeypatch.setattr(csv_survey._Learner, "learn", noting)
    path = put(tmp_path, "x.csv", "a,b\n" + "1,x\n" * 500)
    open_csv(path, block=40).survey(Needs(jobs=3))
    assert len(threads) > 1  # how many more depends on the machine


def test_long_rows_are_looked_at_only_so_far_for_the_delimiter(tmp_path, monkeypatch):
    looked = []
    split = csv_layout.split_row
    monkeypatch.setattr(
        csv_layout, "split_row", lambda row, dialect: looked.append(len(row)) or split(row, dialect)
    )
    big = "x, " * 2**20
    for text, names in (
        (f'a;b\n1;"{big}"\n2;y\n', ["a", "b"]),
        (f'a,b\n"{big}",1\n2,y\n', ["a", "b"]),
        (f"a\n{big.replace(',', '')}\ny\n", ["a"]),
    ):
        rows, survey = read(put(tmp_path, "x.csv", text))
        assert [c.name for c in survey.columns] == names
        assert len(rows) == 2
        assert max(looked) < 100
    first = put(tmp_path, "x.csv", f'1;"{big}"\n2;y\n')
    rows, _ = read(first, header=False)
    assert rows == [{"column_1": "1", "column_2": big}, {"column_1": "2", "column_2": "y"}]


def test_a_long_cell_is_not_kept_as_the_first_of_its_kind(tmp_path):
    path = put(tmp_path, "x.csv", "a\n1\n" + "xé" * 10**5 + "\n")
    (file,) = csv_survey.survey_files([path], CsvOptions(), Needs())
    assert len(file.facts["a"].firsts[Meaning.TEXT].text) < 10**4
    (column,) = read(path)[1].columns
    assert column.kind == "bytes"
    assert f'{path} line 3 holds "xéx' in column.reason


def test_blocks_never_outgrow_what_arrow_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_stream, "ROW_LIMIT", 1000)
    monkeypatch.setattr(csv_stream, "BLOCK_LIMIT", 100)
    path = put(tmp_path, "x.csv", "a,b\n1," + "x" * 900 + "\n" + "2,y\n" * 1000)
    sizes = []

    def reading(*args):
        for block in csv_stream.read_blocks(*args):
            sizes.append(len(block.data))
            yield block

    monkeypatch.setattr(csv_survey, "read_blocks", reading)
    for block in (10, 100, 10**9):
        assert open_csv(path, block=block).survey(Needs()).rows == 1001
    assert max(sizes) <= 1100


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("a,b\n1,2,3\n4,5,6\n", 2, ["found 3 cells, expected 2", "names=row,a"]),
        ('a, b\n\n1, "x, y"\n2, "z, z"\n', 3, ["found 3 cells, expected 2", "blanks"]),
        ("a,b,c\n1,2\n", 2, ["found 2 cells, expected 3", "in quotes"]),
        ("a,b\n,\n1,2,3\n", 3, ["found 3 cells, expected 2"]),
        ('a,b\n1,"x"y"\n', 2, ["quote inside a quoted cell"]),
    ],
)
@pytest.mark.parametrize("jobs", [1, 3])
def test_where_no_row_is_sound_the_first_one_is_the_error(tmp_path, content, line, words, jobs):
    path = put(tmp_path, "rn.csv", content)
    empty = put(tmp_path, "empty.csv", "a,b\n,\n")
    for block in (1, 2**20):
        with pytest.raises(CellError) as caught:
            open_csv(empty, path, block=block).survey(Needs(jobs=jobs))
        assert str(caught.value).startswith(f"{path}, line {line}: ")
        assert all(word in str(caught.value) for word in words)
        assert caught.value.exit_code == 1


def test_header_and_names(tmp_path):
    path = put(tmp_path, "x.csv", "1,2\n3,4\n")
    assert read(path, header=False)[0][0] == {"column_1": "1", "column_2": "2"}
    with_separator = put(tmp_path, "s.csv", "sep=;\n1;2\n3;4,5\n")
    assert read(with_separator, header=False)[0][1] == {"column_1": "3", "column_2": "4,5"}
    assert read(path, names="a,b")[0] == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert read(path, names=["a", "b"], header=True)[0] == [{"a": "3", "b": "4"}]
    assert "names" in fails(path, names="a,b,c", header=True)
    unnamed = put(tmp_path, "r.csv", "a,b\nx,1,2\ny,3,4\n")
    assert "names=row,a" in fails(unnamed)
    rows, _ = read(unnamed, header=True, names="row,a,b")
    assert rows == [{"row": "x", "a": "1", "b": "2"}, {"row": "y", "a": "3", "b": "4"}]
    source = open_csv(path, names="a,b,c")
    assert len(rows_of(source, source.survey(Needs(types=False)))[1]) == 2


def test_a_blank_line_is_a_missing_value_in_a_file_of_one_column(tmp_path):
    rows, survey = read(put(tmp_path, "x.csv", "a\n1\n\n3\n\n"))
    assert [row["a"] for row in rows] == ["1", None, "3", None]
    assert survey.columns[0].nulls


def test_an_empty_cell_in_quotes(tmp_path):
    path = put(tmp_path, "x.csv", 'a,b\n1,""\n2,\n')
    assert [r["b"] for r in read(path)[0]] == [None, None]
    assert [r["b"] for r in read(path, quoted_empty="text")[0]] == ["", None]


def test_many_columns(tmp_path):
    names = ",".join(f"c{i}" for i in range(1300))
    path = put(tmp_path, "x.csv", names + "\n" + ",".join(["7"] * 1300) + "\n")
    rows, survey = read(path)
    assert len(rows[0]) == 1300
    assert {c.kind for c in survey.columns} == {"int64"}


def test_no_column_is_searched_for_among_all_names(tmp_path):
    """Else the work grows with the square of the number of columns."""

    class Names(tuple):
        def index(self, *_):
            raise AssertionError("searched")

        __contains__ = index

    names = [f"c{i}" for i in range(50)]
    path = put(tmp_path, "x.csv", ",".join(names) + "\n" + ",".join(map(str, range(50))) + "\n")
    source = open_csv(path)
    with pytest.MonkeyPatch.context() as patch:
        find = csv_survey.find_layout
        counted = lambda *args: replace(layout := find(*args), names=Names(layout.names))  # noqa: E731
        patch.setattr(csv_survey, "find_layout", counted)
        survey = source.survey(Needs())
    assert isinstance(survey.partitions[0].detail.layout.names, Names)
    rows, _ = rows_of(source, survey)
    assert rows == [{name: str(i) for i, name in enumerate(names)}]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("a;b\n1;2\n", {}),
        ("1;2\n3;4\n", {"names": "a,b"}),
        ("a|b\n1|2\n", {"delimiter": "|", "quote": "none", "escape": "backslash"}),
        ("a\tb\n1\t2\n", {"decimal": ",", "thousands": ".", "null_words": "x,y"}),
        ('1,""\n2,\n', {"header": "false", "quoted_empty": "text", "null_words": ""}),
    ],
)
def test_saved_options_read_the_same_way(tmp_path, content, options):
    path = put(tmp_path, "x.csv", content)
    rows, survey = read(path, **options)
    again, second = read(path, **survey.options)
    assert again == rows
    assert second.columns == survey.columns
    assert second.options == survey.options
    assert "delimiter" in survey.options


def test_files_with_delimiters_of_their_own(tmp_path):
    paths = [put(tmp_path, "a.csv", "x;y\n1;2\n"), put(tmp_path, "b.csv", "x,y\n3,4\n")]
    rows, survey = read(*paths)
    assert rows == [{"x": "1", "y": "2"}, {"x": "3", "y": "4"}]
    assert "delimiter" not in survey.options


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": ";;"},
        {"delimiter": "é"},
        {"delimiter": "\n"},
        {"delimiter": ",", "quote": ","},
        {"encoding": "klingon"},
        {"encoding": "rot13"},
        {"encoding": "base64"},
        {"decimal": ";"},
        {"decimal": ",", "thousands": ","},
        {"names": "a,a"},
        {"names": "a,"},
        {"delimeter": ";"},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(ValidationError):
        CsvOptions(**options)


def test_every_option_says_what_it_does():
    assert all(field.description for field in CsvOptions.model_fields.values())


SEEDS = [
    b'a,b\n1,"x ""y""\nz"\n2,\n',
    "a;b\r\n1,5;é\r\n".encode("cp1252"),
    "a\tb\n1\t“2”\n".encode("utf-16"),
    gzip.compress(b"a,b\n1,2\n"),
    bz2.compress(b"a,b\n1,2\n"),
    lzma.compress(b"a,b\n1,2\n"),
    zstd(b"a,b\n1,2\n"),
]


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 80), st.binary(max_size=3), st.integers(0, 4)), max_size=4),
    st.sampled_from([{}, {"escape": "\\"}, {"encoding": "utf-16"}, {"encoding": "gb18030"}]),
    st.sampled_from([1, 16, 2**20]),
)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path, seed, edits, options, block):
    for at, new, lost in edits:
        seed = seed[:at] + new + seed[at + lost :]
    source = open_csv(put(tmp_path, "x.csv", seed), block=block, **options)
    message, rows, faults = "x.csv", [], []
    try:
        rows, faults = rows_of(source, source.survey(Needs()))
    except SourceError as error:
        message = str(error)
    assert "x.csv" in message
    assert "\n" not in message
    assert len({line for _, line, _, _ in faults}) <= len(rows)


@pytest.mark.parametrize("option", ["quote", "escape"])
def test_a_mark_that_turns_out_to_be_the_delimiter_is_refused(tmp_path, option):
    path = put(tmp_path, "x.csv", "a,b\n1,2\n")
    with pytest.raises(UsageError, match=rf"-O {option}=,.*x\.csv"):
        read(path, **{option: ","})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": ""}, "-O delimiter=: a delimiter is one ASCII character"),
        ({"header": "maybe"}, "-O header=maybe: it is neither true nor false"),
        ({"block": "0"}, '-O block=0: "0" is not a size'),
    ],
)
def test_impossible_options_are_named(tmp_path, options, words):
    with pytest.raises(UsageError) as caught:
        open_source([put(tmp_path, "x.csv", "a\n1\n")], "csv", options)
    assert words in str(caught.value)


def test_blank_lines_that_are_rows_are_told(tmp_path):
    rows, survey = read(put(tmp_path, "x.csv", "a\n1\n\n3\n\n"))
    assert [row["a"] for row in rows] == ["1", None, "3", None]
    assert any("2 blank lines read as a row" in notice for notice in survey.notices)
