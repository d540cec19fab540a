"""Who a row is: its file and number, or the values of its key columns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import has_magic

import numpy as np
import pyarrow as pa

from tfrec_cli.buffers import is_valid
from tfrec_cli.schema.grammar import TextRules
from tfrec_cli.shuffle.keys import (
    Keys,
    cell_texts,
    column_texts,
    combined,
    file_digests,
    row_digests,
    text_digests,
)
from tfrec_cli.sources.base import Fault, Partition, SourceBatch
from tfrec_cli.sources.files import display

# Streams and URLs are copied to a folder of such a name first; what follows is theirs.
_COPIED = re.compile(r".*/tfrec-[^/]+/(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class OrderColumn:
    """A column that decides on order or split.

    text: the rules of its cells where the source is text. kind: with them, what the cells are.
    """

    name: str
    text: TextRules | None = None
    kind: str | None = None

    def texts(self, batch: SourceBatch, columns: Sequence[str]) -> pa.Array:
        """The text of each row's value, by which values are compared; nulls are missing values.

        columns: the names of the batch's columns.
        """
        return column_texts(self._cells(batch, columns), self.text, self.kind)

    def words(self, batch: SourceBatch, columns: Sequence[str]) -> pa.Array:
        """Each row's cell to the letter; nulls and arguments as in `texts`."""
        return cell_texts(self._cells(batch, columns), self.text, self.kind)

    def _cells(self, batch: SourceBatch, columns: Sequence[str]) -> pa.Array:
        return batch.data.column(columns.index(self.name))


@dataclass(frozen=True, slots=True)
class Identity:
    """How rows of a source are told apart.

    keys: the columns of `--key`; without them a row is its place. names: for each file, its path
    relative to its SOURCE and how many files before it are called so. roots: the SOURCEs as
    folders. by_file: rows are files of their own, and known by their paths.
    """

    keys: tuple[OrderColumn, ...] = ()
    names: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    roots: tuple[str | None, ...] = ()
    by_file: bool = False

    def digests(self, batch: SourceBatch, columns: Sequence[str]) -> tuple[Keys, list[Fault]]:
        """The digest of each row's identity, and the rows that have none.

        columns: the names of the batch's columns.
        """
        if self.keys:
            return self._by_keys(batch, columns)
        if self.by_file and batch.origin.files is not None:
            return self._by_files(batch.origin.files[: batch.data.num_rows]), []
        file = display(batch.origin.file)
        name, occurrence = self.names.get(file) or (relative(file, self.roots)[0], 0)
        return row_digests(name, occurrence, batch.origin.first_row, batch.data.num_rows), []

    def _by_keys(self, batch: SourceBatch, columns: Sequence[str]) -> tuple[Keys, list[Fault]]:
        found, faults = [], []
        for key in self.keys:
            texts = key.texts(batch, columns)
            missing = np.flatnonzero(~is_valid(texts))
            faults += [_without_key(int(row), key.name) for row in missing]
            found.append(text_digests(texts))
        return combined(found), faults

    def _by_files(self, files: Sequence[str]) -> Keys:
        found = [relative(file, self.roots) for file in files]
        digests = np.empty(len(found), np.uint64)
        for root in {root for _, root in found}:
            rows = [row for row, (_, place) in enumerate(found) if place == root]
            digests[rows] = file_digests((found[row][0] for row in rows), root)
        return digests


def identify(
    partitions: Iterable[Partition], sources: Sequence[object], keys: tuple[OrderColumn, ...] = ()
) -> Identity:
    """How the rows of these partitions are told apart. sources: the SOURCE arguments."""
    partitions = list(partitions)
    roots = tuple(_root(item) if isinstance(item, str) else None for item in sources)
    plain = {display(item) for item in sources if isinstance(item, str)}
    files = dict.fromkeys(display(partition.file) for partition in partitions)
    names: dict[str, tuple[str, int]] = {}
    seen: dict[str, int] = {}
    for file in files:
        name = os.path.basename(file) if file in plain else relative(file, roots)[0]
        names[file] = (name, seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    by_file = bool(partitions) and all(part.files is not None for part in partitions)
    return Identity(keys, names, roots, by_file)


def relative(file: str, roots: Sequence[str | None]) -> tuple[str, int]:
    """`file` relative to the first of `roots` that it lies in, and the number of that root.

    A file in none of them is its base name, or what it is called within a copied folder.
    """
    copied = _COPIED.fullmatch(file)
    if copied:
        return copied[1], 0
    path = os.path.normpath(file)
    for number, root in enumerate(roots):
        if root is not None and path.startswith(root) and (root or not os.path.isabs(path)):
            return path[len(root) :], number
    return os.path.basename(file), 0


def _root(source: str) -> str | None:
    """The folder that names within SOURCE are relative to, with its separator; None for a file."""
    if os.path.isdir(source):
        folder = source
    elif has_magic(source) and not os.path.lexists(source):
        parts = source.split(os.sep)
        folder = os.sep.join(parts[: next(at for at, part in enumerate(parts) if has_magic(part))])
        folder = os.sep if not folder and source.startswith(os.sep) else folder
    else:
        return None
    normal = os.path.normpath(folder or os.curdir)
    return "" if normal == os.curdir else os.path.join(display(normal), "")


def _without_key(row: int, column: str) -> Fault:
    return Fault(row, column, None, "has no value, which --key needs", "Name other columns.")
