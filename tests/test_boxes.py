"""Object detection: box tables and pictures become one record a picture."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import parse_examples, read_examples, read_manifest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import tfrec_cli
from tfrec_cli.errors import CellError, SourceError, UsageError
from tfrec_cli.sources.base import Needs, Survey
from tfrec_cli.sources.box_fit import fit_boxes
from tfrec_cli.sources.box_options import EDGES, BoxOptions
from tfrec_cli.sources.boxes import BoxesSource
from tfrec_cli.sources.registry import open_source

HEADER = "filename,width,height,class,xmin,ymin,xmax,ymax"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two pictures of 100 × 50 in imgs/."""
    monkeypatch.chdir(tmp_path)
    picture("imgs/p.jpg")
    picture("imgs/q.png")
    return tmp_path


def picture(path: str, size: tuple[int, int] = (100, 50)) -> bytes:
    out = BytesIO()
    Image.new("RGB", size, (len(path), 7, 9)).save(
        out, Path(path).suffix.strip(".").replace("jpg", "jpeg")
    )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(out.getvalue())
    return out.getvalue()


def table(*rows: str, path: str = "boxes.csv", header: str = HEADER) -> str:
    Path(path).write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def survey(*inputs: str, **options: str) -> tuple[BoxesSource, Survey]:
    source = open_source(list(inputs), "boxes", options)
    assert isinstance(source, BoxesSource)
    return source, source.survey(Needs())


def rows_of(source: BoxesSource, found: Survey, *columns: str) -> list[dict[str, Any]]:
    """The pictures as dicts; there must be no fault."""
    names = columns or tuple(c.name for c in found.columns)
    batches = [b for part in found.partitions for b in source.read(part, names)]
    assert [fault for batch in batches for fault in batch.faults] == []
    return [row for batch in batches for row in batch.data.to_pylist()]


def read(*inputs: str, **options: str) -> list[dict[str, Any]]:
    return rows_of(*survey(*inputs, **options))


def faults(*inputs: str, **options: str) -> list[str]:
    """The faults as `place, column COLUMN: "value" reason. hint`."""
    source, found = survey(*inputs, **options)
    return [
        f'{batch.origin.locate(f.row)}, column {f.column}: "{f.value}" {f.reason}. {f.hint}'
        for part in found.partitions
        for batch in source.read(part, ["image/width"])
        for f in batch.faults
    ]


def boxes(row: dict[str, Any]) -> list[list[float]]:
    """The boxes of a picture as xmin, ymin, xmax, ymax, rounded."""
    lists = [row[f"image/object/bbox/{edge}"] for edge in EDGES]
    return [[round(float(edge), 5) for edge in box] for box in zip(*lists, strict=True)]


def convert(*inputs: str, dest: str = "out", **options: Any) -> Path:
    tfrec_cli.convert(list(inputs), dest, adapter="boxes", **options)
    return Path(dest)


def shards(dest: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(dest.glob("*.tfrecord-*"))]


# Records -----------------------------------------------------------------------------------------


def test_a_picture_is_one_record_with_all_its_boxes(folder: Path) -> None:
    table(
        "q.png,100,50,bee,10,10,20,20",
        "p.jpg,100,50,ant,0,0,100,50",
        "q.png,100,50,ant,30,5,60,45",
    )
    first, second = read_examples(convert("boxes.csv", "imgs"))
    data = Path("imgs/q.png").read_bytes()
    assert first == {
        "image/encoded": [data],
        "image/filename": [b"q.png"],
        "image/format": [b"png"],
        "image/height": [50],
        "image/key/sha256": [hashlib.sha256(data).hexdigest().encode()],
        "image/object/bbox/xmax": pytest.approx([0.2, 0.6]),
        "image/object/bbox/xmin": pytest.approx([0.1, 0.3]),
        "image/object/bbox/ymax": pytest.approx([0.4, 0.9]),
        "image/object/bbox/ymin": pytest.approx([0.2, 0.1]),
        "image/object/class/label": [2, 1],
        "image/object/class/text": [b"bee", b"ant"],
        "image/source_id": [b"q.png"],
        "image/width": [100],
    }
    assert second["image/format"] == [b"jpeg"]
    assert second["image/object/bbox/xmax"] == [1.0]
    assert Path("out/image.object.class.label.labels.txt").read_text() == "ant\nbee\n"
    labels = [f for f in read_manifest("out")["features"] if f["labels"]]
    assert [(f["key"], f["first_label"]) for f in labels] == [("image/object/class/label", 1)]


