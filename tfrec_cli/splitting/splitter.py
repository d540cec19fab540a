"""The rule by which rows get their splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import is_valid, to_numpy
from tfrec_cli.dataset.naming import DEFAULT_SPLIT, SPLIT
from tfrec_cli.errors import did_you_mean
from tfrec_cli.schema.cells import NULL_WORDS
from tfrec_cli.shuffle.identity import Identity, OrderColumn
from tfrec_cli.shuffle.keys import Keys, fraction_bounds, keyed, text_digests
from tfrec_cli.sources.base import Fault, SourceBatch

Form = Literal["one", "folders", "column", "hash", "groups", "exact", "classes"]
Splits = npt.NDArray[np.uint8]

END = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Measured:
    """What an exact rule must know of the rows of a batch before any of them has a split.

    values: distinct classes (None is a missing one), or split names. codes: the place in `values`
    of each row. hashes: each row's number in the draw. faults: rows that can have no split.
    """

    values: tuple[str | None, ...]
    codes: npt.NDArray[np.uint32]
    hashes: Keys
    faults: list[Fault]


@dataclass(frozen=True, slots=True)
class Splitter:
    """How rows are divided into splits.

    form: `one` split; `folders` of the source name it; a `column` names it; by a `hash` of the
    identity; by a hash of the `groups` in a column; `exact`; or exact within the `classes` of a
    column. names: of the splits, in order; empty for a `column` whose values are yet to be found.
    cumulative: where the share of each split ends. thresholds: for the exact forms and each class,
    the hashes at which the second and all later splits begin.
    """

    form: Form
    names: tuple[str, ...]
    identity: Identity = field(default_factory=Identity)
    seed: int = 0
    column: OrderColumn | None = None
    cumulative: tuple[Fraction, ...] = ()
    thresholds: Mapping[str | None, tuple[int, ...]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The source's columns that the rule looks at."""
        keys = self.identity.keys if self.form in ("hash", "exact", "classes") else ()
        return tuple(c.name for c in (*keys, *([self.column] if self.column else [])))

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The fraction of all rows that each split should get; empty where none was asked."""
        begins = (Fraction(0), *self.cumulative[:-1])
        return tuple(end - begin for end, begin in zip(self.cumulative, begins, strict=False))

    @property
    def measures(self) -> bool:
        """Whether all rows must still be measured before any has a split."""
        if self.form == "column":
            return not self.names
        return self.form in ("exact", "classes") and not self.thresholds

    def assign(
        self, batch: SourceBatch, columns: Sequence[str], folder: str | None = None
    ) -> tuple[Splits, list[Fault]]:
        """The split of each row, as a position in `names`, and the rows that can have none.

        columns: the names of the batch's columns. folder: the split that the source names.
        """
        rows = batch.data.num_rows
        if self.form in ("one", "folders"):
            name = folder or DEFAULT_SPLIT
            place = self.names.index(name) if name in self.names else 0
            return np.full(rows, place, np.uint8), []
        if self.form == "column":
            values, codes, faults = self._names_of(batch, columns)
            places = [self.names.index(value) if value in self.names else 0 for value in values]
            return np.array([*places, 0], np.uint8)[codes], faults
        if self.form in ("hash", "groups"):
            hashes, faults = self._hashes(batch, columns)
            bounds = fraction_bounds(self.cumulative)
            return np.searchsorted(bounds, hashes, side="right").astype(np.uint8), faults
        measured = self.measure(batch, columns)
        # A class that only rows in error have has no thresholds, and needs none.
        unused = (END,) * (len(self.names) - 1)
        begins = [self.thresholds.get(value, unused) for value in measured.values]
        table = np.array(begins, np.uint64).reshape(len(begins), -1)
        later = measured.hashes[:, None] >= table[measured.codes]
        return later.sum(axis=1).astype(np.uint8), measured.faults

    def measure(self, batch: SourceBatch, columns: Sequence[str]) -> Measured:
        """What the exact forms, and a column with names yet to be found, must know first."""
        rows = batch.data.num_rows
        if self.form == "column":
            values, codes, faults = self._names_of(batch, columns)
            return Measured(tuple(values), codes, np.zeros(rows, np.uint64), faults)
        hashes, faults = self._hashes(batch, columns)
        if self.form == "exact":
            return Measured((None,), np.zeros(rows, np.uint32), hashes, faults)
        found, codes = _encoded(self._texts(batch, columns))
        return Measured((*found, None), codes, hashes, faults)

    def _texts(self, batch: SourceBatch, columns: Sequence[str]) -> pa.Array:
        assert self.column is not None
        return self.column.texts(batch, columns)

    def _hashes(self, batch: SourceBatch, columns: Sequence[str]) -> tuple[Keys, list[Fault]]:
        if self.form != "groups":
            # What is counted off must differ; a lot alone may be that of several rows.
            digests, faults = self.identity.digests(batch, columns, self.form != "hash")
            return keyed(digests, "split", self.seed), faults
        assert self.column is not None
        texts = self._texts(batch, columns)
        lacking = np.flatnonzero(~is_valid(texts))
        reason, hint = "has no value, which --split-by needs", "Give each row a group."
        faults = [Fault(int(row), self.column.name, None, reason, hint) for row in lacking]
        return keyed(text_digests(texts, self.column.spelling), "split", self.seed), faults

    def _names_of(
        self, batch: SourceBatch, columns: Sequence[str]
    ) -> tuple[list[str | None], npt.NDArray[np.uint32], list[Fault]]:
        """The split names in a batch, each row's place among them, and rows without a good one."""
        assert self.column is not None
        found, codes = _encoded(self.column.words(batch, columns))
        values: list[str | None] = [*found, None]
        bad = np.array([not self._is_name(value) for value in values], bool)
        rows = np.flatnonzero(bad[codes])
        return values, codes, [self._no_split(int(row), values[codes[row]]) for row in rows]

    def _is_name(self, value: str | None) -> bool:
        if value is None:
            return False
        if self.names:
            return value in self.names
        return bool(SPLIT.fullmatch(value)) and value not in NULL_WORDS

    def _no_split(self, row: int, value: str | None) -> Fault:
        assert self.column is not None
        known = f"one of the splits {', '.join(self.names)}" if self.names else "a split name"
        if value is None or not value.strip():
            reason = f"has no value, where {known} is expected"
        elif self.names:
            reason = f"is not {known}"
        elif value in NULL_WORDS:
            reason = "says that there is no value, where a split name is expected"
        else:
            reason = "is not a split name (letters, digits, _ and -)"
        hint = f"Correct the cell, or use --on-error skip.{did_you_mean(value or '', self.names)}"
        return Fault(row, self.column.name, value, reason, hint)


def _encoded(texts: pa.Array) -> tuple[list[str], npt.NDArray[np.uint32]]:
    """Distinct values, and each row's place among them; nulls have the place after the last."""
    encoded = pc.dictionary_encode(texts)
    values = encoded.dictionary.to_pylist()
    codes = np.where(is_valid(texts), to_numpy(encoded.indices), len(values))
    return values, codes.astype(np.uint32)
