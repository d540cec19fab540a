"""Inputs that cannot be read twice (standard input, pipes, URLs), copied to temporary files."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Sequence
from typing import IO

from tfrec_cli.errors import SourceError
from tfrec_cli.sources.magic import HEAD, ending_of
from tfrec_cli.sources.paths import unreadable
from tfrec_cli.sources.spools import Spools

STDIN = "-"


def settle_streams(inputs: Sequence[str], spools: Spools) -> list[str]:
    """`inputs` with `-`, named pipes and URLs replaced by temporary files of the same content.

    The copy is called `stdin` (or as the pipe), with an ending that tells its compression or
    format where its first bytes do. It lives as long as `spools`. Raises SourceError where the
    stream is empty or a terminal, or cannot be copied.
    """
    settled: dict[str, list[str]] = {}
    for item in inputs:
        if item not in settled:
            settled[item] = _settle_stream(item, spools)
    return [path for item in inputs for path in settled[item]]


def _settle_stream(item: str, spools: Spools) -> list[str]:
    if "://" in item:
        from tfrec_cli.sources.remote import fetch, is_remote

        return fetch(item, spools) if is_remote(item) else [item]
    if item == STDIN:
        if sys.stdin is None or sys.stdin.isatty():
            raise SourceError('"-" is standard input, but nothing is piped into it.')
        return [_spool(sys.stdin.buffer, "stdin", spools)]
    if _is_stream(item):
        try:
            with open(item, "rb") as stream:
                return [_spool(stream, os.path.basename(item), spools)]
        except OSError as error:
            raise unreadable(item, error) from error
    return [item]


def _is_stream(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def _spool(stream: IO[bytes], name: str, spools: Spools) -> str:
    try:
        path = os.path.join(spools.folder(), name)
        with open(path, "wb") as copy:
            shutil.copyfileobj(stream, copy, 2**20)
        with open(path, "rb") as copy:
            head = copy.read(HEAD)
        ending = ending_of(head)
        if ending and not name.endswith(ending):
            os.rename(path, path + ending)
            path += ending
    except OSError as error:
        raise SourceError(
            f"{name}: cannot be copied to a temporary file ({error.strerror or error}). "
            "Choose a folder with room by --temp-dir."
        ) from error
    if not head:
        raise SourceError(f"{name}: the input is empty.")
    return path
