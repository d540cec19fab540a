"""Image folders as a source: layouts, classes, what is passed over, what is refused."""

from __future__ import annotations

import io
import os
import pickle
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image

from tfrec_cli.errors import SourceError
from tfrec_cli.sources import images
from tfrec_cli.sources.base import Fault, Needs, Survey
from tfrec_cli.sources.images import ImagesSource, image_cells


def picture(kind: str, width: int = 6, height: int = 4, **how: Any) -> bytes:
    out = io.BytesIO()
    image = Image.effect_noise((width, height), 60)
    (image.convert("RGB") if kind != "GIF" else image).save(out, kind, **how)
    return out.getvalue()


JPEG, PNG, GIF, BMP = (picture(kind) for kind in ("JPEG", "PNG", "GIF", "BMP"))


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def source(*roots: Path | str, **options: str) -> ImagesSource:
    return ImagesSource([str(root) for root in roots], ImagesSource.Options(**options))


def read(reader: ImagesSource, survey: Survey) -> tuple[list[dict[str, Any]], list[Fault]]:
    rows: list[dict[str, Any]] = []
    faults: list[Fault] = []
    names = [column.name for column in survey.columns]
    for part in survey.partitions:
        for batch in reader.read(part, names):
            faults += batch.faults
            rows += [row | {"split": part.split} for row in batch.data.to_pylist()]
    return rows, faults


def faulty(reader: ImagesSource) -> dict[str, str]:
    """The reason for each file that is a fault, by its base name."""
    found = {}
    survey = reader.survey(Needs())
    for part in survey.partitions:
        for batch in reader.read(part, ["image/encoded"]):
            for fault in batch.faults:
                found[os.path.basename(batch.origin.locate(fault.row).file)] = fault.reason
    return found


def names(survey: Survey) -> tuple[str, ...]:
    return survey.labels[0].names


def test_class_folders(tmp_path: Path) -> None:
    write(tmp_path, {"dog/b.PNG": PNG, "cat/deep/er/a.jpg": JPEG, "cat/z.jpeg": JPEG})
    reader = source(tmp_path)
    survey = reader.survey(Needs())
    rows, faults = read(reader, survey)
    assert faults == []
    assert [(r["image/filename"], r["image/class/text"]) for r in rows] == [
        ("a.jpg", "cat"),
        ("z.jpeg", "cat"),
        ("b.PNG", "dog"),
    ]
    assert rows[2] == {
        "image/encoded": PNG,
        "image/format": "png",
        "image/height": 4,
        "image/width": 6,
        "image/filename": "b.PNG",
        "image/class/text": "dog",
        "split": None,
    }
    assert survey.labels[0].feature == "image/class/label"
    assert names(survey) == ("cat", "dog")
    assert survey.notices == ()


def test_split_folders(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "train/a/1.png": PNG,
            "train/b/2.png": PNG,
            "Validation/b/3.png": PNG,
            "test/c/4.png": PNG,
        },
    )
    reader = source(tmp_path)
    survey = reader.survey(Needs())
    rows, _ = read(reader, survey)
    assert [(r["split"], r["image/class/text"]) for r in rows] == [
        ("Validation", "b"),
        ("test", "c"),
        ("train", "a"),
        ("train", "b"),
    ]
    assert names(survey) == ("a", "b", "c")
    assert any("split train has no image of 1 class: c" in n for n in survey.notices)


def test_splits_without_classes(tmp_path: Path) -> None:
    write(tmp_path, {"train/1.png": PNG, "test/2.png": PNG})
    survey = source(tmp_path).survey(Needs())
    assert [(p.split, p.rows) for p in survey.partitions] == [("test", 1), ("train", 1)]
    assert survey.labels == ()


def test_layout_can_be_said(tmp_path: Path) -> None:
    write(tmp_path, {"train/a/1.png": PNG, "fold2/a/2.png": PNG})
    auto = source(tmp_path, layout="auto").survey(Needs())
    assert names(auto) == ("fold2", "train")
    split = source(tmp_path, layout="split").survey(Needs())
    assert ([p.split for p in split.partitions], names(split)) == (["fold2", "train"], ("a",))
    flat = source(tmp_path, layout="flat").survey(Needs())
    assert (flat.rows, flat.labels) == (2, ())
    assert "image/class/text" not in {c.name for c in flat.columns}


