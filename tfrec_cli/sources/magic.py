"""The first bytes that tell what a file without a telling name holds.

gzip: RFC 1952. bzip2: its manual. Zstandard: RFC 8878. xz: https://tukaani.org/xz/xz-file-format.txt.
Parquet: https://parquet.apache.org/docs/file-format/.
"""

from __future__ import annotations

# Compressions of text: the first bytes, the name, and the usual ending.
COMPRESSIONS = (
    (b"\x1f\x8b\x08", "gzip", ".gz"),
    (b"BZh", "bz2", ".bz2"),
    (b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
    (b"\xfd7zXZ\x00", "xz", ".xz"),
)
PARQUET = b"PAR1"


# What follows the level in bzip2: a block, or the end. Three letters would take text for it.
_BZ2_NEXT = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
# How many first bytes tell.
HEAD = 16


def compression_of(head: bytes) -> str | None:
    """The name of the compression that the first HEAD bytes tell; None where they tell none."""
    name = next((name for magic, name, _ in COMPRESSIONS if head.startswith(magic)), None)
    return None if name == "bz2" and head[4:10] not in _BZ2_NEXT else name


def ending_of(head: bytes) -> str:
    """The file ending that the first HEAD bytes call for; empty where they tell nothing."""
    if head.startswith(PARQUET):
        return ".parquet"
    endings = {name: ending for _, name, ending in COMPRESSIONS}
    return endings.get(compression_of(head) or "", "")
