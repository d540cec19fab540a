"""A dataset that is up to date counts as made now, so that `make` does not ask again."""

from __future__ import annotations

import os
import secrets

from tfrec_cli.dataset.commit import identity, sync_folder
from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.locking import locked_dest
from tfrec_cli.dataset.manifest import MANIFEST, Manifest
from tfrec_cli.dataset.naming import Dest


def touch(dest: Dest, found: Manifest, now: Manifest, when: int, sync: bool = True) -> None:
    """Give the dataset at `dest` the time `when`, in ns since 1970: its manifest, and the one file
    that it may be.

    found: its manifest; now: what is to be there instead, if that is another. Raises DatasetError
    where that cannot be written, or another run is at work.
    """
    path = dest.home / MANIFEST
    before = identity(path)
    with locked_dest(dest), writing(dest.text):
        if identity(path) != before:
            # Another run has put a dataset there meanwhile, which is newer still.
            return
        if now != found:
            draft = dest.home / f".tfrec-{secrets.token_hex(4)}"
            try:
                draft.write_text(now.to_json())
                os.utime(draft, ns=(when, when))
                os.replace(draft, path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            sync_folder(dest.home, sync)
        os.utime(path, ns=(when, when))
        if dest.kind == "file":
            os.utime(dest.path, ns=(when, when))
