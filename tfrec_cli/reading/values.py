"""Values of records as people and JSON read them.

Bytes are text where they are UTF-8 without control characters. Others are told in angle brackets by
what they start with: `<jpeg 640×480, 31.2 kB>`, `<17 bytes: 00 01 02 …>`.
"""

from __future__ import annotations

import base64
import codecs
import math
import re
from typing import Any

import numpy as np

from tfrec_cli.decoding import Values
from tfrec_cli.errors import human_size
from tfrec_cli.sources.imageheader import header_size, image_format

_OTHERS = (
    ("gzip data", rb"\x1f\x8b\x08"),
    ("zstandard data", rb"\x28\xb5\x2f\xfd"),
    ("NumPy array", rb"\x93NUMPY"),
    ("pickle", rb"\x80[\x02-\x05][\x28-\x95]"),
    ("WAV sound", rb"RIFF....WAVE"),
    ("FLAC sound", rb"fLaC"),
    ("MP3 sound", rb"ID3"),
    ("Ogg sound", rb"OggS"),
    ("MP4 video", rb"....ftyp"),
    ("ZIP archive", rb"PK\x03\x04"),
    ("PDF", rb"%PDF-"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SHOWN_BYTES = 8
_PIECE = 1 << 20


def text_of(data: bytes) -> str | None:
    """The text that `data` is, or None."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def is_text(data: memoryview) -> bool:
    """Whether `text_of` gives any, in memory that does not grow with `data`."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    try:
        return not any(
            _CONTROL.search(decode(data[at : at + _PIECE], at + _PIECE >= len(data)))
            for at in range(0, len(data), _PIECE)
        )
    except UnicodeDecodeError:
        return False


def other_format(data: bytes) -> str | None:
    """What `data` that is no image starts as: `gzip data`, `NumPy array`, `WAV sound` and so on."""
    head = data[:32]
    return next((name for name, start in _OTHERS if re.match(start, head, re.DOTALL)), None)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of an image, by its header alone; None where that does not tell."""
    kind = image_format(data)
    if kind == "gif" and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    if kind == "bmp" and len(data) >= 26 and data[14] >= 40:
        width, height = (int.from_bytes(data[a : a + 4], "little", signed=True) for a in (18, 22))
        return abs(width), abs(height)
    return header_size(data, kind) if kind in ("jpeg", "png") else None


def describe(data: bytes) -> str:
    """What `data` is, in angle brackets, where it is no text."""
    size = human_size(len(data))
    if (kind := image_format(data)) is not None:
        pixels = image_size(data)
        return f"<{kind} {pixels[0]}×{pixels[1]}, {size}>" if pixels else f"<{kind}, {size}>"
    if (other := other_format(data)) is not None:
        return f"<{other}, {size}>"
    head = data[:_SHOWN_BYTES].hex(" ")
    return f"<{size}: {head}{' …' if len(data) > _SHOWN_BYTES else ''}>"


def readable(data: bytes) -> str:
    """Text as it stands, other bytes described."""
    text = text_of(data)
    return describe(data) if text is None else text


def float32(value: float) -> float | str:
    """A float32 with the fewest digits that tell it apart; `NaN` and `Infinity` as JSON's text."""
    if math.isfinite(value):
        return float(str(np.float32(value)))
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def plain(values: Values, as_base64: bool = False) -> list[Any]:
    """The values of one feature of one record, as JSON has them.

    as_base64: all bytes in base64 (RFC 4648); else as `readable` has them.
    """
    if values.kind == "float":
        return [float32(value) for value in values.values]
    if values.kind == "bytes":
        write = _base64 if as_base64 else readable
        return [write(value) for value in values.values]
    return list(values.values)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
