"""The first bytes that tell what a file without a telling name holds.

gzip: RFC 1952. bzip2: its manual. Zstandard: RFC 8878. xz: https://tukaani.org/xz/xz-file-format.txt.
Parquet: https://parquet.apache.org/docs/file-format/.
"""

from __future__ import annotations

from tfrec_cli.sources.imageheader import image_format

# Compressions of text: the first bytes, the name, and the usual ending.
COMPRESSIONS = (
    (b"\x1f\x8b\x08", "gzip", ".gz"),
    (b"BZh", "bz2", ".bz2"),
    (b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
    (b"\xfd7zXZ\x00", "xz", ".xz"),
)
PARQUET = b"PAR1"
# Of Parquet files the footer of which is encrypted.
ENCRYPTED = b"PARE"


# What follows the level in bzip2: a block, or the end. Three letters would take text for it.
_BZ2_NEXT = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
# How many first bytes tell.
HEAD = 16


def compression_of(head: bytes) -> str | None:
    """The name of the compression that the first HEAD bytes tell; None where they tell none."""
    name = next((name for magic, name, _ in COMPRESSIONS if head.startswith(magic)), None)
    return None if name == "bz2" and head[4:10] not in _BZ2_NEXT else name


_KINDS = (
    (PARQUET, "a Parquet file"),
    (ENCRYPTED, "an encrypted Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"ORC", "an ORC file"),
    (b"Obj\x01", "an Avro file"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy file"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"BZh", "compressed with bzip2"),
    (b"\x28\xb5\x2f\xfd", "compressed with Zstandard"),
    (b"\xfd7zXZ\x00", "compressed with xz"),
)
_IMAGES = {"webp": "a WebP image", "avif": "an AVIF image"}
_CONTROL = bytes({*range(32), 127} - set(b"\t\n\r\f\x1b"))


def kind_of_file(head: bytes) -> str | None:
    """What a file is that begins with `head`, as in `a Parquet file`, `text`; None where its first
    bytes, up to some thousand of them, do not tell.
    """
    for magic, kind in _KINDS:
        if head.startswith(magic):
            return kind
    if (image := image_format(head)) is not None:
        return _IMAGES.get(image, f"a {image.upper()} image")
    if head[257:262] == b"ustar":
        return "a tar archive"
    try:
        # The last character may be cut.
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return None
    return None if not head or head.translate(None, _CONTROL) != head else "text"


def ending_of(head: bytes) -> str:
    """The file ending that the first HEAD bytes call for; empty where they tell nothing."""
    if head.startswith(PARQUET):
        return ".parquet"
    endings = {name: ending for _, name, ending in COMPRESSIONS}
    return endings.get(compression_of(head) or "", "")
