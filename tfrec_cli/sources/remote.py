"""Inputs on object stores and servers (`s3://…`, `gs://…`, `https://…`), through fsspec.

They are copied to a temporary folder first and read from there like any other input: a survey and
a conversion read everything at least once each, and formats such as Parquet are read in leaps.
"""

from __future__ import annotations

import glob
import os
import re

from tfrec_cli.errors import SourceError, first_line
from tfrec_cli.sources.paths import display
from tfrec_cli.sources.spools import Spools

_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_remote(item: str) -> bool:
    """Whether `item` is a URL, and no file is called so."""
    return bool(_URL.match(item)) and not os.path.lexists(item)


def fetch(url: str, spools: Spools) -> list[str]:
    """Copy what `url` means to a folder of `spools`; return the inputs to read.

    url: of one file, of a folder (everything below it, given back as one folder) or a pattern
    (its files). Raises SourceError where it is missing, or its kind of store is not installed.
    """
    try:
        return _fetch(url, spools)
    except SourceError:
        raise
    except FileNotFoundError as error:
        raise SourceError(f"{display(url)}: there is no such file or folder.") from error
    except ImportError as error:
        raise SourceError(f"{display(url)}: this kind of store needs a package: {error}") from error
    except Exception as error:
        # Each store has errors of its own, and none of them names the input.
        raise SourceError(f"{display(url)}: cannot be fetched ({first_line(error)}).") from error


def _fetch(url: str, spools: Spools) -> list[str]:
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]

    store, path = url_to_fs(url)
    if glob.has_magic(path) and not store.exists(path):
        files = sorted(store.glob(path))
        top = _fixed(path)
    elif store.isdir(path):
        files, top = sorted(store.find(path)), path
    else:
        files, top = [path], os.path.dirname(path)
    if not files:
        raise SourceError(f"{display(url)}: there is no file there.")
    folder = os.path.join(spools.folder(), os.path.basename(top.rstrip("/")) or "files")
    copies = [os.path.join(folder, os.path.relpath(file, top)) for file in files]
    for file, copy in zip(files, copies, strict=True):
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        store.get_file(file, copy)
    return [folder] if top == path else copies


def _fixed(pattern: str) -> str:
    parts = pattern.split("/")
    magic = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:magic])
