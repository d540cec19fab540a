"""Object detection: tables of boxes and the pictures they belong to, one row a picture.

The inputs are box tables (CSV, or Parquet by its ending) and the folders that hold the pictures.
A table has the columns `filename,class,xmin,ymin,xmax,ymax`, and `width,height` where they are to
be compared with the pictures; options give them other names. Tables are read whole, pictures
never more than a few at a time.

Rows are the pictures in the order of their first sight. Columns, called as by TensorFlow's Object
Detection API (research/object_detection/g3doc/using_your_own_dataset.md):

    image/encoded                    the file's bytes
    image/format                     `jpeg`, `png`, … as the first bytes tell
    image/height, image/width        as the picture itself says
    image/filename, image/source_id  the name as the table writes it
    image/key/sha256                 of the bytes, in hex
    image/object/bbox/xmin, …        lists of edges as parts of the picture's size, 0 to 1
    image/object/class/text          list of names

The boxes of a picture are in the order of the table. Classes are numbered from 1, since 0 is the
background, over all rows: in the order of numbers where all names are integers, else in that of
their bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel

from tfrec_cli.buffers import rows_without_columns
from tfrec_cli.errors import Location, SourceError
from tfrec_cli.schema.labels import sort_labels
from tfrec_cli.sources.base import (
    Column,
    Fault,
    LabelHint,
    Needs,
    Origin,
    Partition,
    SourceBatch,
    Survey,
)
from tfrec_cli.sources.box_fit import Fit, fit_boxes, size_faults
from tfrec_cli.sources.box_groups import PictureRows, gather
from tfrec_cli.sources.box_notices import box_notices, picture_notices
from tfrec_cli.sources.box_options import EDGES, BoxOptions, BoxSettings
from tfrec_cli.sources.box_pictures import SKIP, Finder
from tfrec_cli.sources.box_table import place_of, read_tables
from tfrec_cli.sources.files import display, has_suffix, walk
from tfrec_cli.sources.imagefile import ImageFile, read_image
from tfrec_cli.sources.images import cuts, image_cells
from tfrec_cli.sources.readers import read_each
from tfrec_cli.sources.suffixes import IMAGE_SUFFIXES

_TYPES = {
    "image/encoded": pa.binary(),
    "image/filename": pa.string(),
    "image/format": pa.string(),
    "image/height": pa.int64(),
    "image/key/sha256": pa.string(),
    **{f"image/object/bbox/{edge}": pa.list_(pa.float32()) for edge in sorted(EDGES)},
    "image/object/class/text": pa.list_(pa.string()),
    "image/source_id": pa.string(),
    "image/width": pa.int64(),
}
_LABEL, _TEXT = "image/object/class/label", "image/object/class/text"
_NO_FILE = ImageFile()


class BoxesSource:
    """Reads box tables and pictures; see `tfrec_cli.sources.base.Source`."""

    name: ClassVar[str] = "boxes"
    summary: ClassVar[str] = (
        "Object detection: CSV or Parquet tables of boxes, and the folders of their pictures."
    )
    suffixes: ClassVar[tuple[str, ...]] = ()
    Options: ClassVar[type[BaseModel]] = BoxOptions

    def __init__(self, inputs: Sequence[Any], options: BaseModel) -> None:
        assert isinstance(options, BoxSettings)
        self.inputs = tuple(str(item) for item in inputs)
        self.options = options
        self.partition_bytes = 64 * 2**20
        self.partition_files = 512
        self.batch_bytes = 16 * 2**20

    def survey(self, needs: Needs) -> Survey:
        """Read the tables and find the pictures.

        A picture that is not there, and a row that is no box, are faults that `read` tells. Raises
        SourceError for a table that cannot be read, lacks a column or holds no row.
        """
        folders = [item for item in self.inputs if os.path.isdir(item)]
        tables = [item for item in self.inputs if not os.path.isdir(item)]
        if not tables:
            raise _no_table(folders)
        if pictures := [item for item in tables if has_suffix(item, IMAGE_SUFFIXES)]:
            raise SourceError(
                f"{display(pictures[0])}: is a picture, expected tables of boxes and folders of "
                "pictures. Name the folder that holds it."
            )
        table = read_tables(tables, self.options, needs)
        found = gather(table, Finder(tuple(folders)), self.options.filename)
        files = list({file.path: file for file in found.files if file is not None}.values())
        classes = sort_labels(table.rows.column("class").drop_null().unique().to_pylist())
        return Survey(
            columns=tuple(Column(name, kind, nulls=False) for name, kind in _TYPES.items()),
            partitions=tuple(self._partitions(found)),
            fingerprints=(*table.fingerprints, *files),
            notices=(
                *table.notices,
                *picture_notices(found, files, classes, needs),
                *box_notices(found, self.options),
            ),
            options=table.options,
            labels=(LabelHint(_LABEL, _TEXT, classes, first=1),) if classes else (),
        )

    def _partitions(self, pictures: PictureRows) -> Iterator[Partition]:
        """Runs of pictures that are first seen in the same table."""
        tables = pictures.rows.column("file").take(pa.array(pictures.starts[:-1])).to_pylist()
        sizes, begin = pictures.sizes, 0
        for table, group in groupby(tables):
            end = begin + len(list(group))
            for first, last in cuts(sizes[begin:end], self.partition_bytes, self.partition_files):
                detail = pictures.part(begin + first, begin + last)
                size = sum(detail.sizes)
                yield Partition(pictures.tables[table], first, last - first, size, detail)
            begin = end

    def read(self, partition: Partition, columns: Sequence[str]) -> Iterator[SourceBatch]:
        """The pictures of a partition with their boxes, in batches of about `batch_bytes`."""
        detail: PictureRows = partition.detail
        row = partition.first_row
        for first, last in cuts(detail.sizes, self.batch_bytes, len(detail.names)):
            batch = _Batch.of(detail.part(first, last), self.options)
            faults = batch.faults(self.options)
            place = partial(batch.place, faults)
            origin = Origin(display(partition.file), row, place=place)
            told = tuple(replace(fault, row=picture) for picture, fault in sorted(faults.items()))
            yield SourceBatch(batch.data(columns), origin, told)
            row += last - first


def _no_table(folders: Sequence[str]) -> SourceError:
    below = [path for folder in folders for path in walk(folder).files]
    tables = [path for path in below if has_suffix(path, (".csv", ".tsv", ".parquet"))]
    hint = f" Did you mean {display(tables[0])}?" if tables else ""
    return SourceError(
        f"{', '.join(map(display, folders))}: found folders only, expected a table of boxes beside "
        f"them, as in: boxes.csv {display(folders[0])} DEST.{hint}"
    )


# Batches -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some pictures, with their files read and their boxes laid over them.

    sizes: width and height of the picture of each row, nan where there is none.
    """

    pictures: PictureRows
    images: tuple[ImageFile, ...]
    sizes: npt.NDArray[np.float64]
    fit: Fit

    @classmethod
    def of(cls, pictures: PictureRows, options: BoxSettings) -> _Batch:
        """Read the pictures, save those that are at fault anyway."""
        full = options.check == "full"
        blamed = {pictures.picture_of(fault.row) for fault in pictures.faults}
        files = [None if at in blamed else file for at, file in enumerate(pictures.files)]
        images = read_each(lambda f: read_image(f.path, full) if f else _NO_FILE, files)
        sizes = pictures.per_row([image.size for image in images])
        return cls(pictures, tuple(images), sizes, fit_boxes(pictures.rows, sizes, options))

    def faults(self, options: BoxSettings) -> dict[int, Fault]:
        """The first fault of each picture that has one; `row` is the position in the table rows."""
        column, hint = options.filename, f"Replace or remove it, {SKIP}"
        pictures = self.pictures
        unread = [
            Fault(pictures.starts[at], column, pictures.names[at], f"names a file that {why}", hint)
            for at, image in enumerate(self.images)
            if (why := image.fault)
        ]
        sizes = size_faults(pictures.rows, self.sizes, options)
        found = sorted([*pictures.faults, *unread, *sizes, *self.fit.faults], key=lambda f: f.row)
        first: dict[int, Fault] = {}
        for fault in found:
            first.setdefault(pictures.picture_of(fault.row), fault)
        return first

    def place(
        self, faults: Mapping[int, Fault], picture: int, column: str | None, value: str | None
    ) -> Location:
        """Where a picture's row at fault stands, or that of the class `value`; else its first."""
        pictures = self.pictures
        row = pictures.starts[picture]
        if picture in faults:
            row = faults[picture].row
        elif column == _TEXT:
            end = pictures.starts[picture + 1]
            classes = pictures.rows.column("class").slice(row, end - row).to_pylist()
            row += classes.index(value) if value in classes else 0
        return place_of(pictures.tables, pictures.rows, row)

    def data(self, columns: Sequence[str]) -> pa.RecordBatch:
        """The columns asked for."""
        if not columns:
            return rows_without_columns(len(self.images))
        arrays = [self._column(name) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, list(columns))

    def _column(self, name: str) -> pa.Array:
        if name.startswith("image/object/"):
            return self._list(name.rpartition("/")[2])
        cells: list[Any]
        if name == "image/key/sha256":
            cells = read_each(lambda i: sha256(i.data).hexdigest(), self.images)
        elif name in ("image/filename", "image/source_id"):
            cells = list(self.pictures.names)
        elif name in ("image/height", "image/width"):
            cells = [i.size and i.size[name == "image/height"] for i in self.images]
        else:
            cells = [i.data if name == "image/encoded" else i.format for i in self.images]
        return image_cells(cells, _TYPES[name])

    def _list(self, name: str) -> pa.Array:
        """The class or one edge of each picture's boxes."""
        kept = np.flatnonzero(self.fit.kept)
        offsets = np.searchsorted(kept, self.pictures.starts).astype(np.int32)
        if name == "text":
            values = self.pictures.rows.column("class").take(pa.array(kept))
        else:
            values = pa.array(self.fit.edges[kept, EDGES.index(name)])
        return pa.ListArray.from_arrays(pa.array(offsets), values)
