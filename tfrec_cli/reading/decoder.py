"""Chunks of framed Examples to Arrow batches; the first record that does not fit is an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import _kernel
from tfrec_cli._kernel import Decoded
from tfrec_cli.buffers import rows_without_columns
from tfrec_cli.decoding import KINDS
from tfrec_cli.errors import DamageError, DatasetError, key_text
from tfrec_cli.reading.chunks import Chunk
from tfrec_cli.reading.features import FeatureInfo
from tfrec_cli.reading.targets import Target

_NO_FEATURES = (
    "not a tf.train.Example: it has no features to decode. `records()` of the library's "
    "`open_dataset` gives its bytes"
)


Origin = Literal["manifest", "records", "told"]
_ORIGINS: dict[Origin, str] = {
    "manifest": "the manifest has",
    "records": "most records have",
    "told": "the reader expects",
}


@dataclass(frozen=True, slots=True)
class Part:
    """The features of a run of records. target: their file. record: number in it of the first,
    from 0. offset: bytes of content before that. size: bytes of the records, framed. skipped:
    records that were left out because they are not as the others, and misfit, what is wrong with
    the first of them. numbers: of the records, where some between them were left out.
    """

    target: Target
    record: int
    offset: int
    size: int
    batch: pa.RecordBatch
    skipped: int = 0
    misfit: str = ""
    numbers: npt.NDArray[np.int64] | None = None

    def number(self, row: int) -> int:
        """The number in its file of the record that a row is, from 0."""
        return self.record + row if self.numbers is None else int(self.numbers[row])


class ChunkDecoder:
    """Decodes `features`.

    origin: who says what they are; a record that differs from what a manifest says is damage.
    are_all: whether there are no others, so that a record with another one differs. is_strict:
    whether a record that differs is an error; else it is left out.
    """

    def __init__(
        self,
        features: Sequence[FeatureInfo],
        origin: Origin,
        are_all: bool,
        is_strict: bool = True,
    ) -> None:
        self.schema = pa.schema([feature.field for feature in features])
        self._features = [f for f in features if f.wanted is not None]
        self._wanted = [f.wanted for f in self._features if f.wanted is not None]
        self._places = [i for i, f in enumerate(features) if f.wanted is not None]
        self._known = {feature.raw_key for feature in features}
        self._are_all = are_all
        self._origin, self._is_strict = _ORIGINS[origin], is_strict
        self._error = DamageError if origin == "manifest" else DatasetError

    def __call__(self, chunk: Chunk) -> Part:
        """The features of a chunk's records. Raises DatasetError or DamageError."""
        decoded = _kernel.decode_examples(chunk.data, chunk.ends, self._wanted)
        if faults := list(self._faults(decoded)):
            number, text = min(faults)
            record, offset = chunk.place(number)
            words = f"{chunk.target.path}, record {record}, byte {offset}{text}"
            if self._is_strict:
                raise self._error(words)
            return self._fitting(chunk, words)
        batch = self._batch(decoded, len(chunk.ends))
        return Part(chunk.target, chunk.record, chunk.offset, chunk.data.size, batch)

    def _fitting(self, chunk: Chunk, misfit: str) -> Part:
        """The records that are as they should be; one by one, for few chunks have any others."""
        starts = np.concatenate(([0], chunk.ends[:-1]))
        view, kept = memoryview(chunk.data), []
        for row, (start, end) in enumerate(zip(starts.tolist(), chunk.ends.tolist(), strict=True)):
            ends = np.array([end - start], np.int64)
            one = _kernel.decode_examples(view[start:end], ends, self._wanted)
            if not any(True for _ in self._faults(one)):
                kept.append(row)
        rows = np.array(kept, np.int64)
        lengths = (chunk.ends - starts)[rows]
        data = b"".join(view[starts[row] : chunk.ends[row]] for row in kept)
        decoded = _kernel.decode_examples(data, np.cumsum(lengths), self._wanted)
        return Part(
            chunk.target, chunk.record, chunk.offset, chunk.data.size,
            self._batch(decoded, len(kept)), len(chunk.ends) - len(kept), misfit,
            rows + chunk.record,
        )  # fmt: skip

    def _batch(self, decoded: Decoded, count: int) -> pa.RecordBatch:
        if not len(self.schema):
            return rows_without_columns(count)
        columns = [None] * len(self.schema)
        for place, column in zip(self._places, decoded.columns, strict=True):
            columns[place] = column
        arrays = [pa.nulls(count) if column is None else column for column in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _faults(self, decoded: Decoded) -> Iterable[tuple[int, str]]:
        """Number and text for what is wrong, for each kind of fault the first record."""
        if len(decoded.invalid):
            yield int(decoded.invalid[0]), f": {_NO_FEATURES}."
        for feature, faults in zip(self._features, decoded.faults, strict=True):
            yield from self._cell_faults(feature, faults)
        for key, number in decoded.unknown:
            if self._are_all and key not in self._known:
                name = key_text(key.decode("utf-8", "surrogateescape"))
                yield number, f", feature {name}: {self._origin} no such feature. {_REMEDY}"

    def _cell_faults(self, feature: FeatureInfo, faults: np.void) -> Iterable[tuple[int, str]]:
        place = f", feature {key_text(feature.key)}"
        if faults["kind_records"]:
            found = KINDS[int(faults["kind_found"])]
            text = f"{place}: it is {found} here, but {self._origin} {feature.kind}. {_REMEDY}"
            yield int(faults["kind_first"]), text
        if faults["count_records"]:
            count = int(faults["count_found"])
            text = f"{place}: {count} values, but {self._origin} one. {_REMEDY}"
            yield int(faults["count_first"]), text


_REMEDY = "`tfrec verify` lists all that differ."
