"""Folders of images as a source: one row for each image file, its bytes untouched.

Layouts, told from the folders at the top:

    class   class/x.jpg, class/any/depth/x.jpg    the top folder names the class
    split   split/class/x.jpg, split/x.jpg        all top folders are called as splits are
    flat    x.jpg                                 no classes

Columns: `image/encoded`, `image/format` (`jpeg`, `png`, `gif`, `bmp`, `webp`, `tiff` or `avif`, as
the first bytes tell and whatever the name says), `image/height`, `image/width`, `image/filename`
(the base name; binary where some name is not UTF-8), and `image/class/text` unless the layout is
flat.

Classes are numbered from 0 in the byte order of their names over all splits, or by value where all
names are integers; a class folder without an image keeps its number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from tfrec_cli._kernel.model import FilesRead
from tfrec_cli.buffers import from_values, rows_without_columns
from tfrec_cli.sources.base import (
    Column,
    Fault,
    Fingerprint,
    LabelHint,
    Listing,
    Needs,
    Origin,
    Partition,
    SourceBatch,
    Survey,
)
from tfrec_cli.sources.files import as_found, counted, display, some
from tfrec_cli.sources.imagefile import MOST_BYTES, ImagesRead, read_images, sniff_images
from tfrec_cli.sources.imagetree import ImageTree, class_names, plant
from tfrec_cli.sources.imagetree import notices as tree_notices
from tfrec_cli.sources.suffixes import IMAGE_SUFFIXES

TENSORFLOW_READS = ("jpeg", "png", "gif", "bmp")
_TYPES = {
    "image/encoded": pa.binary(),
    "image/format": pa.string(),
    "image/height": pa.int64(),
    "image/width": pa.int64(),
    "image/filename": pa.string(),
    "image/class/text": pa.string(),
}


class Options(BaseModel):
    """The options of the images source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layout: Literal["auto", "class", "split", "flat"] = Field(
        "auto", description="What the top folders are: classes, splits, or nothing (flat)."
    )
    check: Literal["header", "full"] = Field(
        "header",
        description="How far each image is checked: its header, or every pixel (finds cut files).",
    )


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """What reading a partition takes: paths and classes of its files, the type of file names,
    and the bytes and state of each file as the survey saw them.
    """

    paths: tuple[str, ...]
    classes: tuple[str | None, ...]
    sizes: tuple[int, ...]
    states: tuple[tuple[int, ...], ...]
    names: pa.DataType


@dataclass(frozen=True, slots=True)
class _Rows:
    """Images `first` to `last` of a partition, read."""

    detail: ImageFiles
    first: int
    last: int
    read: ImagesRead

    def cells(self, column: str) -> pa.Array:
        """One column."""
        kind = self.detail.names if column == "image/filename" else _TYPES[column]
        if column == "image/encoded" and self.read.files is not None:
            return _whole(self.read.files, kind)
        return image_cells([*self._values(column)], kind)

    def _values(self, column: str) -> Iterable[Any]:
        images = self.read.images
        if column == "image/encoded":
            return (image.data for image in images)
        if column == "image/format":
            return (image.format for image in images)
        if column == "image/filename":
            paths = self.detail.paths[self.first : self.last]
            return (os.fsencode(os.path.basename(path)) for path in paths)
        if column == "image/class/text":
            return self.detail.classes[self.first : self.last]
        side = ("image/width", "image/height").index(column)
        return (image.size and image.size[side] for image in images)


class ImagesSource:
    """Reads image folders (see `tfrec_cli.sources.base.Source`)."""

    name: ClassVar[str] = "images"
    summary: ClassVar[str] = "Folders of images: class/x.jpg, split/class/x.jpg, or no classes."
    suffixes: ClassVar[tuple[str, ...]] = IMAGE_SUFFIXES
    Options: ClassVar[type[BaseModel]] = Options

    def __init__(self, inputs: Sequence[Any], options: BaseModel) -> None:
        self.inputs = tuple(str(item) for item in inputs)
        self.options = Options.model_validate(options.model_dump())
        self.partition_bytes = 64 * 2**20
        self.partition_files = 512
        self.batch_bytes = 16 * 2**20

    def survey(self, needs: Needs) -> Survey:
        """The images, their classes and splits.

        With `needs.types` the first bytes of each file are read, to name in a notice the formats
        that TensorFlow cannot decode and the files whose ending is wrong. Raises SourceError
        naming a folder without images.
        """
        trees = plant(self.inputs, self.options.layout, needs.temp_dir)
        files = {image.path: _looked_at(image.path) for tree in trees for image in tree.images}
        names = class_names(trees)
        text = pa.string() if all(map(_is_utf8, files)) else pa.binary()
        columns = tuple(c for c in _TYPES if names or c != "image/class/text")
        bare = any(image.group is None for tree in trees for image in tree.images)
        kinds = _TYPES | {"image/filename": text}
        return Survey(
            columns=tuple(
                Column(column, kinds[column], nulls=bare and column == "image/class/text")
                for column in columns
            ),
            partitions=tuple(self._partitions(trees, files, text)),
            fingerprints=tuple(files.values()),
            notices=(*tree_notices(trees, names), *format_notices([*files.values()], needs)),
            options=self.options.model_dump(),
            labels=_labels(names),
        )

    def files(self, temp_dir: str | None) -> Listing:
        """The images and classes that a survey would find."""
        trees = plant(self.inputs, self.options.layout, temp_dir)
        paths = tuple(image.path for tree in trees for image in tree.images)
        return Listing(paths, _labels(class_names(trees)))

    def _partitions(
        self, trees: Sequence[ImageTree], files: Mapping[str, Fingerprint], names: pa.DataType
    ) -> Iterator[Partition]:
        for tree in trees:
            row = 0
            for split, images in groupby(tree.images, key=lambda image: image.split):
                several = list(images)
                sizes = [files[image.path].size for image in several]
                for first, last in cuts(sizes, self.partition_bytes, self.partition_files):
                    run = several[first:last]
                    detail = ImageFiles(
                        tuple(image.path for image in run),
                        tuple(image.group for image in run),
                        tuple(sizes[first:last]),
                        tuple(files[image.path].state for image in run),
                        names,
                    )
                    size = sum(detail.sizes)
                    names_of = tuple(display(path) for path in detail.paths)
                    encoded = {"image/encoded": size}
                    yield Partition(
                        tree.root, row, len(run), size, detail, split, names_of, encoded
                    )
                    row += len(run)

    def read(self, partition: Partition, columns: Sequence[str]) -> Iterator[SourceBatch]:
        """The images of a partition, in batches of about `batch_bytes`.

        A file that is missing, unreadable, empty or no image is a Fault naming it.
        """
        detail: ImageFiles = partition.detail
        row = partition.first_row
        full = self.options.check == "full"
        for first, last in cuts(detail.sizes, self.batch_bytes, len(detail.sizes)):
            part = slice(first, last)
            read = read_images(detail.paths[part], detail.sizes[part], detail.states[part], full)
            origin = Origin(
                display(partition.file), row, files=partition.files and partition.files[first:last]
            )
            yield _batch(_Rows(detail, first, last, read), columns, origin)
            row += last - first


