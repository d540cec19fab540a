"""Files that are told by their first bytes to be TFRecord, or to be plainly something else."""

from __future__ import annotations

import zlib

from tfrec_cli.errors import TfrecError
from tfrec_cli.records.framing import HEADER, sniff, starts_with_record
from tfrec_cli.sources.magic import kind_of_file
from tfrec_cli.sources.paths import display, has_suffix
from tfrec_cli.sources.suffixes import TFRECORD_SUFFIXES

HEAD = 4096
"""First bytes that are looked at."""


def holds_records(head: bytes) -> bool:
    """Whether a file that begins with `head` is TFRecord: plain, GZIP or ZLIB."""
    return starts_with_record(_inflated(head)[:HEADER])


def foreign_kind(path: str) -> str | None:
    """What the file at `path` is, as in `a Parquet file`, where its first bytes say that it is
    another thing than TFRecord; None for TFRecord, an empty file, and where nobody can tell, as of
    damage: any few bytes may look like text, so that a name of TFRecord counts for more. Raises
    OSError.
    """
    with open(path, "rb") as file:
        head = file.read(HEAD)
    inflated = _inflated(head)
    if starts_with_record(inflated[:HEADER]) or (kind := kind_of_file(inflated)) is None:
        return None
    if kind == "text" and has_suffix(path, (*TFRECORD_SUFFIXES, ".gz", ".zz")):
        return None
    return kind if inflated is head else f"{kind} inside {sniff(head[:HEADER]).upper()}"


def refuse_foreign(path: str, error: type[TfrecError]) -> None:
    """Raise `error` where the file at `path` is told by its first bytes to be no TFRecord."""
    try:
        kind = foreign_kind(path)
    except OSError:
        # Reading it will say so.
        return
    if kind is not None:
        raise error(
            f"{display(path)}: no TFRecord file: it is {kind}. Name TFRecord files; `tfrec "
            "convert` makes them of tables and pictures."
        )


def _inflated(head: bytes) -> bytes:
    """The content that a file's first bytes hold: `head` itself where it is not compressed."""
    if sniff(head[:HEADER]) == "none":
        return head
    # 32 more than the largest window: a GZIP or a ZLIB header, whichever is there.
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        return inflate.decompress(head, HEAD)
    except zlib.error:
        return head
