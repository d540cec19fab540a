"""Going on with a run that was killed: what it was, and whether this one is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfrec_cli.dataset.leftovers import RECEIPTS
from tfrec_cli.dataset.manifest import Manifest, SourceFile
from tfrec_cli.errors import DamageError, DatasetError, counted, shorten
from tfrec_cli.provenance import difference, passes_records_on, with_schema_of
from tfrec_cli.receipts import Receipts, shard_task
from tfrec_cli.settlement import Settled
from tfrec_cli.sourcefiles import fingerprint_of
from tfrec_cli.sources.fingerprints import has_content, looks_same


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A run that was killed.

    stage: its staging folder. planned: the manifest as it was before anything was written. schema:
    the text of the schema. overwrite: whether it was to replace a dataset. done: how many of its
    shards have a receipt.
    """

    stage: Path
    planned: Manifest
    schema: str
    overwrite: bool
    done: int


def run_record(planned: Manifest, schema: str, overwrite: bool) -> dict[str, Any]:
    """What a run notes of itself before its first receipt."""
    return {"manifest": planned.to_json(), "schema": schema, "overwrite": overwrite}


def read_interrupted(stage: Path) -> Interrupted | None:
    """The run that left this staging folder; None where it does not say what it was."""
    receipts = Receipts(stage / RECEIPTS)
    record = receipts.run()
    if record is None:
        return None
    try:
        planned = Manifest.from_json(record["manifest"])
        schema, overwrite = str(record["schema"]), bool(record["overwrite"])
    except (DamageError, KeyError):
        return None
    numbers = range(len(planned.shards))
    done = sum(receipts.done(shard_task(number)) is not None for number in numbers)
    return Interrupted(stage, planned, schema, overwrite, done)


def refuse_plain(dest: str, before: Interrupted) -> None:
    """Raise DatasetError that says how to go on where a run onto `dest` was interrupted."""
    total = counted(len(before.planned.shards), "shard")
    done = f"{before.done:,} of {total} were" if before.done else f"none of {total} was"
    raise DatasetError(
        f"{dest}: a run was interrupted when {done} done. Use --resume to go on with it, or "
        "--overwrite to start over."
    )


def refuse_other(dest: str, before: Interrupted, planned: Manifest, settled: Settled) -> None:
    """Raise DatasetError where the run that was interrupted was another than this one.

    planned, settled: of this run. Where both have one schema, it is no matter what it came from.
    """
    ignored: tuple[str, ...] = ()
    now, schema = planned, settled.text
    if schema and schema == before.schema and not passes_records_on(settled.source):
        now, ignored = with_schema_of(planned, before.planned), ("schema", "labels")
    found = difference(before.planned, now) or _other_files(before, now, ignored)
    if not found and (before.schema, _shape(before.planned)) != (schema, _shape(planned)):
        found = "the schema or the plan was another"
    if found:
        raise DatasetError(
            f"{dest}: the run that was interrupted cannot be resumed: {found}. Give the same "
            "sources and options again, or use --overwrite to start over."
        )


def _shape(planned: Manifest) -> Any:
    return [(s.name, [(shard.name, shard.records) for shard in s.shards]) for s in planned.splits]


def _other_files(before: Interrupted, now: Manifest, ignored: Sequence[str]) -> str:
    """What differs among the files that the survey found, but for those of the `ignored` roles."""
    old, new = (
        {file.path: file for file in manifest.sources if file.role not in ignored}
        for manifest in (before.planned, now)
    )
    for path in old:
        if path not in new:
            return f"{shorten(path)} was read, now it is not"
    for path, file in new.items():
        if path not in old:
            return f"{shorten(path)} was not read, now it is"
        if not _is_same(old[path], file):
            return f"{shorten(path)} has changed or was replaced"
    return ""


def _is_same(old: SourceFile, new: SourceFile) -> bool:
    """Whether a file is what it was; `new` is how it looks now."""
    before = fingerprint_of(old)
    if (same := looks_same(before, fingerprint_of(new))) is not None:
        return same
    try:
        return has_content(before, new.path)
    except OSError:
        return False
