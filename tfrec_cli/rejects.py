"""The list of rows that were left out, as JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.errors import Reject, UsageError

_START = b'{"source": '


def check_rejects(path: str, dest: Dest, sources: Iterable[str] = ()) -> None:
    """Raise UsageError where `path` cannot hold the list: standard output, DEST, a file in DEST,
    a file that is something else, or one in a source folder, which the next run would read.
    """
    if path == "-":
        raise UsageError("--rejects -: standard output holds the summary. Give a file.")
    target = Path(os.path.realpath(path))
    homes = [Path(os.path.realpath(home)) for home in (dest.path, dest.home)]
    if dest.kind != "stdout" and any(home in (target, *target.parents) for home in homes):
        raise UsageError(f"--rejects {path} lies in DEST. Choose a file outside of it.")
    folders = [Path(os.path.realpath(source)) for source in sources if os.path.isdir(source)]
    if any(folder in target.parents for folder in folders):
        raise UsageError(f"--rejects {path} lies in a source folder. Choose a file outside of it.")
    if _is_something_else(target):
        raise UsageError(
            f"--rejects {path} exists and is no list of rejects. Choose another file, or move it."
        )


def _is_something_else(target: Path) -> bool:
    if not os.path.lexists(target):
        return False
    if not target.is_file():
        return True
    with writing(target), target.open("rb") as file:
        return file.read(len(_START)) not in (b"", _START)


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
