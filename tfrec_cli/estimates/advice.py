"""How many shards a split should have.

TensorFlow's guide to TFRecord (tensorflow.org/tutorials/load_data/tfrecord): at least ten times as
many files as hosts that read, each at least 10 MB, ideally 100 MB or more.
"""

from __future__ import annotations

from tfrec_cli.errors import human_size

LEAST_BYTES = 10e6
IDEAL_BYTES = 100e6
FILES_PER_HOST = 10
MOST_BYTES = 1e9
"""Beyond this a file is slow to copy, to verify and to share among readers."""


def advise_shards(split: str, shards: int, size: float, records: int) -> str:
    """One sentence on the shards of a split whose files have `size` bytes together."""
    each = size / shards
    wanted = wanted_shards(size, records)
    if shards > 1 and each < LEAST_BYTES:
        return (
            f"{split}: fewer shards. {human_size(each)} each is below the 10 MB that TensorFlow "
            f"asks for at least: --shards {min(shards, wanted)} ({human_size(size / wanted)} each)."
        )
    if shards < FILES_PER_HOST and wanted > shards:
        return (
            f"{split}: more shards. TensorFlow asks for 10 files or more for each host that reads, "
            f"of 10 MB or more: --shards {wanted} ({human_size(size / wanted)} each) for one host."
        )
    if each > MOST_BYTES:
        return (
            f"{split}: more shards. {human_size(each)} each is far beyond the 100 MB that "
            f"TensorFlow calls ideal: --shards {wanted} ({human_size(size / wanted)} each)."
        )
    if shards == 1:
        return f"{split}: one shard is right; {human_size(size)} are too few to divide."
    hosts = max(1, shards // FILES_PER_HOST)
    return (
        f"{split}: {shards} shards of {human_size(each)} are right for "
        f"{'one reading host' if hosts == 1 else f'up to {hosts} reading hosts'}."
    )


def wanted_shards(size: float, records: int) -> int:
    """What the guide comes to for one host: ten files, fewer where they would be under 10 MB, more
    where they would be far over 100 MB.
    """
    if size >= FILES_PER_HOST * IDEAL_BYTES:
        wanted = round(size / IDEAL_BYTES)
    else:
        wanted = min(FILES_PER_HOST, int(size // LEAST_BYTES))
    return max(1, min(wanted, records))
