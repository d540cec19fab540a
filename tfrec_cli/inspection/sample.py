"""Some of the records, from all over a dataset, and what other forms of them would save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from tfrec_cli import _kernel
from tfrec_cli._kernel import FeatureColumn, Wanted
from tfrec_cli.estimates.excerpt import Part
from tfrec_cli.estimates.footprint import Saving, savings
from tfrec_cli.options import Compression
from tfrec_cli.reading.chunks import Chunk
from tfrec_cli.reading.survey import DatasetSurvey
from tfrec_cli.records.compression import compress_block

PIECES = 16
"""Most pieces that are kept, spread evenly."""

PIECE_BYTES = 1 << 19
"""Bytes of records of a piece, and of one record that is kept at all."""


class RecordSample:
    """The beginnings of every 2^n-th chunk, at most 16 of them, however many chunks there are."""

    def __init__(self) -> None:
        self.pieces: list[Chunk] = []
        self._stride, self._count = 1, 0

    def add(self, chunk: Chunk) -> None:
        """Look at the next chunk."""
        if chunk.container is not None:
            return
        if self._count % self._stride == 0:
            if len(self.pieces) == PIECES:
                self.pieces = self.pieces[::2]
                self._stride *= 2
            if self._count % self._stride == 0 and (piece := _beginning(chunk)) is not None:
                self.pieces.append(piece)
        self._count += 1

    @property
    def data(self) -> bytes:
        """The records, framed."""
        return b"".join(piece.data for piece in self.pieces)


def _beginning(chunk: Chunk) -> Chunk | None:
    count = int(chunk.ends.searchsorted(PIECE_BYTES, side="right"))
    if not count:
        return None
    ends = chunk.ends[:count]
    return replace(chunk, data=pa.py_buffer(bytes(chunk.data[: int(ends[-1])])), ends=ends)


def find_savings(
    sample: RecordSample, survey: DatasetSurvey, content: int, plain: bool
) -> tuple[list[Saving], float | None]:
    """What would make the records of a dataset fewer bytes, largest saving first; and about how
    many bytes the same would have as Parquet, None where that is not known.

    content: bytes of all records, decompressed. plain: whether they are not compressed yet.
    """
    parts = _parts(sample, survey)
    encoded = sum(len(part.data) for part in parts)
    if not encoded:
        return [], None
    scale = content / encoded
    # What is no feature of an Example is not in the columns, and so nothing follows from them.
    whole = not survey.sequences and survey.examples == survey.records
    found = savings(parts, scale) if whole else []
    if plain:
        data = sample.data
        packed = memoryview(compress_block(data, Compression("gzip")).data).nbytes
        found.append(Saving("gzip", "GZIP compression", content * (1 - packed / len(data))))
    return sorted(found, key=lambda saving: -saving.bytes), (
        _parquet_bytes(parts) * scale if whole else None
    )


def _parts(sample: RecordSample, survey: DatasetSurvey) -> list[Part]:
    """The sample as columns, and encoded again as tfrec would."""
    wanted = [
        Wanted(tally.key, tally.kind, (tally.fewest, tally.most) != (1, 1))
        for tally in survey.features
        if tally.kind != "no kind" and _is_text(tally.key)
    ]
    parts = []
    for piece in sample.pieces:
        decoded = _kernel.decode_examples(piece.data, piece.ends, wanted)
        columns = tuple(
            FeatureColumn(one.key.decode(), column)
            for one, column in zip(wanted, decoded.columns, strict=True)
        )
        encoded = _kernel.encode(columns)
        if columns:
            parts.append(Part(columns, bytes(encoded.data), encoded.ends))
    return parts


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _parquet_bytes(parts: Sequence[Part]) -> int:
    import pyarrow.parquet as pq

    names = [column.key for column in parts[0].columns]
    table = pa.Table.from_batches(
        [pa.RecordBatch.from_arrays([c.array for c in part.columns], names) for part in parts]
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return int(sink.getvalue().size)