def test_tensorflow_parses_the_lists(folder: Path) -> None:
    import tensorflow as tf

    table("p.jpg,100,50,ant,10,10,20,20", "q.png,,,,,,,", "p.jpg,100,50,bee,30,10,50,20")
    spec = {
        "image/object/bbox/xmin": tf.io.RaggedFeature(tf.float32),
        "image/object/class/label": tf.io.VarLenFeature(tf.int64),
        "image/object/class/text": tf.io.RaggedFeature(tf.string),
    }
    found = parse_examples(convert("boxes.csv", "imgs"), spec)
    assert found["image/object/bbox/xmin"].to_list() == [pytest.approx([0.1, 0.3]), []]
    assert found["image/object/class/text"].to_list() == [[b"ant", b"bee"], []]
    assert tf.sparse.to_dense(found["image/object/class/label"]).numpy().tolist() == [
        [1, 2],
        [0, 0],
    ]


def test_the_saved_schema_gives_the_same_bytes(folder: Path) -> None:
    header = "image;label;x1;y1;x2;y2"
    rows = [
        f"{name};{label};0,1;0,2;0,3;{y}"
        for name in ("q.png", "p.jpg")
        for label in (10, 9)
        for y in ("0,5", "2")
    ]
    table(*rows, header=header)
    names = {
        "filename": "image",
        "class": "label",
        "xmin": "x1",
        "ymin": "y1",
        "xmax": "x2",
        "ymax": "y2",
    }
    options = names | {"coordinates": "relative", "bad_box": "drop", "decimal": ","}
    out = convert("boxes.csv", "imgs", source_options=options, jobs=1)
    again = tfrec_cli.convert(
        ["boxes.csv", "imgs"], "again", schema="out/schema.yaml", name="out", jobs=2
    )
    assert shards(Path("again")) == shards(out)
    assert Path("again/schema.yaml").read_text() == Path("out/schema.yaml").read_text()
    assert again.records == 2


def test_a_class_that_the_schema_lacks_is_told_with_its_line(folder: Path) -> None:
    table("p.jpg,100,50,ant,1,1,2,2", "q.png,100,50,ant,1,1,2,2")
    convert("boxes.csv", "imgs")
    table(
        "p.jpg,,,ant,1,1,2,2", "q.png,,,ant,1,1,2,2", "q.png,,,bee,1,1,2,2", "p.jpg,,,ant,3,3,4,4"
    )
    with pytest.raises(CellError, match=r'boxes\.csv, line 4, .*"bee" is not a label.*\(1 row\)'):
        convert("boxes.csv", "imgs", dest="more", schema="out/schema.yaml")


def test_the_choice_of_the_source_is_suggested(folder: Path) -> None:
    table("p.jpg,100,50,ant,1,1,2,2")
    with pytest.raises(SourceError, match=r"several kinds: .*choose by --source \(boxes, where"):
        open_source(["boxes.csv", "imgs"])


def test_numbers_as_classes_are_sorted_as_numbers(folder: Path) -> None:
    table("p.jpg,100,50,10,1,1,2,2", "p.jpg,100,50,9,1,1,2,2")
    _, found = survey("boxes.csv", "imgs")
    assert [(hint.names, hint.first) for hint in found.labels] == [(("9", "10"), 1)]


def test_pictures_are_the_same_however_they_are_named(folder: Path) -> None:
    absolute = folder / "imgs/p.jpg"
    names = ["p.jpg", "./p.jpg", "../imgs/p.jpg", "imgs/p.jpg", str(absolute)]
    table(*(f"{name},100,50,ant,{x},0,50,50" for x, name in enumerate(names)))
    (row,) = read("boxes.csv", "imgs")
    assert [box[0] for box in boxes(row)] == [0.0, 0.01, 0.02, 0.03, 0.04]
    assert row["image/filename"] == "p.jpg"


def test_names_are_relative_to_the_table_where_no_folder_is_given(folder: Path) -> None:
    picture("a/p.jpg")
    picture("b/p.jpg", (20, 10))
    tables = [
        table(f"p.jpg,{w},{h},ant,0,0,10,10", path=f"{name}/boxes.csv")
        for name, w, h in (("a", 100, 50), ("b", 20, 10))
    ]
    source, found = survey(*tables)
    assert [row["image/width"] for row in rows_of(source, found)] == [100, 20]
    assert [part.file for part in found.partitions] == tables
    assert any("1 picture with the name of another one" in notice for notice in found.notices)


