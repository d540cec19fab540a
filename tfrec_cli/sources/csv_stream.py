"""The content of CSV files as one stream of UTF-8 bytes, and that stream cut at row ends."""

from __future__ import annotations

import codecs
import io
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

import pyarrow as pa

from tfrec_cli._kernel import CsvDialect, CsvRows, crc32c, split_csv
from tfrec_cli.errors import SourceError
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.csv_rows import count_line_ends
from tfrec_cli.sources.files import as_found, display, unreadable
from tfrec_cli.sources.fingerprints import changed
from tfrec_cli.sources.magic import compression_of

# Longest row, in bytes: where the search for the end of a quote left open in a large file stops.
ROW_LIMIT = 2**30
# Largest size asked of a block: with the longest row in it, Arrow can still count it in 32 bits.
BLOCK_LIMIT = 2**28

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UTF8 = ("utf-8", "ascii")
_CHUNK = 2**20


@dataclass(frozen=True, slots=True)
class Framing:
    """What lies between a file's bytes and UTF-8 text.

    compression: gzip, bz2, zstd, xz or None. encoding: the codec, None where the text is UTF-8
    already. mark: length in bytes of a UTF-8 byte order mark. found: the encoding that a byte
    order mark told, if one did.
    """

    compression: str | None = None
    encoding: str | None = None
    mark: int = 0
    found: str | None = None

    @property
    def seekable(self) -> bool:
        """Whether an offset in the text is one in the file."""
        return self.compression is None and self.encoding is None


def sniff(path: str, encoding: str | None) -> Framing:
    """The framing of a file, by its first bytes; a byte order mark overrides `encoding`.

    The file's ending has no say: what was renamed or unpacked on the way is read all the same.
    Raises SourceError where the file cannot be read.
    """
    with Content(path, Framing()) as content:
        head = content.read(16)
    compression = compression_of(head)
    if compression is not None:
        with Content(path, Framing(compression)) as content:
            head = content.read(4)
    found = next(((mark, name) for mark, name in _MARKS if head.startswith(mark)), None)
    if found is None:
        known = encoding and codecs.lookup(encoding).name not in (*_UTF8, "utf-8-sig")
        return Framing(compression, encoding if known else None)
    mark, name = found
    if name == "utf-8":
        return Framing(compression, None, len(mark), name)
    return Framing(compression, name, 0, name)


class _Checked(io.RawIOBase):
    """A file read forward, with the CRC-32C of all that went by."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by `close`)
        self.crc32c = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self.file.read(size) or b""
        self.crc32c = crc32c(data, self.crc32c)
        return data

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.file.close()
        super().close()


def _decompressed(raw: _Checked, compression: str | None) -> Any:
    """`raw` unpacked. Modules are imported as they are needed."""
    if compression == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=raw, mode="rb")
    if compression == "bz2":
        import bz2

        return bz2.BZ2File(raw)
    if compression == "xz":
        import lzma

        return lzma.LZMAFile(cast(IO[bytes], raw))
    if compression == "zstd":
        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    return raw


class Content:
    """The UTF-8 text of one file, read forward; a context manager.

    Offsets count bytes of that text, a byte order mark left out.
    """

    def __init__(self, path: str, framing: Framing) -> None:
        """Raises SourceError where the file cannot be opened."""
        self.path = path
        self._framing = framing
        try:
            self._raw = _Checked(path)
        except OSError as error:
            raise unreadable(path, error) from error
        self._source = _decompressed(self._raw, framing.compression)
        self._decoder = framing.encoding and codecs.getincrementaldecoder(framing.encoding)()
        self._text = b""
        self._lines = 0
        self._after_cr = False
        self._fresh = True
        self._to_skip = framing.mark

    def __enter__(self) -> Content:
        return self

    def __exit__(self, *_: object) -> None:
        if self._source is not self._raw:
            self._source.close()
        self._raw.close()

    def read(self, size: int) -> bytes:
        """1 to `size` bytes, none at the end. Raises SourceError for damage, naming the place."""
        if self._to_skip:
            left, self._to_skip = self._to_skip, 0
            self.skip(left)
        if not self._decoder:
            return self._unpack(size)
        while not self._text:
            data = self._unpack(max(size, _CHUNK))
            self._text = self._transcode(data)
            if not data:
                break
        found, self._text = self._text[:size], self._text[size:]
        return found

    def read_all(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end."""
        data = self.read(size)
        if len(data) == size:
            return data
        pieces, found = [data], len(data)
        while data and found < size:
            data = self.read(size - found)
            pieces.append(data)
            found += len(data)
        return b"".join(pieces)

    def skip(self, size: int) -> None:
        """Pass over `size` bytes by reading them."""
        while size and (data := self.read(min(size, _CHUNK))):
            size -= len(data)

    def seek(self, offset: int) -> None:
        """Go to `offset`, directly where the framing allows it, else by reading up to there."""
        if self._framing.seekable:
            self._raw.file.seek(offset + self._framing.mark)
            self._to_skip = 0
        else:
            self.skip(offset)

    def fingerprint(self, before: os.stat_result) -> Fingerprint:
        """Size, time and checksum of the file as stored; reads what is left of it.

        before: what `status` said when nothing of it had been read. Raises SourceError where the
        file is no longer that one.
        """
        try:
            while self._raw.read(_CHUNK):
                pass
            found = os.fstat(self._raw.file.fileno())
        except OSError as error:
            raise unreadable(self.path, error) from error
        if _version(found) != _version(before):
            raise changed(self.path)
        return as_found(self.path, found, self._raw.crc32c)

    def _unpack(self, size: int) -> bytes:
        try:
            return bytes(self._source.read(size))
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise self._damaged(error) from error
        except Exception as error:  # lzma.LZMAError, not imported for all others' sake
            if type(error).__name__ == "LZMAError":
                raise self._damaged(error) from error
            raise

    def _damaged(self, error: Exception) -> SourceError:
        if self._framing.compression is None and isinstance(error, OSError):
            return unreadable(self.path, error)
        return SourceError(
            f"{display(self.path)}: the {self._framing.compression} data is damaged or cut short "
            f"({error}). Get the file again, or unpack what is left of it."
        )

    def _transcode(self, data: bytes) -> bytes:
        assert self._decoder
        state = self._decoder.getstate()
        try:
            text = self._decoder.decode(data, not data).encode()
        except UnicodeError as error:
            raise self._undecodable(error, state[1], data) from error
        if self._fresh and text:
            text, self._fresh = text.removeprefix(codecs.BOM_UTF8), False
        self._count_lines(text)
        return text

    def _count_lines(self, text: bytes) -> None:
        r"""Count the lines that end in `text`; `\r\n` is one end, also where a chunk parts it."""
        if text:
            self._lines += count_line_ends(text) - (self._after_cr and text.startswith(b"\n"))
            self._after_cr = text.endswith(b"\r")

    def _undecodable(self, error: UnicodeError, mode: int, data: bytes) -> SourceError:
        """The error for a chunk `data` that the decoder refused; its mode was `mode` before it."""
        found = "half a character at the end" if not data else "a cut-off character"
        if isinstance(error, UnicodeDecodeError):
            self._count_lines(self._sound_text(error, mode))
            found = f"the byte 0x{error.object[error.start]:02x}"
        elif isinstance(error, UnicodeEncodeError):
            self._count_lines(error.object[: error.start].encode())
            found = f"the lone surrogate U+{ord(error.object[error.start]):04X}"
        return SourceError(
            f"{display(self.path)}, line {1 + self._lines}: {found} is not "
            f"{self._framing.encoding}. "
            "Give the encoding the file has, such as -O encoding=utf-8 or -O encoding=cp1252."
        )

    def _sound_text(self, error: UnicodeDecodeError, mode: int) -> bytes:
        """What stands before the error in what was decoded, in the byte order that was set; nothing
        where none was, since there is no byte order mark.
        """
        again = codecs.getincrementaldecoder(self._framing.encoding or "")("ignore")
        again.setstate((b"", mode))
        try:
            return again.decode(error.object[: error.start]).encode("utf-8", "replace")
        except UnicodeError:
            return b""


