"""Index files: where each record of a plain TFRecord file is, so that readers can jump to it.

    dali      NAME.idx, for NVIDIA DALI (`fn.readers.tfrecord(index_path=…)`)
    tfindex   NAME.tfindex, for the `tfrecord` package (`TFRecordDataset(path, index_path, …)`)

Both are text, a line for each record: the byte at which its frame begins, a blank, and the length
of the frame with its 16 bytes of framing. They lie in a folder `index` beside the files; in their
names `.tfrecord` has become `-tfrecord`, since readers of `*.tfrecord*` would take them for data.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli._kernel import crc32c
from tfrec_cli.buffers import from_numpy, scalar
from tfrec_cli.errors import DamageError, DatasetError, UsageError
from tfrec_cli.options import IndexFormat
from tfrec_cli.records.blocks import Block, Damage, read_blocks
from tfrec_cli.records.streams import ContentStream

INDEX_FORMATS: dict[IndexFormat, str] = {"dali": ".idx", "tfindex": ".tfindex"}
"""The formats, and what the names of their files end in."""

# Records, and bytes of text, that are worked on at a time.
_RUN, _TEXT = 1 << 16, 1 << 20
# No offset or size is as large.
_MOST = 2**62
# Longer than any line.
_HEAD = 64
_LINES = re.compile(rb"(\d{1,19} \d{1,19}\n)*(\d{0,19} ?\d{0,19})")


def index_name(file: str, kind: IndexFormat) -> str:
    """What the index of the file with the base name `file` is called, in the folder `index`."""
    return f"{re.sub('[.](?=tf_?rec)', '-', file, flags=re.IGNORECASE)}{INDEX_FORMATS[kind]}"


def index_text(ends: np.ndarray, start: int = 0) -> bytes:
    """The lines of an index of either format. ends: int64, the offset just past each record. start:
    where the first of them begins.
    """
    text = io.BytesIO()
    # Numbers as text take several times the room of the array: some at a time.
    for first in range(0, len(ends), _RUN):
        part = ends[first : first + _RUN]
        starts = np.concatenate((np.array([start], np.int64), part[:-1]))
        text.write(_lines(starts, part - starts))
        start = int(part[-1])
    return text.getvalue()


def _lines(starts: np.ndarray, sizes: np.ndarray) -> pa.Buffer:
    kind = pa.string()
    numbers = (pc.cast(from_numpy(column), kind) for column in (starts, sizes))
    pairs = pc.binary_join_element_wise(*numbers, scalar(" ", kind))
    # With nothing behind it, what stands between becomes the end of the line.
    lines = pc.binary_join_element_wise(pairs, scalar("", kind), scalar("\n", kind))
    _, offsets, data = lines.buffers()
    return data.slice(0, int(np.frombuffer(offsets, np.int32)[len(lines)]))


def read_index(path: str | os.PathLike[str], expected: int | None = None) -> Iterator[np.ndarray]:
    """The ends of the records that an index file lists (int64), in order, some at a time.

    expected: the CRC32C of the file, where it is known. Raises ValueError where it is no index, or
    lists records that do not follow each other, when it comes to that place, and at its end where
    its CRC32C is another; OSError where it cannot be read.
    """
    end = check = 0
    with open(path, "rb") as file:
        while lines := file.read(_TEXT):
            # The rest of the last line; the line of an index is short.
            lines += file.readline(_HEAD)
            check = crc32c(lines, check)
            ends = _ends_of(lines, end)
            if ends is None:
                raise ValueError(f"{os.fspath(path)} is no index")
            yield ends
            end = int(ends[-1])
    if expected not in (None, check):
        raise ValueError(f"{os.fspath(path)} is not what was written")


def _ends_of(lines: bytes, start: int) -> np.ndarray | None:
    """The ends that lines of an index tell, whose first record must begin at `start`; None where
    they tell something else.
    """
    # numpy stops at what is no number, and takes what is too large for the largest.
    if lines.translate(None, b"0123456789 \n") or lines.isspace():
        return None
    numbers = np.fromstring(lines, np.int64, sep=" ")
    if len(numbers) % 2 or numbers.max() >= _MOST:
        return None
    numbers = numbers.reshape(-1, 2)
    ends = numbers.sum(axis=1)
    starts = np.concatenate((np.array([start], np.int64), ends[:-1]))
    are_lines = len(ends) > 0 and np.array_equal(starts, numbers[:, 0])
    return ends if are_lines and (numbers[:, 1] >= 16).all() else None


def is_index(head: bytes) -> bool:
    """Whether a file that begins with `head` may be an index: an empty one is."""
    return _LINES.fullmatch(head) is not None


def find_records(path: str | os.PathLike[str]) -> Iterator[np.ndarray]:
    """The ends of all records of a plain TFRecord file (int64), in order, some at a time, found by
    reading it.

    Both checksums of each are looked at. Memory is bounded by 4 MiB and the largest record. Raises
    DamageError where a record is damaged, UsageError where the file is compressed, DatasetError
    where it cannot be read.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            stream = ContentStream(file)
            refuse_compressed(name, stream.container)
            for part in read_blocks(stream):
                yield _ends(name, part)
    except OSError as error:
        raise DatasetError(f"{name}: {error.strerror or error}.") from None


def refuse_compressed(path: str, container: str) -> None:
    """Raise UsageError where a file is compressed."""
    if container != "none":
        raise UsageError(
            f"{path} is {container.upper()}: nobody can jump to a record in the middle of "
            "compressed data. Index files need plain records: `tfrec convert` with --compression "
            "none makes them."
        )


def damaged_record(path: str, damage: Damage) -> DamageError:
    """The error for a record of a file at `path` whose place is looked for."""
    return DamageError(
        f"{path}, record {damage.record}, byte {damage.offset}: {damage.kind}: {damage.text}. "
        "Save what is intact with tfrec repair, and index that."
    )


def _ends(path: str, part: Block | Damage) -> np.ndarray:
    if isinstance(part, Damage):
        raise damaged_record(path, part)
    return part.ends + part.offset
