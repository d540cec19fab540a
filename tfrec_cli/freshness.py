"""Whether a finished dataset is what a run would write now, told without reading what has not
changed.

Options, schema and versions must be those of the manifest, the files that the source finds must be
those listed there, and each file of any role must be as it was. A given schema that says what the
saved one says is that of the dataset, wherever it comes from. A file is as it was if it looks so
(see `tfrec_cli.sources.fingerprints`), or else if its content has the checksum that was taken. Of
the dataset's own files presence and size are looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfrec_cli._kernel import crc32c
from tfrec_cli.dataset.manifest import (
    SCHEMA,
    Manifest,
    SourceFile,
    Writer,
    library_versions,
)
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.errors import SchemaError, shorten
from tfrec_cli.options import ConvertOptions
from tfrec_cli.provenance import (
    difference,
    output_options,
    passes_records_on,
    with_schema_of,
)
from tfrec_cli.schema.settle import label_files
from tfrec_cli.schema.yaml import parse_schema
from tfrec_cli.settlement import Opened
from tfrec_cli.sourcefiles import fingerprint_of, shown_path
from tfrec_cli.sources.base import Fingerprint, LabelHint, Listing, Needs, Source
from tfrec_cli.sources.fingerprints import as_found, has_content, looks_same

_GROUP, _GROUP_BYTES = 200, 1 << 20


@dataclass(frozen=True, slots=True)
class Freshness:
    """reason: why the dataset is not what a run would write now, the part of a sentence; empty
    where it is. manifest: what its manifest would say now; the times of files may have changed.
    """

    reason: str
    manifest: Manifest


def look(dest: Dest, found: Manifest, opened: Opened, options: ConvertOptions) -> Freshness:
    """Compare the dataset at `dest`, whose manifest is `found`, to what a run would write.

    Raises SourceError where the source cannot be looked at.
    """
    now = replace(
        found,
        tfrec=Writer(),
        name=dest.name,
        compression=dest.compression,
        options=output_options(options),
        libraries=library_versions(dest.compression),
    )
    is_saved = _is_saved(dest, found, opened)
    now = with_schema_of(now, found) if is_saved else now
    reason = difference(found, now) or _lacking(dest, found) or _rejects(found, opened, options)
    if reason:
        return Freshness(reason, found)
    # What the saved schema was made of is no matter where that schema is given.
    spared = [f for f in found.sources if is_saved and f.role in ("schema", "labels")]
    asked = replace(found, sources=tuple(f for f in found.sources if f not in spared))
    files = _files(asked, replace(opened, schema_file=None) if is_saved else opened, options)
    if isinstance(files, str):
        return Freshness(files, found)
    looks = [_look(pair) for pair in files]
    unsure = [look for look in looks if look.same is None]
    other = [look for look in looks if look.same is False] or _others(unsure, options.jobs)
    if other:
        what = "is gone" if other[0].now is None else "has changed since"
        return Freshness(f"{shorten(other[0].file.path)} {what}", found)
    # Where they stood, so that nothing but times and inodes changes in the manifest.
    new = {look.file: _as_now(look) for look in unsure}
    sources = tuple(new.get(file, file) for file in found.sources) if new else found.sources
    return Freshness("", replace(found, sources=sources))


def _is_saved(dest: Dest, manifest: Manifest, opened: Opened) -> bool:
    """Whether the schema that is given says what the one says that the dataset keeps."""
    side = next((file for file in manifest.files if file.name == SCHEMA), None)
    if opened.schema is None or side is None or passes_records_on(opened.source):
        return False
    try:
        text = (dest.home / SCHEMA).read_bytes()
        if (len(text), crc32c(text)) != (side.bytes, side.crc32c):
            return False
        return parse_schema(text.decode("utf-8"), SCHEMA) == opened.schema
    except (OSError, ValueError, SchemaError):
        return False


def _lacking(dest: Dest, manifest: Manifest) -> str:
    """What is not there of the dataset itself, or has another size."""
    data = dest.path.parent if dest.kind == "file" else dest.path
    listed = [(data / shard.name, shard.bytes) for shard in manifest.shards]
    listed += [(dest.home / file.name, file.bytes) for file in manifest.files]
    for path, size in listed:
        try:
            found = os.stat(path).st_size
        except OSError:
            return f"its file {shorten(path.name)} is missing"
        if found != size:
            return f"its file {shorten(path.name)} has {found:,} bytes instead of {size:,}"
    return ""


def _rejects(manifest: Manifest, opened: Opened, options: ConvertOptions) -> str:
    """What the rows that were left out ask for."""
    rejected = manifest.rows.rejected
    if options.max_errors is not None and rejected > options.max_errors:
        return f"{rejected:,} rows were left out, more than --max-errors allows"
    if options.rejects is not None and not os.path.exists(options.rejects):
        return f"{shorten(options.rejects)} is to list the rows left out"
    features = () if opened.schema is None else opened.schema.features.values()
    if rejected and any(feature.load for feature in features):
        return "rows were left out whose files may be there now"
    return ""


Pair = tuple[SourceFile, str]
"""A file as the manifest has it, and where it is now."""


def _files(manifest: Manifest, opened: Opened, options: ConvertOptions) -> list[Pair] | str:
    """All files of the manifest; or in what the files that would be read now are others."""
    by_role = {role: [f for f in manifest.sources if f.role == role] for role in
               ("source", "schema", "labels", "loaded")}  # fmt: skip
    listing = _listed(opened.source, options)
    found = listing.paths
    if not found:
        return "nobody can tell whether it was made from the same table in memory"
    if opened.schema is None and (other := _other_labels(manifest, listing.labels)):
        return other
    if other := _other([f.path for f in by_role["source"]], [shown_path(path) for path in found]):
        return other
    labels = [] if opened.schema is None else list(label_files(opened.schema))
    if other := _other([f.path for f in by_role["labels"]], labels):
        return other
    schema = [] if opened.schema_file is None else [opened.schema_file.path]
    if len(schema) != len(by_role["schema"]):
        return "the schema was given in another way"
    loaded = [f.path for f in by_role["loaded"]]
    roles = (("source", found), ("schema", schema), ("labels", labels), ("loaded", loaded))
    return [pair for role, paths in roles for pair in zip(by_role[role], paths, strict=True)]


def _listed(source: Source, options: ConvertOptions) -> Listing:
    """The files that the source would read now, and its labels."""
    lists: Any = getattr(source, "files", None)
    if lists is not None:
        listing: Listing = lists(options.temp_dir)
        return listing
    survey = source.survey(Needs(False, options.temp_dir, options.jobs))
    paths = dict.fromkeys(print.path for print in survey.fingerprints)
    return Listing(tuple(paths), survey.labels)


def _other_labels(manifest: Manifest, labels: Iterable[LabelHint]) -> str:
    """Which classes are others than those that an inferred schema was made of."""
    before = {facts.key: (facts.labels, facts.first_label) for facts in manifest.features}
    for label in labels:
        if before.get(label.feature) != (label.names, label.first):
            return f"the classes of {shorten(label.feature)} have changed since"
    return ""


def _other(before: Sequence[str], now: Sequence[str]) -> str:
    """The first file that only one of the lists has."""
    if list(before) == list(now):
        return ""
    for path in before:
        if path not in now:
            return f"{shorten(path)} was read for it and would not be now"
    for path in now:
        if path not in before:
            return f"{shorten(path)} was not read for it and would be now"
    return "its files were read in another order"


@dataclass(frozen=True, slots=True)
class _Look:
    """A file as the manifest has it, where it is now, and how it looks; None where it is gone.
    same: whether it is what it was; None where its content must tell.
    """

    file: SourceFile
    path: str
    now: Fingerprint | None
    same: bool | None


def _look(pair: Pair) -> _Look:
    file, path = pair
    try:
        now = as_found(path, os.stat(path))
    except OSError:
        return _Look(file, path, None, False)
    return _Look(file, path, now, looks_same(fingerprint_of(file), now))


def _others(unsure: Sequence[_Look], jobs: int) -> list[_Look]:
    """Those that have another content, of the first group that has any."""
    found = ordered_map(_with_other_content, _groups(unsure), jobs)
    return next((others for others in found if others), [])


def _groups(looks: Iterable[_Look]) -> Iterator[list[_Look]]:
    """Files that are read one after the other: to hand over a small one takes longer than that."""
    group: list[_Look] = []
    size = 0
    for look in looks:
        group.append(look)
        size += look.file.size
        if len(group) == _GROUP or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _with_other_content(group: Iterable[_Look]) -> list[_Look]:
    return [look for look in group if not _has_content(look)]


def _has_content(look: _Look) -> bool:
    try:
        return has_content(fingerprint_of(look.file), look.path)
    except OSError:
        return False


def _as_now(look: _Look) -> SourceFile:
    """What the manifest says of a file whose content is what it was: how it looked before it was
    read, so that a content that comes later looks different.
    """
    if look.now is None or look.path != look.file.path:
        return look.file
    inode, ctime_ns, *_ = look.now.state
    return replace(look.file, mtime_ns=look.now.mtime_ns, inode=inode, ctime_ns=ctime_ns)