def test_boxes_of_one_picture_in_several_tables_come_together(folder: Path) -> None:
    table("p.jpg,100,50,ant,0,0,10,10", "q.png,100,50,ant,0,0,10,10", path="one.csv")
    table("q.png,100,50,bee,20,20,30,30", "p.jpg,0,50,bee,0,0,10,10", path="two.csv")
    _, found = survey("one.csv", "two.csv", "imgs")
    assert found.rows == 2
    assert faults("one.csv", "two.csv", "imgs")[0].startswith("two.csv, line 3, column width")


def test_parquet_tables_are_read_too(folder: Path) -> None:
    columns = {
        "filename": pa.array(["p.jpg", "q.png", "p.jpg"]).dictionary_encode(),
        "class": pa.array([3, 12, 3], pa.int16()),
        **{edge: pa.array([1, 2, 3 + at], pa.uint8()) for at, edge in enumerate(EDGES)},
    }
    for edge in ("xmax", "ymax"):
        columns[edge] = pa.array([10.0, 20.0, 2.0])
    pq.write_table(pa.table(columns), "boxes.parquet")
    found = faults("boxes.parquet", "imgs")
    assert found[0].startswith('boxes.parquet, row 3, column xmin: "3" is greater than xmax 2')
    first, second = read("boxes.parquet", "imgs", bad_box="drop")
    assert boxes(first) == [[0.01, 0.02, 0.1, 0.2]]
    assert second["image/object/class/text"] == ["12"]
    pq.write_table(pa.table(columns | {"xmin": [[1]] * 3}), "boxes.parquet")
    with pytest.raises(
        SourceError, match=r"boxes\.parquet, column xmin: is list.*expected numbers"
    ):
        survey("boxes.parquet", "imgs")


def test_many_partitions_and_batches_give_the_same_rows(folder: Path) -> None:
    names = [f"{n}.png" for n in range(7)]
    for name in names:
        picture(f"imgs/{name}", (10 + len(name), 9))
    table(*(f"{name},,,ant,{x},0,{x + 1},9" for x in range(3) for name in names))
    source, found = survey("boxes.csv", "imgs")
    expected = rows_of(source, found)
    assert [row["image/filename"] for row in expected] == names
    source.partition_files, source.batch_bytes = 2, 1
    small = source.survey(Needs(jobs=2))
    assert [part.rows for part in small.partitions] == [2, 2, 2, 1]
    there, travelled = pickle.loads(pickle.dumps((source, small)))
    assert rows_of(there, travelled) == expected


def test_a_row_with_a_name_alone_is_a_picture_without_objects(folder: Path) -> None:
    table("p.jpg,100,50,,,,,", "q.png,,,ant,0,0,1,1")
    source, found = survey("boxes.csv", "imgs")
    assert [boxes(row) for row in rows_of(source, found)] == [[], [[0, 0, 0.01, 0.02]]]
    assert "1 picture without a box" in found.notices


def test_what_is_odd_is_noticed(folder: Path) -> None:
    picture("imgs/more.webp")
    table("p.jpg,100,50,Ant,0,0,1,1,x", "p.jpg,100,50,ant,0,0,1,1,y", header=HEADER + ",note")
    _, found = survey("boxes.csv", "imgs")
    assert list(found.notices) == [
        "boxes.csv: columns not used for boxes: note",
        "imgs: 2 pictures in no row, left out: more.webp, q.png",
        "the classes Ant, ant differ in the case or form of letters only",
    ]
    table("more.webp,100,50,ant,0,0,1,1")
    _, found = survey("boxes.csv", "imgs")
    assert "format webp, which tf.io.decode_image does not read" in found.notices[0]


