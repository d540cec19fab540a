"""The list of rows that were left out, as JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from tfrec_cli.dataset.failures import writing
from tfrec_cli.errors import Reject


def write_rejects(path: str, rejects: Iterable[Reject]) -> None:
    """Write one JSON object a line, in source order, whole or not at all.

    Keys: `source` (file), `row` (from 1), `line` (from 1, where the source has lines), `column`
    (null where the row as a whole is wrong), `value` (the cell's text), `reason`. Raises
    DatasetError where the file cannot be written.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            with open(temporary, "w", encoding="ascii") as file:
                file.writelines(json.dumps(_entry(reject)) + "\n" for reject in rejects)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


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
