"""Whether a worker can do the tasks of a run: checks that run in the worker.

Each is picklable, takes nothing, and returns None or what is wrong (see `engines.base.Check`).
"""

from __future__ import annotations

import os
import platform
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tfrec_cli
from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.manifest import library_versions
from tfrec_cli.engines.base import Engine
from tfrec_cli.errors import EngineError, UsageError
from tfrec_cli.options import Compression
from tfrec_cli.sources.base import Fingerprint

# Files of the source that each worker looks at: the first, the last, and some between.
PROBED_FILES = 20


def versions(compression: Compression) -> dict[str, str]:
    """The programs that must be the same everywhere: they decide what bytes are written, and
    whether tasks and receipts can be read. Raises UsageError where the compressor is missing.
    """
    python = ".".join(platform.python_version_tuple()[:2])
    return {
        "tfrec": tfrec_cli.__version__,
        "Python": python,
        **library_versions(compression),
    }


@dataclass(frozen=True, slots=True)
class SameVersions:
    """Whether a worker has the versions that the driver has."""

    compression: Compression
    wanted: tuple[tuple[str, str], ...]

    def __call__(self) -> str | None:
        """What differs."""
        try:
            found = versions(self.compression)
        except UsageError as error:
            return f"lacks the compressor ({str(error).rstrip('.')})"
        odd = [f"{name} {found[name]} (here {value})"
               for name, value in self.wanted if found[name] != value]  # fmt: skip
        return f"has {', '.join(odd)}" if odd else None


@dataclass(frozen=True, slots=True)
class SeesFiles:
    """Whether a worker sees the files that the driver sees. files: (path, bytes)."""

    files: tuple[tuple[str, int], ...]

    def __call__(self) -> str | None:
        """The first file that it does not see."""
        for path, size in self.files:
            try:
                with open(path, "rb") as file:
                    found = os.fstat(file.fileno()).st_size
            except OSError as error:
                return f"cannot read {path} ({error.strerror}), a source"
            if found != size:
                return f"sees another {path} ({found:,} bytes, here {size:,})"
        return None


@dataclass(frozen=True, slots=True)
class SharesFolder:
    """Whether a worker sees a folder of the driver's and may write there. flag: what it is for.

    name, token: a file in it, and its content.
    """

    folder: str
    flag: str
    name: str
    token: bytes

    def __call__(self) -> str | None:
        """What keeps it from sharing the folder; else it leaves an answer there."""
        try:
            found = Path(self.folder, self.name).read_bytes()
        except OSError as error:
            return f"does not see {self.folder} ({error.strerror}), {self.flag}"
        if found != self.token:
            return f"sees another {self.folder}, {self.flag}"
        try:
            Path(self.folder, f"{self.name}-{uuid.uuid4().hex}").write_bytes(self.token)
        except OSError as error:
            return f"cannot write to {self.folder} ({error.strerror}), {self.flag}"
        return None


def require_versions(engine: Engine, compression: Compression) -> None:
    """Let no worker with other versions take part. Raises EngineError."""
    engine.require(SameVersions(compression, tuple(versions(compression).items())))


def require_files(engine: Engine, fingerprints: Sequence[Fingerprint]) -> None:
    """Let no worker that does not see the files of a source take part. Raises EngineError."""
    step = max(1, -(-len(fingerprints) // (PROBED_FILES - 1)))
    some = [*fingerprints[::step], *fingerprints[-1:]]
    engine.require(SeesFiles(tuple((print.path, print.size) for print in some)))


def require_folder(engine: Engine, folder: str | os.PathLike[str], flag: str) -> None:
    """Let no worker that does not share `folder` take part. flag: what it is, in messages.

    Raises EngineError, DatasetError where the driver itself cannot write there.
    """
    check = SharesFolder(
        os.fspath(folder), flag, f".probe-{secrets.token_hex(8)}", secrets.token_bytes(16)
    )
    with writing(folder):
        Path(folder, check.name).write_bytes(check.token)
        engine.require(check)
        answers = [name for name in os.listdir(folder) if name.startswith(f"{check.name}-")]
        if not answers:
            raise EngineError(
                f"what workers write to {folder}, {flag}, is not seen here. Use a folder on "
                "storage that all share."
            )
