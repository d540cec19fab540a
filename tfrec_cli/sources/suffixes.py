"""File endings that the built-in sources take, in lower case."""

from __future__ import annotations

_PACKED = ("", ".gz", ".bz2", ".zst", ".xz")
CSV_SUFFIXES = tuple(".csv" + packed for packed in _PACKED)
TSV_SUFFIXES = tuple(".tsv" + packed for packed in _PACKED)
PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")
# `#` stands for digits. Numbered files whose name says nothing else are TFRecord by custom.
_RECORDS = (".tfrecord", ".tfrecords", ".tfrec", ".tfr", ".record", ".records")
_WRAPPED = ("", ".gz", ".zz")
TFRECORD_SUFFIXES = tuple(
    ending + wrapped for ending in (*_RECORDS, "-#-of-#") for wrapped in _WRAPPED
)
IMAGE_SUFFIXES = (
    ".jpg",
    ".jpeg",
    ".jpe",
    ".jfif",
    ".png",
    ".gif",
    ".bmp",
    ".webp",
    ".tif",
    ".tiff",
    ".avif",
    # Pictures that cannot be read here must not be passed over like a stray text file.
    ".heic",
    ".heif",
    ".jp2",
    ".jxl",
)
