"""The compressors: three programs that write the same format, DEFLATE (RFC 1951).

zlib        always there
isal        ISA-L through the package `isal`: several times as fast, files somewhat larger
libdeflate  through the package `deflate`: about twice as fast at the same size

The last two come with the extra `fast`. All release the GIL. For one version of it, a compressor
gives the same bytes for the same input; ISA-L may give others on another kind of processor.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tfrec_cli.errors import UsageError
from tfrec_cli.options import Compression, CompressorName

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Deflate = Callable[[Buffer, int], bytes | bytearray]
    Checksum = Callable[[Buffer], int]


@dataclass(frozen=True, slots=True)
class Compressor:
    """What a compressor can do.

    version: as the manifest has it. deflate: bytes at a level as a whole DEFLATE stream. part:
    the same as blocks that end at a byte and are not the last of their stream; None where the
    package makes whole streams only. crc32, adler32: of bytes.
    """

    version: str
    deflate: Deflate
    part: Deflate | None
    crc32: Checksum
    adler32: Checksum


@cache
def compressor(name: CompressorName) -> Compressor:
    """The compressor called `name`. Raises UsageError where its package is not installed."""
    try:
        return {"zlib": _zlib, "isal": _isal, "libdeflate": _libdeflate}[name]()
    except ImportError:
        raise UsageError(
            f"--compressor {name} is not installed here. Run `pip install 'tfrec-cli[fast]'`, or "
            "use --compressor zlib."
        ) from None


def is_installed(name: CompressorName) -> bool:
    """Whether `compressor(name)` will find its package."""
    try:
        compressor(name)
    except UsageError:
        return False
    return True


def compressor_version(compression: Compression) -> dict[str, str]:
    """The compressor's name and version, as the manifest has it; nothing where none is at work."""
    if compression.kind == "none":
        return {}
    return {compression.compressor: compressor(compression.compressor).version}


def _zlib() -> Compressor:
    return _of_module(zlib, zlib.ZLIB_RUNTIME_VERSION)


def _isal() -> Compressor:
    package = importlib.import_module("isal")
    version = f"{package.__version__} (ISA-L {package.ISAL_VERSION})"
    return _of_module(importlib.import_module("isal.isal_zlib"), version)


def _of_module(module: Any, version: str) -> Compressor:
    """A compressor with the interface of the standard library's zlib."""

    def run(data: Buffer, level: int, flush: int) -> bytes:
        stream = module.compressobj(level, module.DEFLATED, -module.MAX_WBITS)
        return stream.compress(data) + stream.flush(flush)  # type: ignore[no-any-return]

    return Compressor(
        version,
        lambda data, level: run(data, level, module.Z_FINISH),
        lambda data, level: run(data, level, module.Z_SYNC_FLUSH),
        module.crc32,
        module.adler32,
    )


def _libdeflate() -> Compressor:
    package: Any = importlib.import_module("deflate")
    return Compressor(
        package.__version__, package.deflate_compress, None, package.crc32, package.adler32
    )
