"""The format of an image by its first bytes, and the size in the header of a sound JPEG or PNG,
without an imaging library.

Loading one takes longer than reading thousands of headers, and these are nine of ten images. What
is odd in any way is left to the library: it knows every dialect, and has the words for what is
wrong. JPEG: ITU-T T.81, annex B; PNG: https://www.w3.org/TR/png-3/, sections 5 and 11.
"""

from __future__ import annotations

import struct
import zlib

_BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)
_SIZES = struct.Struct(">HH")
_SOS, _DQT, _DHT = 0xDA, 0xDB, 0xC4
_PLAIN_FRAMES = (0xC0, 0xC1, 0xC2)
_COMPONENTS = (1, 3)
# Lengths of chunks that say nothing about the size; 0 is any length.
_PLAIN_CHUNKS = {b"PLTE": 0, b"gAMA": 4, b"sRGB": 1, b"pHYs": 9, b"tIME": 7, b"cHRM": 32}
_SIZE_AND_KIND = struct.Struct(">IIBBBBB")
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


def image_format(head: bytes) -> str | None:
    """The format that the first 32 bytes tell (`jpeg`, `png`, …), None where they tell none."""
    for magic, name in (
        (b"\xff\xd8\xff", "jpeg"),
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"GIF87a", "gif"),
        (b"GIF89a", "gif"),
        (b"II*\x00", "tiff"),
        (b"MM\x00*", "tiff"),
        (b"II+\x00", "tiff"),
        (b"MM\x00+", "tiff"),
    ):
        if head.startswith(magic):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[4:12] in (b"ftypavif", b"ftypavis"):
        return "avif"
    # Two letters alone would take much text for an image: the next header's size must fit too.
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "bmp"
    return None


def header_size(data: bytes | memoryview, format: str) -> tuple[int, int] | None:
    """Width and height in pixels; None where the header is not a plain one of JPEG or PNG."""
    if format == "jpeg":
        return _jpeg_size(data)
    return _png_size(data) if format == "png" else None


def _jpeg_size(data: bytes | memoryview) -> tuple[int, int] | None:
    """The size in the one frame header; None unless all segments up to the scan are in place."""
    at, size, last = 2, None, len(data) - 4
    while at <= last and data[at] == 0xFF:
        marker, length = data[at + 1], data[at + 2] << 8 | data[at + 3]
        if marker == _SOS:
            return size if at + 2 + length <= len(data) else None
        if not _is_plain(marker, length) or at + 2 + length > last:
            return None
        if marker == _DQT and max(data[at + 4 : at + 2 + length : 65]) > 15:
            return None
        if marker in _PLAIN_FRAMES:
            size = None if size else _frame_size(data, at, length)
            if size is None:
                return None
        at += 2 + length
    return None


def _is_plain(marker: int, length: int) -> bool:
    """Whether a segment is of a known kind and has a length that such a segment can have."""
    if marker == _DQT:
        return length > 2 and (length - 2) % 65 == 0
    known = marker in (*_PLAIN_FRAMES, _DHT, 0xDD, 0xFE) or 0xE0 <= marker <= 0xEF
    return known and length >= 2


def _frame_size(data: bytes | memoryview, at: int, length: int) -> tuple[int, int] | None:
    if length < 11:
        return None
    precision, components = data[at + 4], data[at + 9]
    height, width = _SIZES.unpack_from(data, at + 5)
    sound = precision == 8 and components in _COMPONENTS and length == 8 + 3 * components
    return (width, height) if sound and width and height else None


def _png_size(data: bytes | memoryview) -> tuple[int, int] | None:
    """The size in the header chunk; None unless all chunks up to the image data are in order."""
    at = 8
    while (length := int.from_bytes(data[at : at + 4], "big")) <= len(data) - at - 12:
        name, end = bytes(data[at + 4 : at + 8]), at + 8 + length
        if name == b"IDAT":
            return _SIZE_AND_KIND.unpack_from(data, 16)[:2] if at > 8 else None
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            return None
        if not (_is_header(data) if at == 8 else _PLAIN_CHUNKS.get(name) in (length, 0)):
            return None
        at = end + 4
    return None


def _is_header(data: bytes | memoryview) -> bool:
    if data[8:16] != b"\0\0\0\rIHDR":
        return False
    width, height, depth, colour, packing, filters, interlace = _SIZE_AND_KIND.unpack_from(data, 16)
    sound = depth in _PNG_DEPTHS.get(colour, ()) and packing == filters == 0 and interlace < 2
    return sound and 0 < width < 2**31 and 0 < height < 2**31
