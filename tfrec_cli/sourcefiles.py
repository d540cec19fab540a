"""The files that a dataset's records come from: what each is for, and what it looked like."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tfrec_cli.checksums import file_crc32c
from tfrec_cli.dataset.manifest import Role, SourceFile
from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.options import ConvertOptions
from tfrec_cli.settlement import Settled
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.files import display, unreadable
from tfrec_cli.sources.fingerprints import changed, is_unchanged
from tfrec_cli.sources.spools import within_spool

# With --limit little of a file is read; a larger one is not read whole for its checksum alone.
MOST_SUMMED = 64 * 2**20


def known_files(settled: Settled) -> tuple[SourceFile, ...]:
    """What is known of the files before any row is read, each once."""
    return tuple(_entry(print, role, print.crc32c) for print, role in _known(settled).values())


def all_files(
    settled: Settled, loaded: Iterable[Fingerprint], options: ConvertOptions
) -> tuple[SourceFile, ...]:
    """All files, each once, with their checksums. loaded: those that were read for records.

    Call it when all is read. Raises SourceError where one has changed since it was looked at.
    """
    known = _known(settled)
    for print in loaded:
        before, role = known.get(print.path, (print, "loaded"))
        known[print.path] = replace(before, crc32c=print.crc32c), role
    _refuse_changed(before for before, _ in known.values())
    found = list(known.values())
    most = math.inf if options.limit is None else MOST_SUMMED
    lacking = [p.path for p, _ in found if p.crc32c is None and p.size <= most]
    sums = dict(zip(lacking, ordered_map(_crc, lacking, options.jobs), strict=True))
    return tuple(_entry(p, role, sums.get(p.path, p.crc32c)) for p, role in found)


def refuse_changed(settled: Settled) -> None:
    """Raise SourceError where a source has changed since it was looked at."""
    _refuse_changed(settled.survey.fingerprints)


def _refuse_changed(files: Iterable[Fingerprint]) -> None:
    for before in files:
        if not is_unchanged(before):
            raise changed(before.path)


def shown_path(path: str) -> str:
    """What a file is called in a manifest: a copy of a stream as within its temporary folder."""
    return within_spool(display(path)) or path


def _known(settled: Settled) -> dict[str, tuple[Fingerprint, Role]]:
    schema = () if settled.schema_file is None else (settled.schema_file,)
    groups: Sequence[tuple[Role, Iterable[Fingerprint]]] = (
        ("schema", schema),
        ("labels", settled.fingerprints),
        ("source", settled.survey.fingerprints),
    )
    return {print.path: (print, role) for role, prints in groups for print in prints}


def source_file(print: Fingerprint, role: Role = "source") -> SourceFile:
    """The manifest's entry for a file that looked like this."""
    inode, ctime_ns = print.state[:2] or (None, None)
    return SourceFile(print.path, print.size, print.mtime_ns, print.crc32c, role, inode, ctime_ns)


def fingerprint_of(file: SourceFile) -> Fingerprint:
    """What a manifest knows of how a file looked."""
    inode, ctime_ns = file.inode, file.ctime_ns
    state = () if inode is None or ctime_ns is None else (inode, ctime_ns)
    return Fingerprint(file.path, file.size, file.mtime_ns, file.crc32c, state)


def _entry(print: Fingerprint, role: Role, crc: int | None) -> SourceFile:
    shown = shown_path(print.path)
    if shown == print.path:
        return source_file(replace(print, crc32c=crc), role)
    # The copy of a stream has no time of its own, so that its content must tell it.
    return SourceFile(shown, print.size, 0, _crc(print.path) if crc is None else crc, role)


def _crc(path: str) -> int:
    try:
        return file_crc32c(path)
    except OSError as error:
        raise unreadable(path, error) from error
