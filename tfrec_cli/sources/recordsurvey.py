"""What TFRecord files hold: where their records are, and which features these have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import pyarrow as pa

from tfrec_cli import _kernel
from tfrec_cli.dataset.manifest import FeatureFacts
from tfrec_cli.decoding import KINDS, FeatureTally, Tally
from tfrec_cli.errors import SourceError, key_text, listed, shorten
from tfrec_cli.records.intact import Span, intact_blocks, open_content, record_count
from tfrec_cli.schema.arrowtypes import spell_type
from tfrec_cli.schema.binding import BoundFeature, FeatureType, Missing
from tfrec_cli.schema.infer import row_lengths
from tfrec_cli.sources.files import counted, display, unreadable
from tfrec_cli.sources.recordfiles import Home, RecordFile

ARROW: Mapping[str, pa.DataType] = {
    "int64": pa.int64(),
    "float": pa.float32(),
    "bytes": pa.binary(),
}
NO_LISTS = "; a schema does not reach their feature lists"
"""How the notice on a file's SequenceExamples ends."""

_NO_KIND = KINDS[0]


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Records of one file that one task reads. span: where they are; None is the whole file.

    record: number of the first in the file, from 0. size: bytes of the file behind them.
    """

    span: Span | None
    record: int
    records: int
    size: int


@dataclass(frozen=True, slots=True)
class FileScan:
    """What one file holds. examples: how many of its records are Examples. odd: what keeps its
    features from being known for sure, in words. crc32c: of the file, where it was read. sequence:
    the number of the first SequenceExample, where there is one.
    """

    file: RecordFile
    ranges: tuple[RecordRange, ...]
    features: tuple[FeatureTally, ...] = ()
    examples: int = 0
    odd: tuple[str, ...] = ()
    crc32c: int | None = None
    sequence: int | None = None

    @property
    def records(self) -> int:
        """All records of the file."""
        return sum(each.records for each in self.ranges)


@dataclass(frozen=True, slots=True)
class Contents:
    """What all files hold.

    features: those that are known, sorted by key. sure: whether all records are Examples of just
    these. arrow: the Arrow types that schemas beside the files tell, by feature.
    """

    scans: tuple[FileScan, ...]
    features: tuple[BoundFeature, ...]
    sure: bool
    arrow: Mapping[str, str]
    notices: tuple[str, ...] = ()


def survey_files(files: Sequence[RecordFile], run_bytes: int, jobs: int) -> Contents:
    """Find records and features: in manifests, where they know all of it, else by reading all
    records, checked, on `jobs` threads in bounded memory.

    run_bytes: of the records of a plain file that one task reads. Raises DamageError at damage,
    SourceError where a file cannot be read, or where labels of one feature mean different things.
    """
    homes = _homes(files)
    labels = _labels(homes)
    arrow = _arrow_types(homes)
    known = {home.manifest.features for home in homes}
    all_known = len(known) == 1 and all(file.home is not None for file in files) and all(known)
    if all_known and all(file.is_as_written for file in files):
        features = tuple(map(feature_of, known.pop()))
        return Contents(tuple(map(_by_manifest, files)), features, True, arrow)
    with ThreadPoolExecutor(jobs, "tfrec-survey") as pool:
        scans = tuple(pool.map(partial(_scan, run_bytes=run_bytes), files))
    _refuse_short(scans)
    if all_known:
        return Contents(scans, tuple(map(feature_of, known.pop())), True, arrow)
    return _gathered(scans, labels, arrow)


def feature_of(facts: FeatureFacts) -> BoundFeature:
    """A feature as the manifest has it."""
    kind = _arrow(facts.type, facts.shape is not None or facts.ragged > 0)
    missing = Missing(facts.missing)
    return BoundFeature(
        facts.key, facts.type, (facts.key,), kind, shape=facts.shape,
        ragged=facts.ragged, labels=facts.labels, first_label=facts.first_label, missing=missing,
    )  # fmt: skip


def columns_of(feature: BoundFeature) -> Iterator[tuple[str, pa.DataType]]:
    """The columns that a feature is read as: its own, and those of its row lengths."""
    yield feature.key, _arrow(feature.type, feature.shape is not None or feature.ragged > 0)
    for key in row_lengths(feature.key, feature.ragged):
        yield key, pa.list_(pa.int64())


def _arrow_of(feature: BoundFeature) -> pa.DataType:
    return next(columns_of(feature))[1]


def _arrow(kind: str, is_list: bool) -> pa.DataType:
    return pa.list_(ARROW[kind]) if is_list else ARROW[kind]


def _homes(files: Iterable[RecordFile]) -> list[Home]:
    found = {id(file.home): file.home for file in files if file.home is not None}
    return list(found.values())


def _labels(homes: Sequence[Home]) -> dict[str, FeatureFacts]:
    """The label features. Raises SourceError where two datasets number classes differently."""
    found: dict[str, tuple[Home, FeatureFacts]] = {}
    for home in homes:
        for facts in home.manifest.features:
            if facts.labels is None:
                continue
            first, before = found.setdefault(facts.key, (home, facts))
            if (before.labels, before.first_label) != (facts.labels, facts.first_label):
                raise SourceError(
                    f"the labels of {shorten(facts.key)} mean one thing in "
                    f"{display(str(first.folder))} ({_named(before)}) and another in "
                    f"{display(str(home.folder))} ({_named(facts)}). Convert them apart, or use "
                    "-O manifest=off to keep the numbers as they are."
                )
    return {key: facts for key, (_, facts) in found.items()}


def _named(facts: FeatureFacts) -> str:
    names = [f"{n} {shorten(name)}" for n, name in enumerate(facts.labels or (), facts.first_label)]
    return listed(names, 3)


def _arrow_types(homes: Iterable[Home]) -> dict[str, str]:
    """The Arrow types on which all schemas agree; empty for the obvious one."""
    found: dict[str, set[str]] = {}
    for home in homes:
        schema = home.schema()
        for key, feature in schema.features.items() if schema else ():
            found.setdefault(key, set()).add(feature.arrow or "")
    return {key: next(iter(types)) for key, types in found.items() if len(types) == 1}


def _by_manifest(file: RecordFile) -> FileScan:
    assert file.shard is not None
    return FileScan(file, (RecordRange(None, 0, file.shard.records, file.shard.bytes),))


def _refuse_short(scans: Iterable[FileScan]) -> None:
    for scan in scans:
        if scan.file.shard is not None and scan.file.shard.records != scan.records:
            end = scan.ranges[-1].span.end if scan.ranges and scan.ranges[-1].span else 0
            raise record_count(scan.file.path, scan.records, end, scan.file.shard.records)


def _scan(file: RecordFile, run_bytes: int) -> FileScan:
    """Read a file from end to end."""
    tally, gathering = Tally(), _Runs(run_bytes)
    try:
        with open_content(file.path, checksum=True) as stream:
            for block in intact_blocks(file.path, stream):
                found = _kernel.survey_examples(block.data, block.ends)
                tally.add(found, block.ends, block.record, block.offset)
                gathering.add(block.offset, int(block.ends[-1]), len(block.ends))
            ranges = gathering.ranges(stream.container == "none", stream.size)
            crc = stream.crc32c
    except OSError as error:
        raise unreadable(file.path, error) from error
    features = [FeatureTally(key) for key in tally.keys]
    for feature, facts in zip(features, tally.facts, strict=True):
        feature.add(facts)
    sequence = tally.first_sequence[0] if tally.first_sequence is not None else None
    odd = tuple(_odd(file, tally))
    return FileScan(file, ranges, tuple(features), tally.examples, odd, crc, sequence)


class _Runs:
    """The ranges of a file, each of records of about `size` bytes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ranges: list[RecordRange] = []
        self._records = 0

    def add(self, offset: int, size: int, records: int) -> None:
        """Take in the next block."""
        last = self._ranges[-1] if self._ranges else None
        if last is None or last.span is None or last.size + size > self._size:
            span = Span(offset, offset + size, self._records)
            self._ranges.append(RecordRange(span, self._records, records, size))
        else:
            span = replace(last.span, end=offset + size)
            longer = replace(last, span=span, records=last.records + records, size=last.size + size)
            self._ranges[-1] = longer
        self._records += records

    def ranges(self, is_plain: bool, size: int) -> tuple[RecordRange, ...]:
        """The ranges of a plain file; a compressed one is read as a whole."""
        if is_plain:
            return tuple(self._ranges)
        return (RecordRange(None, 0, self._records, size),) if self._records else ()