def test_images_without_folders_are_flat(tmp_path: Path) -> None:
    write(tmp_path, {"1.png": PNG, "2.png": PNG})
    assert source(tmp_path).survey(Needs()).labels == ()
    single = source(tmp_path / "1.png", tmp_path / "2.png")
    assert single.survey(Needs()).rows == 2
    with pytest.raises(SourceError, match="layout=flat"):
        source(tmp_path, layout="class").survey(Needs())


def test_images_beside_class_folders_are_never_lost_in_silence(tmp_path: Path) -> None:
    write(tmp_path, {"a/1.png": PNG, "a/2.png": PNG, "preview.png": PNG})
    survey = source(tmp_path).survey(Needs())
    assert survey.rows == 2
    assert any("1 image in no class folder skipped: preview.png" in n for n in survey.notices)
    write(tmp_path, {"x.png": PNG, "y.png": PNG})
    with pytest.raises(SourceError, match="3 images beside folders"):
        source(tmp_path).survey(Needs())


def test_numeric_class_names_sort_as_numbers_only_if_all_are(tmp_path: Path) -> None:
    write(tmp_path, {f"{name}/1.png": PNG for name in ("10", "9", "1")})
    assert names(source(tmp_path).survey(Needs())) == ("1", "9", "10")
    write(tmp_path, {"x/1.png": PNG})
    assert names(source(tmp_path).survey(Needs())) == ("1", "10", "9", "x")


def test_classes_that_look_alike_are_named(tmp_path: Path) -> None:
    write(tmp_path, {"Cat/1.png": PNG, "cat /2.png": PNG, "dog/3.png": PNG})
    survey = source(tmp_path).survey(Needs())
    assert names(survey) == ("Cat", "cat ", "dog")
    assert any("Cat, cat " in notice for notice in survey.notices)


def test_an_empty_class_keeps_its_number_and_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"ant/1.png": PNG, "cow/2.png": PNG})
    (tmp_path / "bee").mkdir()
    survey = source(tmp_path).survey(Needs())
    assert names(survey) == ("ant", "bee", "cow")
    assert any("bee" in notice for notice in survey.notices)


def test_hidden_and_stray_files_are_counted(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a/1.png": PNG,
            "a/._1.png": PNG,
            ".ipynb_checkpoints/2.png": PNG,
            "README.txt": b"x",
            "a/Thumbs.db": b"x",
        },
    )
    survey = source(tmp_path).survey(Needs())
    assert (survey.rows, names(survey)) == (1, ("a",))
    text = "\n".join(survey.notices)
    assert "2 hidden names skipped" in text
    assert "2 files of another ending skipped: README.txt, Thumbs.db" in text


def test_the_header_tells_the_format(tmp_path: Path) -> None:
    both = [Image.new("RGB", (5, 7), c) for c in ("red", "blue")]
    mpo = io.BytesIO()
    both[0].save(mpo, "MPO", save_all=True, append_images=both[1:])
    kinds = {"GIF": GIF, "BMP": BMP, "TIFF": picture("TIFF"), "WEBP": picture("WEBP")}
    write(tmp_path, {f"a/{kind}.jpg": data for kind, data in kinds.items()})
    write(tmp_path, {"a/cam.jpg": mpo.getvalue(), "a/png.jpg": PNG})
    reader = source(tmp_path)
    survey = reader.survey(Needs())
    rows, faults = read(reader, survey)
    assert faults == []
    assert {r["image/filename"]: r["image/format"] for r in rows} == {
        "GIF.jpg": "gif",
        "BMP.jpg": "bmp",
        "TIFF.jpg": "tiff",
        "WEBP.jpg": "webp",
        "cam.jpg": "jpeg",
        "png.jpg": "png",
    }
    assert {(r["image/width"], r["image/height"]) for r in rows} == {(6, 4), (5, 7)}
    text = "\n".join(survey.notices)
    assert "1 image of format webp, which tf.io.decode_image does not read: WEBP.jpg" in text
    assert "1 image of format tiff" in text
    assert "5 images not of the format" in text