# Boxes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("box", "column", "reason"),
    [
        ("60,10,20,40", "xmin", '"60" is greater than xmax 20, so the box has no area'),
        ("60,10,60,40", "xmin", '"60" equals xmax 60, so the box has no area'),
        ("10,40,20,10", "ymin", '"40" is greater than ymax 10, so the box has no area'),
        (
            "10,10,101,40",
            "xmax",
            '"101" is beyond 100, outside of its picture, which is 100 pixels wide',
        ),
        (
            "10,10,20,50.75",
            "ymax",
            '"50.75" is beyond 50, outside of its picture, which is 50 pixels',
        ),
        ("-1,10,20,40", "xmin", '"-1" is negative, outside of its picture'),
        ("10,-200,20,-100", "ymin", '"-200" is negative'),
        ("100.2,10,100.4,40", "xmin", '"100.2" begins a box without area within its picture'),
        ("50,10,50.000000001,40", "xmin", '"50" begins a box without area within its picture'),
        ("ten,10,20,40", "xmin", '"ten" is not a number'),
        ("10,nan,20,40", "ymin", '"nan" is not a number'),
        ("10,10,inf,40", "xmax", '"inf" is not a number'),
        ("10,10,20,", "ymax", '"None" has no value'),
    ],
)
def test_bad_boxes_are_told_with_their_line(
    folder: Path, box: str, column: str, reason: str
) -> None:
    table("p.jpg,100,50,ant,1,1,2,2", "q.png,100,50,ant,1,1,2,2", f"p.jpg,100,50,ant,{box}")
    (fault,) = faults("boxes.csv", "imgs")
    assert fault.startswith(f"boxes.csv, line 4, column {column}: {reason}")
    with pytest.raises(CellError, match=r"boxes.csv, line 4, column"):
        convert("boxes.csv", "imgs")
    assert not Path("out").exists()
    assert len(read_examples(convert("boxes.csv", "imgs", on_error="skip"))) == 1


def test_half_a_pixel_is_rounding(folder: Path) -> None:
    table("p.jpg,100,50,ant,-0.5,-0.4,100.5,50.5")
    assert boxes(read("boxes.csv", "imgs")[0]) == [[0, 0, 1, 1]]


def test_bad_boxes_are_dropped_on_request(folder: Path) -> None:
    bad = ["p.jpg,100,50,ant,60,10,20,40", "p.jpg,100,50,ant,90,10,120,40"]
    table(*bad, "p.jpg,100,50,bee,10,10,20,40", "q.png,100,50,ant,5,5,5,6")
    source, found = survey("boxes.csv", "imgs", bad_box="drop")
    first, second = rows_of(source, found)
    assert (boxes(first), first["image/object/class/text"]) == ([[0.1, 0.2, 0.2, 0.8]], ["bee"])
    assert boxes(second) == []
    places = "boxes.csv, line 2; boxes.csv, line 3; boxes.csv, line 5"
    assert f"3 boxes without area, or out of the picture, left out: {places}" in found.notices


def test_bad_boxes_are_clipped_on_request(folder: Path) -> None:
    wrong = ["-10,10,50,60", "120,10,140,40", "60,10,20,40"]
    table(*(f"p.jpg,100,50,ant,{box}" for box in wrong), "q.png,100,50,ant,1,1,2,2")
    for header in (HEADER, HEADER.replace("width,height", "w,h")):
        table(*(f"p.jpg,100,50,ant,{box}" for box in wrong), header=header)
        source, found = survey("boxes.csv", "imgs", bad_box="clip")
        assert boxes(rows_of(source, found)[0]) == [[0, 0.2, 0.5, 1]]
        assert "1 box cut at the edge of the picture: boxes.csv, line 2" in found.notices
        dropped = "2 boxes without area, or out of the picture, left out: boxes.csv, line 3"
        assert any(notice.startswith(dropped) for notice in found.notices)


def test_relative_edges(folder: Path) -> None:
    table("p.jpg,100,50,ant,0.1,0.25,0.5,1", "p.jpg,100,50,ant,0,0,1,1")
    with pytest.raises(SourceError, match=r"all edges lie between 0 and 1.*coordinates=relative"):
        survey("boxes.csv", "imgs")
    table("p.jpg,100,50,ant,0.1,0.25,0.5,1.0000001", "p.jpg,100,50,ant,0,0,1,1")
    found = read("boxes.csv", "imgs", coordinates="relative")
    assert boxes(found[0]) == [[0.1, 0.25, 0.5, 1], [0, 0, 1, 1]]
    table("p.jpg,100,50,ant,10,10,20,20")
    (fault,) = faults("boxes.csv", "imgs", coordinates="relative")
    assert "is this pixels?" in fault


