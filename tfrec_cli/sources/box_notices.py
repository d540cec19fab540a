"""What there is to say about boxes and their pictures before any record is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tfrec_cli.sources.base import Fingerprint, Needs
from tfrec_cli.sources.box_fit import fit_boxes
from tfrec_cli.sources.box_groups import PictureRows
from tfrec_cli.sources.box_options import SIZES, BoxSettings
from tfrec_cli.sources.box_pictures import unnamed_notices
from tfrec_cli.sources.box_table import place_of
from tfrec_cli.sources.files import counted
from tfrec_cli.sources.imagefile import read_image
from tfrec_cli.sources.images import format_notices
from tfrec_cli.sources.imagetree import alike
from tfrec_cli.sources.readers import read_each


def picture_notices(
    pictures: PictureRows, files: Sequence[Fingerprint], classes: Sequence[str], needs: Needs
) -> Iterator[str]:
    """What is odd about the pictures and the classes."""
    yield from format_notices(files, needs)
    yield from unnamed_notices([file.path for file in files])
    named = [name for name in pictures.names if name is not None]
    twice = len(named) - len(set(named))
    if twice:
        yield f"{counted(twice, 'picture')} with the name of another one, so with its source_id too"
    for group in alike(classes):
        yield f"the classes {', '.join(group)} differ in the case or form of letters only"
    boxed = pictures.rows.column("class").is_valid().to_numpy(zero_copy_only=False)
    bare = int((np.add.reduceat(boxed, pictures.starts[:-1], dtype=np.int64) == 0).sum())
    if bare:
        yield f"{counted(bare, 'picture')} without a box"


def box_notices(pictures: PictureRows, options: BoxSettings) -> Iterator[str]:
    """What `bad_box` made of boxes, where it is no error."""
    if options.bad_box == "error":
        return
    fit = fit_boxes(pictures.rows, _sizes_beforehand(pictures), options)
    for mask, what in (
        (fit.left_out, "without area, or out of the picture, left out"),
        (fit.cut, "cut at the edge of the picture"),
    ):
        rows = np.flatnonzero(mask).tolist()
        if rows:
            places = [str(place_of(pictures.tables, pictures.rows, row)) for row in rows[:8]]
            more = f" and {len(rows) - 8:,} more" if len(rows) > 8 else ""
            yield f"{counted(len(rows), 'box')} {what}: {'; '.join(places)}{more}"


def _sizes_beforehand(pictures: PictureRows) -> npt.NDArray[np.float64]:
    """Width and height of each row's picture: as the table says, which `read` compares, or where
    it does not, as the picture says.
    """
    said = [pictures.rows.column(name).to_numpy(zero_copy_only=False) for name in SIZES]
    sizes = np.stack(said, axis=1)
    sizes[sizes <= 0] = np.nan
    lacking = np.isnan(sizes).any(axis=1)
    if lacking.any():
        wanted = {pictures.picture_of(row) for row in np.flatnonzero(lacking).tolist()}
        files = [file if at in wanted else None for at, file in enumerate(pictures.files)]
        found = read_each(lambda f: read_image(f.path, False).size if f else None, files)
        sizes = np.where(np.isnan(sizes), pictures.per_row(found), sizes)
    return sizes
