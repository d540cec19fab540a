"""The list of rows that were left out, as JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from tfrec_cli.accounts import Account, replacing
from tfrec_cli.errors import Reject, UsageError


def rejects_account(path: str) -> Account:
    """The list as `--rejects` names it."""
    return Account("--rejects", path, "list of rejects", b'{"source": ')


def write_rejects(path: str, rejects: Iterable[Reject], inputs: Iterable[str] = ()) -> None:
    """Write one JSON object a line, in source order, whole or not at all.

    Keys: `source` (file), `row` (from 1), `line` (from 1, where the source has lines), `column`
    (null where the row as a whole is wrong), `value` (the cell's text), `reason`. inputs: files
    that the run reads. Raises UsageError where `path` is one of them, DatasetError where it
    cannot be written.
    """
    real = os.path.realpath(path)
    if any(os.path.realpath(file) == real for file in inputs):
        raise UsageError(f"--rejects {path} is read by this run. Choose another file.")
    with replacing(path, "w", encoding="ascii") as file:
        file.writelines(json.dumps(_entry(reject)) + "\n" for reject in rejects)


def _entry(reject: Reject) -> dict[str, str | int | None]:
    where = reject.where
    return {
        "source": where.file,
        "row": None if where.row is None else where.row + 1,
        "line": where.line,
        "column": reject.column,
        "value": reject.value,
        "reason": reject.reason,
    }