@given(
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.lists(st.tuples(*[st.floats(0, 1, width=32)] * 4), min_size=1, max_size=5),
)
def test_boxes_within_their_picture_keep_their_place(
    width: int, height: int, parts: Sequence[tuple[float, ...]]
) -> None:
    size = np.array([width, height, width, height], np.float64)
    edges = np.array(parts) * size
    rows = pa.record_batch([pa.array(edges[:, at]) for at in range(4)], list(EDGES))
    sizes = np.repeat([[float(width), float(height)]], len(parts), axis=0)
    fit = fit_boxes(rows, sizes, BoxOptions())
    sound = (edges[:, 0] < edges[:, 2]) & (edges[:, 1] < edges[:, 3])
    assert not (fit.kept & ~sound).any()
    assert {fault.row for fault in fit.faults} == set(np.flatnonzero(~fit.kept).tolist())
    assert ((fit.edges >= 0) & (fit.edges <= 1)).all()
    np.testing.assert_allclose(fit.edges * size, edges, rtol=1e-6)
    kept = fit.edges[fit.kept]
    assert (kept[:, :2] < kept[:, 2:]).all()


# Pictures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone.jpg", "names a picture that does not exist. Names are relative to imgs."),
        ("p", 'names a picture that does not exist. Did you mean "p.jpg"?'),
        ("P.JPG", 'names a picture that does not exist. Did you mean "p.jpg"?'),
        ("p.png", 'names a picture that does not exist. Did you mean "p.jpg"?'),
        ("photos/p.jpg", 'names a picture that does not exist. Did you mean "p.jpg"?'),
        (r"sub\s.jpg", 'has backslashes, which part folders on Windows only. Write "sub/s.jpg"'),
        (
            r"C:\me\imgs\sub\s.jpg",
            "is a path on a Windows machine. Write names relative to imgs, such",
        ),
        (
            r"\\host\q.png",
            'is a path on a Windows machine. Write names relative to imgs, such as "q',
        ),
        ("sub", "names a folder, not a picture"),
        ("gs://bucket/p.jpg", "is an address, not a file"),
        ("bad.jpg", "names a file that is not an image of a known format"),
        ("empty.jpg", "names a file that is empty"),
        ("cut.jpg", "names a file that is not a whole jpeg image"),
    ],
)
def test_pictures_that_cannot_be_used_are_told_with_their_line(
    folder: Path, name: str, reason: str
) -> None:
    picture("imgs/sub/s.jpg")
    Path("imgs/bad.jpg").write_text("<html>not found</html>")
    Path("imgs/empty.jpg").touch()
    Path("imgs/cut.jpg").write_bytes(Path("imgs/p.jpg").read_bytes()[:30])
    table("q.png,100,50,ant,1,1,2,2", *[f"{name},100,50,ant,1,1,2,2"] * 2)
    (fault,) = faults("boxes.csv", "imgs")
    assert fault.startswith(f'boxes.csv, line 3, column filename: "{name}" {reason}')
    assert len(rows_left(folder)) == 1


def rows_left(folder: Path) -> list[Any]:
    return read_examples(convert("boxes.csv", "imgs", on_error="skip"))


def test_a_name_that_two_folders_have_is_an_error(folder: Path) -> None:
    picture("other/p.jpg")
    table("p.jpg,100,50,ant,1,1,2,2")
    (fault,) = faults("boxes.csv", "imgs", "other")
    assert '"p.jpg" names several pictures: imgs/p.jpg and other/p.jpg' in fault


def test_cut_files_are_found_by_a_full_check(folder: Path) -> None:
    data = picture("imgs/r.png", (300, 300))
    Path("imgs/r.png").write_bytes(data[:-30])
    table("r.png,300,300,ant,1,1,2,2")
    assert faults("boxes.csv", "imgs") == []
    assert (
        "names a file that is not a whole png image" in faults("boxes.csv", "imgs", check="full")[0]
    )


def test_sizes_in_the_table_are_compared(folder: Path) -> None:
    table("q.png,100,50,ant,1,1,2,2", "p.jpg,100,50,ant,1,1,2,2", "p.jpg,50,100,ant,1,1,2,2")
    (fault,) = faults("boxes.csv", "imgs")
    assert fault.startswith(
        'boxes.csv, line 4, column width: "50" is not the width of the picture, which is 100 × 50'
    )
    assert "EXIF" in fault
    table("q.png,100,51,ant,1,1,2,2")
    assert 'column height: "51" is not the height' in faults("boxes.csv", "imgs")[0]
    assert len(read("boxes.csv", "imgs", height="none")) == 1


# Tables ------------------------------------------------------------------------------------------