def _odd(file: RecordFile, tally: Tally) -> Iterator[str]:
    """What keeps the features of a file's records from being known for sure."""
    name = display(file.path)
    if tally.first_invalid is not None:
        number = tally.first_invalid[0]
        yield f"{name}: {_are(tally.invalid)}no tf.train.Example, the first is record {number:,}"
    if tally.first_sequence is not None:
        number = tally.first_sequence[0]
        yield (
            f"{name}: {_are(tally.sequences, 'a ')}tf.train.SequenceExample, the first is record "
            f"{number:,}{NO_LISTS}"
        )
    if tally.is_full:
        yield f"{name}: its records have more than {len(tally.keys):,} features"


def _are(records: int, article: str = "") -> str:
    return f"{counted(records, 'record')} " + (f"is {article}" if records == 1 else "are ")


def _gathered(
    scans: tuple[FileScan, ...], labels: Mapping[str, FeatureFacts], arrow: Mapping[str, str]
) -> Contents:
    """The features that all files have together."""
    tallies: dict[bytes, FeatureTally] = {}
    for scan in scans:
        for one in scan.features:
            if one.key in tallies:
                tallies[one.key].include(one)
            else:
                tallies[one.key] = one
    examples = sum(scan.examples for scan in scans)
    odd = [text for scan in scans for text in scan.odd]
    doubts = Counter(text for tally in tallies.values() for text in _doubts(tally))
    usable = sorted((t for t in tallies.values() if _is_usable(t)), key=lambda t: t.key)
    features = tuple(_of_tally(tally, examples, labels) for tally in usable)
    # Whether bytes of unknown origin are text nobody knows.
    binary = {f.key: spell_type(_arrow_of(f)) for f in features if f.type == "bytes"}
    lines = [*odd[:5], *([f"… and {len(odd) - 5:,} more such files"] if odd[5:] else [])]
    notices = (*lines, *list(doubts)[:10])
    return Contents(scans, features, not odd and not doubts, binary | dict(arrow), notices)


