"""One image file: its format by the first bytes, its size by the header, its pixels on request.

The first bytes of each format are those that its specification fixes. JPEG's multi-picture form
(MPO) is JPEG followed by more of it, and is called so.

Pillow's warnings of odd metadata are left to the filters of the process, which belong to whoever
runs it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from tfrec_cli._kernel import read_files
from tfrec_cli._kernel.model import MAX_RECORD_BYTES, FilesRead
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.imageheader import header_size, image_format
from tfrec_cli.sources.readers import read_each

# Pixels that a full check decodes at most: a small file can declare a picture that fills memory.
MOST_PIXELS = 2 * 89_478_485
# A record holds the file, its key and some lengths.
MOST_BYTES = MAX_RECORD_BYTES - 32
# The first bytes that tell the format.
HEAD = 32


class BadImage(Exception):
    """Why an image cannot be used, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A file's bytes, its format and its size as (width, height) in pixels.

    fault: why it is no image, as the end of a sentence; the rest is empty then.
    """

    data: bytes | memoryview = b""
    format: str | None = None
    size: tuple[int, int] | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ImagesRead:
    """Several images, and the memory that holds their files back to back; None where some file was
    not as it was expected to be, so that some are held elsewhere. prints: of those that were.
    """

    images: tuple[ImageFile, ...]
    files: FilesRead | None
    prints: tuple[Fingerprint, ...] = ()


def read_image(path: str, full: bool) -> ImageFile:
    """Read the image at `path` and check its header, with `full` every pixel."""
    try:
        with open(path, "rb", buffering=0) as file:
            if fault := size_fault(os.fstat(file.fileno()).st_size):
                return ImageFile(fault=fault)
            data = file.read()
    except OSError as error:
        return ImageFile(fault=f"cannot be read ({error.strerror or error})")
    return look_at_image(data, full)


def look_at_image(data: bytes | memoryview, full: bool) -> ImageFile:
    """What the content of a file is as an image; checks as `read_image` does."""
    if not data:
        return ImageFile(fault="is empty (0 bytes), not an image")
    head = bytes(data[:HEAD])
    format = image_format(head)
    if format is None:
        return ImageFile(fault=f"is not an image of a known format: it begins with {head[:8]!r}")
    try:
        size = check_image(data, format) if full else image_size(data, format)
    except BadImage as error:
        return ImageFile(fault=f"is not a whole {format} image: {error}")
    return ImageFile(data, format, size)


def read_images(
    paths: Sequence[str], sizes: Sequence[int], states: Sequence[tuple[int, ...]], full: bool
) -> ImagesRead:
    """As `read_image` for each of many files that had these sizes and states before, by calls for
    many at a time.
    """
    wanted = [0 if size_fault(size) else size for size in sizes]
    read = read_files([os.fsencode(path) for path in paths], wanted, True, read_each)
    # Arrow says that bytes are signed.
    view, start, images = memoryview(read.data).cast("B").toreadonly(), 0, []
    for path, end, error in zip(paths, read.ends.tolist(), read.facts["error"], strict=True):
        images.append(read_image(path, full) if error else look_at_image(view[start:end], full))
        start = end
    facts = zip(paths, read.facts.tolist(), states, strict=True)
    prints = tuple(
        Fingerprint(path, size, mtime_ns, crc, state)
        for path, (size, mtime_ns, crc, error), state in facts
        if not error
    )
    return ImagesRead(tuple(images), None if read.facts["error"].any() else read, prints)


def size_fault(size: int) -> str:
    """Why a file of `size` bytes cannot be in a record, as the end of a sentence; empty where it
    can.
    """
    if size < MOST_BYTES:
        return ""
    return f"holds {size:,} bytes, so that its record would have 2 GiB or more"


def sniff_images(paths: Sequence[str], sizes: Sequence[int]) -> list[str | None]:
    """The format that the first bytes of each file tell; None where they do not.

    sizes: of the files, in bytes.
    """
    wanted = [min(size, HEAD) for size in sizes]
    read = read_files([os.fsencode(path) for path in paths], wanted, False, read_each)
    heads, start, formats = read.data.to_pybytes(), 0, []
    for end, error in zip(read.ends.tolist(), read.facts["error"].tolist(), strict=True):
        formats.append(None if error else image_format(heads[start:end]))
        start = end
    return formats


def image_size(data: bytes | memoryview, format: str) -> tuple[int, int]:
    """Width and height in pixels from the header of `data`. Raises BadImage."""
    if plain := header_size(data, format):
        return plain
    try:
        with _open(data, format) as image:
            size = int(image.size[0]), int(image.size[1])
    except MemoryError:
        raise
    except Exception as error:
        # The parsers of a dozen formats on bytes from anywhere: any kind of error may come.
        raise BadImage(_words(error)) from error
    if min(size) < 1:
        raise BadImage(f"its header declares {size[0]} × {size[1]} pixels")
    return size


def check_image(data: bytes | memoryview, format: str) -> tuple[int, int]:
    """As `image_size`, after decoding every pixel of every frame. Raises BadImage also for more
    than MOST_PIXELS in a frame.
    """
    width, height = image_size(data, format)
    if width * height > MOST_PIXELS:
        raise BadImage(
            f"it declares {width} × {height} pixels, more than {MOST_PIXELS:,} are not decoded"
        )
    try:
        if format == "png":
            with _open(data, format) as image:
                image.verify()
        _decode(data, format)
    except MemoryError:
        raise
    except Exception as error:
        raise BadImage(_words(error)) from error
    return width, height


def _decode(data: bytes | memoryview, format: str) -> None:
    with _open(data, format) as image:
        frame = 0
        while True:
            image.load()
            frame += 1
            if format == "jpeg" or frame >= getattr(image, "n_frames", 1):
                return
            image.seek(frame)


def _open(data: bytes | memoryview, format: str) -> Any:
    """The Pillow image of `data`, by its format's own class: `Image.open` would try all formats,
    refuse large sizes that nobody decodes, and warn on standard error.
    """
    from PIL import Image

    Image.preinit()
    if format.upper() not in Image.OPEN:
        Image.init()
    if format.upper() not in Image.OPEN:
        raise BadImage(f"this Pillow does not know {format}")
    if format == "jpeg":
        from PIL.JpegImagePlugin import JpegImageFile

        return JpegImageFile(BytesIO(data))
    return Image.OPEN[format.upper()][0](BytesIO(data), "")


def _words(error: Exception) -> str:
    if isinstance(error, BadImage):
        return str(error)
    text = str(error).strip()
    return text.splitlines()[0] if text else "its header is cut off or damaged"