def test_other_headers_are_suggested_and_taken_on_request(folder: Path) -> None:
    table("p.jpg,100,50,ant,1,1,2,2", header="Image,W,h,label,x1,y1,x2,Y Max")
    with pytest.raises(SourceError) as caught:
        survey("boxes.csv", "imgs")
    assert str(caught.value) == (
        "boxes.csv: has no columns filename, class, xmin, ymin, xmax, ymax. "
        "Found: Image, W, h, label, x1, y1, x2, Y Max; a table of boxes needs "
        "filename, class, xmin, ymin, xmax, ymax. Say which are which: -O filename=Image "
        "-O class=label -O xmin=x1 -O ymin=y1 -O xmax=x2 -O ymax='Y Max' -O width=W -O height=h."
    )
    words = (
        str(caught.value).split("which: ")[1].rstrip(".").replace("'Y Max'", "Y_Max").split("-O ")
    )
    options = {
        key: value.strip().replace("_", " ") for key, value in (w.split("=") for w in words[1:])
    }
    assert boxes(read("boxes.csv", "imgs", **options)[0]) == [[0.01, 0.02, 0.02, 0.04]]


def test_a_table_without_header_is_told(folder: Path) -> None:
    for row in ("p.jpg,100,50,ant,10,10,20,20", "p.jpg,100,50,ant,1,2,20,30"):
        Path("boxes.csv").write_text(row + "\n")
        names = "filename,width,height,class,xmin,ymin,xmax,ymax"
        with pytest.raises(
            SourceError, match=f"no columns filename.*header=false -O names={names}"
        ):
            survey("boxes.csv", "imgs")
        assert len(read("boxes.csv", "imgs", header="false", names=names)) == 1


def test_each_table_must_have_the_columns(folder: Path) -> None:
    table("p.jpg,100,50,ant,10,10,20,20", path="one.csv")
    table("p.jpg,100,50,10,10,20,20", path="two.csv", header=HEADER.replace("class,", ""))
    with pytest.raises(SourceError, match=r"two.csv: has no column class. Found: filename, width"):
        survey("one.csv", "two.csv", "imgs")
    with pytest.raises(SourceError, match=r"two.csv: has no column breite"):
        survey("two.csv", "imgs", width="breite", **{"class": "height", "height": "none"})


def test_folders_alone_are_no_source(folder: Path) -> None:
    table("p.jpg,100,50,ant,10,10,20,20", path="imgs/labels.csv")
    with pytest.raises(
        SourceError, match=r"imgs: found folders only.*Did you mean imgs/labels\.csv"
    ):
        survey("imgs")


def test_pictures_are_named_by_their_folder(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"imgs/p\.jpg: is a picture, .* Name the folder"):
        survey(table("p.jpg,100,50,ant,10,10,20,20"), "imgs/p.jpg")
    (fault,) = faults("boxes.csv")
    assert "Names are relative to the current folder, or to folders named beside" in fault


def test_one_column_has_one_role(folder: Path) -> None:
    with pytest.raises(UsageError, match='"a" is given for xmin and for xmax'):
        survey(table(), xmin="a", xmax="a")


def test_broken_rows_are_faults_of_their_own(folder: Path) -> None:
    table(
        "p.jpg,100,50,ant,10,10,20,20",
        "p.jpg,100,50,ant,10,10,20,20,99",
        ",100,50,ant,10,10,20,20",
        'q.png,100,50,"a\nb",10,10,20,20',
        "q.png,100,50,,10,10,20,20",
    )
    found = faults("boxes.csv", "imgs")
    assert [fault.split(":")[0] for fault in found] == [
        "boxes.csv, line 3, column None",
        "boxes.csv, line 4, column filename",
        "boxes.csv, line 5, column class",
    ]
    left = read_examples(convert("boxes.csv", "imgs", on_error="skip"))
    assert [record["image/filename"] for record in left] == [[b"p.jpg"]]
    assert read_manifest("out")["rows"]["rejected"] == 3


def test_dialect_options_are_those_of_csv(folder: Path) -> None:
    Path("boxes.csv").write_bytes(
        (HEADER.replace(",", "|") + "\np.jpg|100|50|café|1,5|1|2,5|2\n").encode("cp1252")
    )
    (row,) = read("boxes.csv", "imgs", delimiter="|", encoding="cp1252", decimal=",")
    assert (row["image/object/class/text"], boxes(row)) == (["café"], [[0.015, 0.02, 0.025, 0.04]])