def _is_usable(tally: FeatureTally) -> bool:
    try:
        name = tally.key.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return bool(name) and name.isprintable() and tally.kind != _NO_KIND


def _doubts(tally: FeatureTally) -> Iterator[str]:
    """Why a feature cannot be described by one kind and a name."""
    name = key_text(tally.key.decode("utf-8", "backslashreplace"))
    kinds = {kind: n for kind, n in zip(KINDS[1:], tally.kind_records[1:], strict=True) if n}
    if len(kinds) > 1:
        found = ", ".join(f"{kind} in {records:,}" for kind, records in kinds.items())
        yield f"feature {name} is of several kinds: {found} records"
    if tally.kind == _NO_KIND:
        yield f"feature {name} has no value in any record, and no kind"
    elif not _is_usable(tally):
        yield f"feature {name}: it is no column, for its name is empty or no printable UTF-8"


def _of_tally(
    tally: FeatureTally, examples: int, labels: Mapping[str, FeatureFacts]
) -> BoundFeature:
    """A feature as records have it; where they differ in kind, the most frequent one."""
    key, kind = tally.key.decode(), cast("FeatureType", tally.kind)
    is_one = tally.fewest == tally.most == 1
    shape = (tally.most,) if tally.fewest == tally.most > 1 else None
    is_missing = tally.present - tally.kind_records[0] < examples
    label = labels.get(key) if kind == "int64" else None
    return BoundFeature(
        key, kind, (key,), _arrow(kind, not is_one), shape=shape,
        ragged=0 if is_one or shape else 1, missing=Missing("omit" if is_missing else "error"),
        labels=label.labels if label else None, first_label=label.first_label if label else 0,
    )  # fmt: skip
