"""Boxes laid over their pictures: which fit, which are cut at an edge, which are wrong.

An edge may lie up to half a pixel outside of its picture: that is rounding, and it is cut. A box
has an area where its edges, as parts of the picture's size in 32-bit floats, are still in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.sources.base import Fault
from tfrec_cli.sources.box_options import EDGES, BoxSettings

SLACK = 0.5

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fit:
    """What became of boxes, one entry a row of the table.

    kept: the row is a box that is written. edges: xmin, ymin, xmax, ymax as parts of the
    picture's size (float32, 0 to 1). left_out, cut: what `bad_box` made of the others. faults:
    those that are errors, by rows.
    """

    kept: Mask
    edges: npt.NDArray[np.float32]
    left_out: Mask
    cut: Mask
    faults: tuple[Fault, ...]


def fit_boxes(rows: pa.RecordBatch, sizes: Floats, options: BoxSettings) -> Fit:
    """Lay the boxes of `rows` (see BoxTable) over their pictures.

    sizes: width and height of the picture of each row, in pixels; nan where nobody knows, and the
    row is passed over. A row without a box is not kept, and no fault.
    """
    given = np.stack([_floats(rows, edge) for edge in EDGES], axis=1)
    both = np.concatenate([sizes, sizes], axis=1)
    whole = np.asarray(~np.isnan(given).any(axis=1) & ~np.isnan(sizes).any(axis=1))
    with np.errstate(over="ignore"):
        parts = given if options.relative else given / both
        pixels = given * both if options.relative else given
    beyond = np.asarray((pixels < -SLACK) | (pixels > both + SLACK))
    beyond &= whole[:, None]
    edges = np.clip(np.nan_to_num(parts), 0, 1).astype(np.float32)
    flat = np.asarray((edges[:, :2] >= edges[:, 2:]).any(axis=1)) & whole
    if options.bad_box == "error":
        wrong = beyond.any(axis=1) | flat
        faults = tuple(
            _fault(row, given[row], beyond[row], sizes[row], options) for row in _rows(wrong)
        )
        nothing = np.zeros(len(whole), bool)
        return Fit(whole & ~wrong, edges, nothing, nothing, faults)
    outside = np.asarray(beyond.any(axis=1))
    left_out = flat | outside if options.bad_box == "drop" else flat
    kept = whole & ~left_out
    return Fit(kept, edges, left_out, outside & kept, ())


def size_faults(rows: pa.RecordBatch, sizes: Floats, options: BoxSettings) -> Iterator[Fault]:
    """Rows whose width or height is not that of their picture; `sizes` as for `fit_boxes`."""
    said = np.stack([_floats(rows, "width"), _floats(rows, "height")], axis=1)
    differs = ~np.isnan(said) & ~np.isnan(sizes) & (said != sizes)
    for row in _rows(differs.any(axis=1)):
        at = int(np.argmax(differs[row]))
        width, height = (int(size) for size in sizes[row])
        reason = f"is not the {('width', 'height')[at]} of the picture, which is {width} × {height}"
        if tuple(said[row]) == (height, width):
            reason += " (turned by its EXIF orientation, perhaps, which readers of records ignore)"
        hint = (
            "Correct the row; if its box belongs to the picture as it is, leave sizes uncompared "
            "with -O width=none -O height=none."
        )
        column = options.column(("width", "height")[at])
        yield Fault(row, column, _shown(said[row][at]), reason, hint)


def _floats(rows: pa.RecordBatch, role: str) -> Floats:
    """A column of numbers, nan where there is none."""
    return np.asarray(rows.column(role).to_numpy(zero_copy_only=False), np.float64)


def _rows(mask: Mask) -> list[int]:
    found: list[int] = np.flatnonzero(mask).tolist()
    return found


def _fault(row: int, box: Floats, beyond: Mask, size: Floats, options: BoxSettings) -> Fault:
    """What is wrong with one box, that has no area or reaches out of its picture."""
    for axis, (low, high) in enumerate((("xmin", "xmax"), ("ymin", "ymax"))):
        if box[axis] >= box[axis + 2]:
            other = f"{options.column(high)} {_shown(box[axis + 2])}"
            order = "equals" if box[axis] == box[axis + 2] else "is greater than"
            reason = f"{order} {other}, so the box has no area"
            return _said(row, low, box[axis], reason, options)
    if not beyond.any():
        reason = "begins a box without area within its picture"
        return _said(row, "xmin", box[0], reason, options)
    edge = int(np.argmax(beyond))
    axis = edge % 2
    limit = 1 if options.relative else size[axis]
    side = "is negative" if box[edge] < 0 else f"is beyond {_shown(limit)}"
    what = f"{side}, outside of its picture, which is {_shown(size[axis])} pixels"
    return _said(row, EDGES[edge], box[edge], f"{what} {('wide', 'high')[axis]}", options)


def _said(row: int, role: str, value: Any, reason: str, options: BoxSettings) -> Fault:
    clip = "cut such boxes with -O bad_box=clip, " if "outside" in reason else ""
    hint = f"Correct the row, {clip}or leave such boxes out with -O bad_box=drop."
    if options.relative and abs(value) > 2:
        hint = "Edges were said to be relative, from 0 to 1: is this pixels?"
    return Fault(row, options.column(role), _shown(value), reason, hint)


def _shown(value: Any) -> str:
    """A number as people write it: `60`, `0.25`."""
    return f"{float(value):.15g}"
