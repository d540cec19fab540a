"""Writing one shard: framed records in, a file on the disk out."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Executor, Future
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from tfrec_cli._kernel import crc32c
from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.manifest import Shard
from tfrec_cli.options import Compression
from tfrec_cli.records.compression import BLOCK_SIZE, Block, Container, compress_block
from tfrec_cli.stages import timed

if TYPE_CHECKING:
    from typing_extensions import Buffer


class ShardWriter:
    """Writes framed records, in the order given, to one file.

    target: a path that does not exist yet, or a binary stream (standard output), which is flushed
    but neither synced nor closed. executor: compresses blocks beside the caller, at most `ahead`
    of them at a time; it must not be the one whose tasks call `write`. sync: have the file on the
    disk when `close` returns. shown: what messages call the file.

    The bytes written depend on the records and the compression alone, not on how they were cut
    into calls, nor on the executor. Memory: `ahead` + 1 blocks of 4 MiB and their compressed form.

    As a context manager it closes, or on an error gives up: the file is then left incomplete, for
    the staging folder to be thrown away. Failing writes to a path raise DatasetError, those to a
    stream the OSError itself (BrokenPipeError).
    """

    def __init__(
        self,
        target: Path | IO[bytes],
        compression: Compression,
        executor: Executor | None = None,
        *,
        ahead: int = 4,
        sync: bool = True,
        shown: str = "",
    ) -> None:
        self._path = target if isinstance(target, Path) else None
        self._name = "-" if self._path is None else self._path.name
        self._shown = shown or str(target)
        self._file = _create(target, self._shown) if isinstance(target, Path) else target
        self._compression, self._sync = compression, sync
        self._executor, self._ahead = executor, max(1, ahead)
        self._container = Container(compression)
        self._buffer = bytearray()
        self._pending: deque[Future[Block]] = deque()
        self._records = self._bytes = self._crc = 0
        self._started = False
        self._shard: Shard | None = None

    def write(self, data: Buffer, records: int) -> None:
        """Append `data`, the frames of `records` records (any part of a frame may be in any call).

        `data` is not copied and must not change before the shard is closed.
        """
        self._records += records
        view = memoryview(data).cast("B")
        if self._compression.kind == "none":
            self._put(view)
            return
        if self._buffer:
            missing = BLOCK_SIZE - len(self._buffer)
            self._buffer += view[:missing]
            view = view[missing:]
            self._flush(BLOCK_SIZE)
        while len(view) >= BLOCK_SIZE:
            self._compress(view[:BLOCK_SIZE])
            view = view[BLOCK_SIZE:]
        self._buffer += view

    def close(self) -> Shard:
        """Finish the file, and say what is in it. Again, it only says so."""
        if self._shard is not None:
            return self._shard
        self._flush(1)
        self._drain(0)
        self._put(self._container.finish())
        self._end()
        self._shard = Shard(self._name, self._records, self._bytes, self._crc)
        return self._shard

    def abort(self) -> None:
        """Give up: no more is compressed or written."""
        for future in self._pending:
            future.cancel()
        self._pending.clear()
        if self._path is not None:
            _give_up(self._file)

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        else:
            self.close()

    def _flush(self, least: int) -> None:
        """Compress the buffer where it holds `least` bytes."""
        if len(self._buffer) >= least:
            block, self._buffer = self._buffer, bytearray()
            self._compress(block)

    def _compress(self, data: Buffer) -> None:
        if self._executor is None:
            self._put(self._container.add(compress_block(data, self._compression)))
            return
        self._drain(self._ahead - 1)
        self._pending.append(self._executor.submit(compress_block, data, self._compression))

    def _drain(self, left: int) -> None:
        """Write compressed blocks in order until `left` are pending."""
        while len(self._pending) > left:
            self._put(self._container.add(self._pending.popleft().result()))

    def _put(self, data: Buffer) -> None:
        if not self._started:
            self._started = True
            self._write(self._container.start())
        self._write(data)

    @timed("write", int)
    def _end(self) -> int:
        """Hand over what is buffered, to the disk itself where that was asked for."""
        if self._path is None:
            self._file.flush()
            return 0
        with writing(self._shown), self._file:
            self._file.flush()
            if self._sync:
                os.fsync(self._file.fileno())
        return 0

    @timed("write", int)
    def _write(self, data: Buffer) -> int:
        """Write `data`; returns its bytes."""
        size = memoryview(data).nbytes
        if not size:
            return 0
        if self._path is None:
            self._file.write(data)
        else:
            with writing(self._shown):
                self._file.write(data)
        self._bytes += size
        self._crc = crc32c(data, self._crc)
        return size


def _create(path: Path, shown: str) -> IO[bytes]:
    with writing(shown):
        return open(path, "xb", buffering=1 << 20)


def _give_up(file: IO[bytes]) -> None:
    """Close without complaint: what cannot be flushed is thrown away anyway."""
    try:
        file.close()
    except OSError:
        file.close()
