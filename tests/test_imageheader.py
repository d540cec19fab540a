"""Sizes read from plain headers are those that Pillow reads; anything odd is left to Pillow."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tfrec_cli.sources.imageheader import header_size

FORMS: list[tuple[str, str, dict[str, Any]]] = [
    ("jpeg", "RGB", {}),
    ("jpeg", "L", {"progressive": True}),
    ("jpeg", "RGB", {"comment": b"a comment", "exif": b"Exif\0\0" + bytes(40)}),
    ("png", "RGB", {}),
    ("png", "RGBA", {"dpi": (72, 72)}),
    ("png", "P", {}),
    ("png", "I;16", {}),
    ("png", "1", {}),
]


def picture(format: str, mode: str, options: dict[str, Any], size: tuple[int, int]) -> bytes:
    file = BytesIO()
    Image.new(mode, size).save(file, format, **options)
    return file.getvalue()


def pillow_size(data: bytes) -> tuple[int, int] | None:
    try:
        with Image.open(BytesIO(data)) as image:
            return image.size
    except Exception:
        return None


@pytest.mark.parametrize(("format", "mode", "options"), FORMS)
@pytest.mark.parametrize("size", [(1, 1), (3, 700), (65_500, 2), (300, 256)])
def test_plain_headers_are_read(
    format: str, mode: str, options: dict[str, Any], size: tuple[int, int]
) -> None:
    assert header_size(picture(format, mode, options, size), format) == size


@pytest.mark.parametrize(("format", "mode", "options"), FORMS)
def test_a_header_that_is_cut_off_is_left_to_pillow(
    format: str, mode: str, options: dict[str, Any]
) -> None:
    data = picture(format, mode, options, (300, 200))
    for end in range(3, len(data), 7):
        found = header_size(data[:end], format)
        assert found in (None, (300, 200))
        if found:
            assert pillow_size(data[:end]) == found


CHANGES = st.tuples(st.integers(2, 700), st.binary(min_size=1, max_size=2))


@given(form=st.sampled_from(FORMS), changes=st.lists(CHANGES, min_size=1, max_size=4))
def test_what_is_read_from_damaged_headers_is_what_pillow_reads(
    form: tuple[str, str, dict[str, Any]], changes: list[tuple[int, bytes]]
) -> None:
    data = bytearray(picture(*form, (30, 20)))
    for at, replaced in changes:
        data[at % len(data) : at % len(data) + len(replaced)] = replaced
    found = header_size(bytes(data), form[0])
    if found and bytes(data[:3]) in (b"\xff\xd8\xff", b"\x89PN"):
        assert pillow_size(bytes(data)) in (found, None)


def test_other_formats_are_left_to_pillow() -> None:
    assert header_size(picture("gif", "L", {}, (2, 2)), "gif") is None
    assert header_size(picture("jpeg", "CMYK", {}, (2, 2)), "jpeg") is None