def status(path: str) -> os.stat_result:
    """The state of a file before anything of it is read, for `Content.fingerprint`."""
    try:
        return os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from error


def _version(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Block:
    """Complete rows: their bytes, the offset and the line (from 1) of the first, and the scan."""

    data: bytes
    offset: int
    line: int
    rows: CsvRows


def read_blocks(
    content: Content, dialect: CsvDialect, size: int, offset: int, line: int
) -> Iterator[Block]:
    """The rest of `content` in blocks of about `size` bytes that end where rows end.

    `content` stands at the start of a row, at `offset` of its text and on `line`. A block is only
    larger than that for a row that is, and never of more than ROW_LIMIT + 2 * BLOCK_LIMIT bytes.
    Raises SourceError for a quote that is never closed.
    """
    size = min(size, BLOCK_LIMIT)
    pending, wanted, final = b"", size, False
    while not final:
        data = content.read_all(wanted)
        final = len(data) < wanted
        # A line's end is mostly a row's end; then the block is the buffer, without another copy.
        cut = len(data) if final else data.rfind(b"\n") + 1 or len(data)
        buffer, rest = b"".join((pending, memoryview(data)[:cut])), data[cut:]
        del data, pending  # no copy is kept while others work with the block
        rows = split_csv(buffer, dialect, final)
        if rows.open_quote >= 0 or len(buffer) - rows.consumed > ROW_LIMIT:
            raise endless_row(
                content.path, buffer[rows.consumed :], dialect, line + rows.consumed_lines
            )
        pending = buffer[rows.consumed :] + rest
        wanted = max(size, min(len(pending), ROW_LIMIT - len(pending)))
        if rows.consumed:
            block = Block(buffer[: rows.consumed], offset, line, rows)
            del buffer
            yield block
            del block
        offset += rows.consumed
        line += rows.consumed_lines


def endless_row(path: str, row: bytes, dialect: CsvDialect, line: int) -> SourceError:
    """The error for a row without an end that begins on `line`."""
    opened = split_csv(row, dialect, final=True).open_quote
    if opened < 0:
        return SourceError(
            f"{display(path)}, line {line}: the row is longer than {ROW_LIMIT:,} bytes. "
            "Is this a CSV file?"
        )
    line += count_line_ends(row[:opened])
    return SourceError(
        f"{display(path)}, line {line}: a quote opens a cell here and is never closed. Close it, "
        "double the quotes inside cells, or give -O quote=none if quotes are plain text."
    )