def _labels(names: tuple[str, ...]) -> tuple[LabelHint, ...]:
    return (LabelHint("image/class/label", "image/class/text", names),) if names else ()


def _looked_at(path: str) -> Fingerprint:
    """What a file looks like; one that is gone, behind a link, is a row that fails."""
    try:
        return as_found(path, os.stat(path))
    except OSError:
        return Fingerprint(path, 0, 0)


def cuts(sizes: Sequence[int], most: int, count: int) -> Iterator[tuple[int, int]]:
    """Neighbours together, up to `most` bytes and `count` of them, at least one."""
    first, held = 0, 0
    for at, size in enumerate(sizes):
        if at > first and (held + size > most or at - first == count):
            yield first, at
            first, held = at, 0
        held += size
    if sizes:
        yield first, len(sizes)


def _batch(rows: _Rows, columns: Sequence[str], origin: Origin) -> SourceBatch:
    if columns:
        data = pa.RecordBatch.from_arrays([rows.cells(c) for c in columns], list(columns))
    else:
        data = rows_without_columns(len(rows.read.images))
    hint = "Replace or remove it, or leave such files out with --on-error skip."
    faults = tuple(
        Fault(row, None, None, image.fault, hint)
        for row, image in enumerate(rows.read.images)
        if image.fault
    )
    return SourceBatch(data, origin, faults, rows.read.prints)


def _whole(files: FilesRead, kind: pa.DataType) -> pa.Array:
    """The files' bytes as cells, where they are."""
    offsets = np.concatenate(([0], files.ends))
    if len(files.data) > MOST_BYTES:
        kind = pa.large_binary()
    offsets = offsets if pa.types.is_large_binary(kind) else offsets.astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), files.data]
    return pa.Array.from_buffers(kind, len(files.ends), buffers)


def image_cells(cells: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The cells of images as `kind`; bytes as large_binary where they do not fit otherwise, since
    files may have grown after the survey, which cut the batches by their sizes.
    """
    if kind == pa.binary() and sum(map(len, cells)) > MOST_BYTES:
        kind = pa.large_binary()
    return from_values(cells, kind)


def _is_utf8(path: str) -> bool:
    try:
        os.path.basename(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def format_notices(files: Sequence[Fingerprint], needs: Needs) -> Iterator[str]:
    """Lines on formats that TensorFlow cannot decode, and with `needs.types`, which reads the
    first bytes of each file, on endings that say another format.
    """
    paths = [file.path for file in files]
    if needs.types:
        formats = sniff_images(paths, [file.size for file in files])
        wrong = [
            p for p, f in zip(paths, formats, strict=True) if f and f != (_format_by_name(p) or f)
        ]
        if wrong:
            yield (
                f"{counted(len(wrong), 'image')} not of the format that the ending says (the "
                f"content counts): {some(wrong)}"
            )
    else:
        formats = [_format_by_name(path) for path in paths]
    for format in sorted({f for f in formats if f and f not in TENSORFLOW_READS}):
        found = [p for p, f in zip(paths, formats, strict=True) if f == format]
        yield (
            f"{counted(len(found), 'image')} of format {format}, which tf.io.decode_image does "
            f"not read: {some(found)}"
        )


def _format_by_name(path: str) -> str | None:
    ending = os.path.splitext(path)[1].lower().lstrip(".")
    usual = {"jpg": "jpeg", "jpe": "jpeg", "jfif": "jpeg", "tif": "tiff"}
    return usual.get(ending, ending) or None