def test_files_that_are_no_images_are_faults_naming_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a/empty.jpg": b"",
            "a/good.jpg": JPEG,
            "a/head.jpg": JPEG[:20],
            "a/page.jpg": b"<html></html>",
            "a/phone.HEIC": b"\x00\x00\x00\x18ftypheic",
            "a/zero.png": PNG[:16] + struct.pack(">II", 0, 5) + PNG[24:],
        },
    )
    (tmp_path / "a/gone.jpg").symlink_to("nowhere.jpg")
    found = faulty(source(tmp_path))
    assert set(found) == {
        *("empty.jpg", "gone.jpg", "head.jpg", "page.jpg", "phone.HEIC", "zero.png")
    }
    assert "is empty" in found["empty.jpg"]
    assert "No such file" in found["gone.jpg"]
    assert "is not an image" in found["page.jpg"]
    assert "whole jpeg image" in found["head.jpg"]


def test_an_unreadable_file_is_a_fault(plain_user: Path) -> None:
    write(plain_user, {"a/locked.jpg": JPEG, "a/ok.jpg": JPEG})
    (plain_user / "a/locked.jpg").chmod(0)
    found = faulty(source(plain_user))
    assert set(found) == {"locked.jpg"}
    assert "Permission denied" in found["locked.jpg"]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_full_check_finds_cut_and_broken_images(tmp_path: Path) -> None:
    big = picture("JPEG", 200, 150)
    frames = [Image.effect_noise((64, 64), 90) for _ in range(3)]
    moving = io.BytesIO()
    frames[0].save(moving, "GIF", save_all=True, append_images=frames[1:])
    broken = bytearray(picture("PNG", 60, 60))
    broken[len(broken) // 2] ^= 0xFF
    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    bomb = PNG[:8] + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + PNG[-12:]
    write(
        tmp_path,
        {
            "a/bomb.png": bomb,
            "a/broken.png": bytes(broken),
            "a/cut.gif": moving.getvalue()[:-2000],
            "a/cut.jpg": big[: len(big) // 2],
            "a/ok.jpg": big,
            "a/ok.gif": moving.getvalue(),
            "a/ok.png": PNG,
        },
    )
    assert faulty(source(tmp_path)) == {}
    found = faulty(source(tmp_path, check="full"))
    assert set(found) == {"bomb.png", "broken.png", "cut.gif", "cut.jpg"}
    assert "50000 × 50000 pixels" in found["bomb.png"]


def test_a_huge_size_in_the_header_is_recorded_without_decoding(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    header = struct.pack(">IIBBBBB", 50_000, 60_000, 8, 2, 0, 0, 0)
    bomb = PNG[:8] + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + PNG[-12:]
    write(tmp_path, {"a/big.png": bomb})
    reader = source(tmp_path)
    rows, faults = read(reader, reader.survey(Needs()))
    assert (rows[0]["image/width"], rows[0]["image/height"], faults) == (50_000, 60_000, [])
    assert len(recwarn) == 0


def test_no_image_at_all_is_an_error_naming_the_folder(tmp_path: Path) -> None:
    write(tmp_path, {"empty/keep.txt": b""})
    with pytest.raises(SourceError, match=r"empty: holds no image.*only keep\.txt"):
        source(tmp_path / "empty").survey(Needs())
    with pytest.raises(SourceError, match="missing: no such file or folder"):
        source(tmp_path / "missing").survey(Needs())


def test_links_are_followed_and_loops_end(tmp_path: Path) -> None:
    write(tmp_path, {"store/0001.jpg": JPEG, "imgs/normal/n.jpg": JPEG, "more/deep/x.jpg": JPEG})
    (tmp_path / "imgs/abnormal").mkdir()
    (tmp_path / "imgs/abnormal/link.jpg").symlink_to("../../store/0001.jpg")
    (tmp_path / "imgs/abnormal/loop").symlink_to("..", target_is_directory=True)
    (tmp_path / "imgs/linked").symlink_to("../more", target_is_directory=True)
    reader = source(tmp_path / "imgs")
    survey = reader.survey(Needs())
    rows, faults = read(reader, survey)
    assert [(r["image/filename"], r["image/class/text"]) for r in rows] == [
        ("link.jpg", "abnormal"),
        ("x.jpg", "linked"),
        ("n.jpg", "normal"),
    ]
    assert faults == []
    assert any("loop" in notice for notice in survey.notices)


def test_odd_names_survive(tmp_path: Path) -> None:
    odd = ["-rf.jpg", "50% off #1.jpg", "[x].jpg", "a,b;c.jpg", "it's (2).jpg", "图片1.jpg"]
    write(tmp_path, {f"klasse ä/{name}": JPEG for name in odd})
    reader = source(tmp_path)
    rows, _ = read(reader, reader.survey(Needs()))
    assert sorted(r["image/filename"] for r in rows) == sorted(odd)
    assert {r["image/class/text"] for r in rows} == {"klasse ä"}


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.jpg")
    try:
        write(tmp_path, {f"a/{name}": JPEG})
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    reader = source(tmp_path)
    rows, _ = read(reader, reader.survey(Needs()))
    assert [r["image/filename"] for r in rows] == [b"caf\xe9.jpg"]
    write(tmp_path, {os.fsdecode(b"cl\xe9/1.jpg"): JPEG})
    with pytest.raises(SourceError, match=r"class folder cl\\xe9: the name is not UTF-8"):
        source(tmp_path).survey(Needs())


def test_partitions_together_are_the_whole_in_bounded_pieces(tmp_path: Path) -> None:
    write(tmp_path, {f"{c}/{i}.png": PNG for c in "ab" for i in range(5)})
    reader = source(tmp_path)
    whole, _ = read(reader, reader.survey(Needs()))
    reader.partition_files, reader.batch_bytes = 3, 1
    survey = reader.survey(Needs())
    assert [(p.first_row, p.rows) for p in survey.partitions] == [(0, 3), (3, 3), (6, 3), (9, 1)]
    assert read(reader, survey)[0] == whole
    assert {f.path for f in survey.fingerprints} == {str(p) for p in tmp_path.rglob("*.png")}
    again, survey = pickle.loads(pickle.dumps((reader, survey)))
    assert read(again, survey)[0] == whole


def test_classes_are_the_union_over_several_folders(tmp_path: Path) -> None:
    write(tmp_path, {"one/b/1.png": PNG, "two/a/2.png": PNG})
    survey = source(tmp_path / "one", tmp_path / "two").survey(Needs())
    assert names(survey) == ("a", "b")
    assert [p.first_row for p in survey.partitions] == [0, 0]


def test_a_file_too_large_for_a_record_is_a_fault_and_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"a.png": PNG, "large.png": PNG})
    # A hole: reading it would take as much memory as the file is said to be long.
    os.truncate(tmp_path / "large.png", 2**40)
    reason = faulty(source(tmp_path))["large.png"]
    assert reason == "holds 1,099,511,627,776 bytes, so that its record would have 2 GiB or more"


def test_bytes_that_grew_past_an_array_of_binary_get_a_wider_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert image_cells([b"abc"], pa.binary()).type == pa.binary()
    monkeypatch.setattr(images, "MOST_BYTES", 2)
    assert image_cells([b"abc"], pa.binary()).type == pa.large_binary()


def test_warning_filters_of_the_process_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, {"a.gif": GIF, "b.png": PNG})
    with warnings.catch_warnings():
        before = list(warnings.filters)
        reader = source(tmp_path, check="full")
        read(reader, reader.survey(Needs()))
        assert list(warnings.filters) == before


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["train/a/1.jpg", "other/a/1.jpg"], True),
        (["train/1.jpg", "test/1.jpg", "other/1.jpg"], True),
        (["train/1.jpg", "car/1.jpg"], False),
    ],
)
def test_folders_called_like_splits_beside_others_are_told(
    tmp_path: Path, files: list[str], said: bool
) -> None:
    write(tmp_path, dict.fromkeys(files, JPEG))
    notices = source(tmp_path).survey(Needs()).notices
    assert any("-O layout=split" in notice for notice in notices) == said


def test_class_folders_named_one_by_one_are_told_to_have_no_labels(tmp_path: Path) -> None:
    write(tmp_path, {"a/1.jpg": JPEG, "b/2.jpg": JPEG})
    options = ImagesSource.Options()
    survey = ImagesSource([str(tmp_path / "a"), str(tmp_path / "b")], options).survey(Needs())
    assert survey.labels == ()
    assert any("name the folder above" in notice for notice in survey.notices)
