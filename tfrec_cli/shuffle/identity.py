"""Who a row is: its file and number, or the values of its key columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from itertools import chain

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
from tfrec_cli.sources.files import byte_order, display
from tfrec_cli.sources.spools import within_spool


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

    @property
    def spelling(self) -> TextRules | None:
        """By which rules text in the column may be numbers; None where there is no text in it."""
        return None if self.kind in ("int64", "float") else self.text

    def words(self, batch: SourceBatch, columns: Sequence[str]) -> pa.Array:
        """Each row's cell to the letter; nulls and arguments as in `texts`."""
        return cell_texts(self._cells(batch, columns), self.text, self.kind)

    def _cells(self, batch: SourceBatch, columns: Sequence[str]) -> pa.Array:
        return batch.data.column(columns.index(self.name))


@dataclass(frozen=True, slots=True)
class Identity:
    """How rows of a source are told apart.

    keys: the columns of `--key`; without them a row is its place. names: what each file is known
    by, and how many before it by the same. roots: the SOURCEs that are folders. by_file: rows are
    files of their own; `names` lacks them where SOURCE is one folder.
    """

    keys: tuple[OrderColumn, ...] = ()
    names: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    roots: tuple[str, ...] = ()
    by_file: bool = False

    def digests(
        self, batch: SourceBatch, columns: Sequence[str], spelled: bool = True
    ) -> tuple[Keys, list[Fault]]:
        """The digest of each row's identity, and the rows that have none.

        columns: the names of the batch's columns. spelled: whether keys differ that are text and
        one number (`7`, `7.0`); if not, keys keep their digests where numbers become text.
        """
        if self.keys:
            return self._by_keys(batch, columns, spelled)
        if self.by_file and batch.origin.files is not None:
            return self._by_files(batch.origin.files[: batch.data.num_rows]), []
        file = display(batch.origin.file)
        name, occurrence = self.names.get(file) or (relative(file, self.roots), 0)
        return row_digests(name, occurrence, batch.origin.first_row, batch.data.num_rows), []

    def _by_keys(
        self, batch: SourceBatch, columns: Sequence[str], spelled: bool
    ) -> tuple[Keys, list[Fault]]:
        found, faults = [], []
        for key in self.keys:
            texts = key.texts(batch, columns)
            missing = np.flatnonzero(~is_valid(texts))
            faults += [_without_key(int(row), key.name) for row in missing]
            found.append(text_digests(texts, None if spelled else key.spelling))
        return combined(found), faults

    def _by_files(self, files: Sequence[str]) -> Keys:
        found = [self.names.get(file) or (relative(file, self.roots), 0) for file in files]
        digests = np.empty(len(found), np.uint64)
        for occurrence in {occurrence for _, occurrence in found}:
            rows = [row for row, (_, before) in enumerate(found) if before == occurrence]
            digests[rows] = file_digests((found[row][0] for row in rows), occurrence)
        return digests


def identify(
    partitions: Iterable[Partition], sources: Sequence[object], keys: tuple[OrderColumn, ...] = ()
) -> Identity:
    """How the rows of these partitions are told apart. sources: the SOURCE arguments.

    A file of a folder that is a SOURCE is known by its path within that folder, any other by its
    base name. Where a file before it is called so, it is known by the shortest longer end of its
    path that none before it has. So files move no row of those that stand before them, nor of
    those behind that are not called as they are; where the data lie, and whether the shell or
    tfrec expands a pattern, changes nothing.
    """
    partitions = list(partitions)
    roots = tuple(chain.from_iterable(map(_roots, sources)))
    by_file = bool(partitions) and all(part.files is not None for part in partitions)
    files = dict.fromkeys(chain.from_iterable(_files(part, by_file) for part in partitions))
    if by_file and len(sources) == len(roots) == 1 and _is_folder(sources[0]):
        # Each has a path of its own within the folder.
        files = {}
    plain = {display(item) for item in sources if isinstance(item, str)}
    names: dict[str, tuple[str, int]] = {}
    seen: dict[str, int] = {}
    for file in files:
        name = os.path.basename(file) if file in plain else relative(file, roots)
        if name in seen and within_spool(file) is None:
            name = next((end for end in _ends(file, name) if end not in seen), name)
        names[file] = (name, seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    return Identity(keys, names, roots, by_file)


def _files(partition: Partition, by_file: bool) -> Sequence[str]:
    """The files of a partition that need names."""
    if by_file and partition.files is not None:
        return partition.files
    return (display(partition.file),)


def _is_folder(source: object) -> bool:
    return isinstance(source, str) and os.path.isdir(source)


def _ends(file: str, name: str) -> Iterator[str]:
    """The ends of the path of `file` that are longer than `name`, the shortest first."""
    parts = os.path.abspath(file).split(os.sep)
    for count in range(name.count(os.sep) + 2, len(parts) + 1):
        yield os.sep.join(parts[-count:])


def relative(file: str, roots: Sequence[str]) -> str:
    """`file` relative to the first of `roots` that it lies in.

    A file in none of them is its base name, or what it is called within a copied folder.
    """
    copied = within_spool(file)
    if copied is not None:
        return copied
    path = os.path.normpath(file)
    for root in roots:
        if path.startswith(root) and (root or not os.path.isabs(path)):
            return path[len(root) :]
    return os.path.basename(file)


def _roots(source: object) -> list[str]:
    """The folders that SOURCE is, or as a pattern matches, each with its separator."""
    if not isinstance(source, str):
        return []
    if os.path.isdir(source):
        return [_root(source)]
    if not has_magic(source) or os.path.lexists(source) or "**" in source.split(os.sep):
        return []
    matches = sorted(glob(source, include_hidden=True), key=byte_order)
    return [_root(match) for match in matches if os.path.isdir(match)]


def _root(folder: str) -> str:
    normal = os.path.normpath(folder)
    return "" if normal == os.curdir else os.path.join(display(normal), "")


def _without_key(row: int, column: str) -> Fault:
    return Fault(row, column, None, "has no value, which --key needs", "Name other columns.")
