"""The first records of a dataset, value by value, whatever their payload is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfrec_cli import _kernel
from tfrec_cli.decoding import NoExampleError, Values, decode_example, decode_lists
from tfrec_cli.errors import UsageError, did_you_mean, spelled
from tfrec_cli.reading.chunks import Chunk, read_chunks
from tfrec_cli.reading.dataset import RecordDataset
from tfrec_cli.reading.features import NO_KIND
from tfrec_cli.reading.values import plain
from tfrec_cli.records.framing import FOOTER, HEADER

_BLOCK = 1 << 16
# Values that are made text at a time.
_PIECE = 1 << 12
PAYLOAD = "record"
"""The name under which a record that is no Example is shown."""

LISTS = "feature_lists/"
"""What stands before the keys of feature lists, which may be those of the context too."""


@dataclass(frozen=True, slots=True)
class HeadRecord:
    """One record. file, number: where it is, from 0. features: by key, in the order they stand;
    for a record that is no Example its bytes as PAYLOAD. Behind them the feature lists of a
    SequenceExample, LISTS before their keys, with the values of each step.
    """

    file: str
    number: int
    features: dict[str, Values | tuple[Values, ...]]


def first_records(
    dataset: RecordDataset,
    count: int,
    split: str | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[HeadRecord]:
    """The first `count` records of a dataset, or of one split. columns: features to keep.

    Reads no more than it needs. Raises DamageError where a record on the way is not intact, and
    UsageError for a split that is not there, or a column that none of the records has.
    """
    facts = dataset.manifest.features if dataset.manifest else ()
    known = {name for one in facts for name in (one.key, spelled(one.key))}
    lacking = dict.fromkeys(key for key in columns or () if key not in known)
    seen: dict[str, None] = {}
    for chunk in _first_chunks(dataset, count, split):
        for number, data in _payloads(chunk):
            features = _features(data)
            seen |= dict.fromkeys(features)
            if columns is not None:
                named = {spelled(key): key for key in features} | {key: key for key in features}
                lacking = {key: None for key in lacking if key not in named}
                features = {named[c]: features[named[c]] for c in columns if c in named}
            yield HeadRecord(chunk.target.path, chunk.record + number, features)
    if lacking and seen:
        key = next(iter(lacking))
        hint = did_you_mean(key, map(spelled, seen))
        raise UsageError(f'no feature of these records is called "{spelled(key)}".{hint}')


def missing_files(dataset: RecordDataset, split: str | None = None) -> list[str]:
    """What lacks of the files of a dataset, or of one split: the first records may be in these."""
    others: set[str] = set()
    if dataset.manifest is not None and split is not None:
        apart = (one for one in dataset.manifest.splits if one.name != split)
        others = {shard.name for one in apart for shard in one.shards}
    return [
        finding.brief()
        for finding in dataset.findings
        if finding.kind in ("missing shard", "manifest")
        and os.path.basename(finding.file) not in others
    ]


def list_features(dataset: RecordDataset, count: int, split: str | None = None) -> set[str]:
    """The features of which some of the first `count` records has other than one value.

    The manifest says so for all records, where there is one.
    """
    if dataset.manifest is not None and dataset.manifest.features:
        return {key for key, feature in dataset.features.items() if feature.is_list}
    found = set()
    for chunk in _first_chunks(dataset, count, split):
        survey = _kernel.survey_examples(chunk.data, chunk.ends)
        for key, facts in zip(survey.keys, survey.facts, strict=True):
            if facts["fewest"] >= 0 and (facts["fewest"] != 1 or facts["most"] != 1):
                found.add(key.decode("utf-8", "surrogateescape"))
    return found


class Few(list[Any]):
    """The first values of a list, and how many it has: `whole`."""

    def __init__(self, values: Iterable[Any], whole: int) -> None:
        super().__init__(values)
        self.whole = whole


def shown_of(record: HeadRecord, lists: set[str], most: int) -> dict[str, Any]:
    """A record as people are shown it: features of `lists` as the first `most` of their values,
    others as one value; those without a kind are None.
    """
    return {key: _shown(values, key in lists, most) for key, values in record.features.items()}


def json_of(record: HeadRecord, lists: set[str], as_base64: bool = False) -> Iterator[str]:
    """A record as an object of JSON, some of the text at a time: features of `lists` as lists,
    others as one value; those without a kind are null.
    """
    before = "{"
    for key, values in record.features.items():
        yield f"{before}{_text(_name(key, record))}: "
        before = ", "
        if isinstance(values, Values) and len(values.values) > _PIECE and values.kind != NO_KIND:
            yield from _list_text(values, as_base64)
        else:
            yield _text(_shown(values, key in lists, None, as_base64))
    yield "{}" if before == "{" else "}"


def _name(key: str, record: HeadRecord) -> str:
    """The name of a feature, or its key, where another one has that name."""
    return key if spelled(key) in record.features else spelled(key)


def _list_text(values: Values, as_base64: bool) -> Iterator[str]:
    """As text many values take several times the room that they take by themselves."""
    for start in range(0, len(values.values), _PIECE):
        part = Values(values.kind, values.values[start : start + _PIECE])
        yield ("[", ", ")[start > 0] + _text(plain(part, as_base64))[1:-1]
    yield "]"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown(
    values: Values | tuple[Values, ...],
    is_list: bool,
    most: int | None = None,
    as_base64: bool = False,
) -> Any:
    if isinstance(values, tuple):
        return Few((_few(step, most, as_base64) for step in values[:most]), len(values))
    if values.kind == NO_KIND:
        return None
    items = _few(values, most, as_base64)
    return items[0] if len(values.values) == 1 and not is_list else items


def _few(values: Values, most: int | None, as_base64: bool) -> Few:
    first = Values(values.kind, values.values[:most])
    return Few(plain(first, as_base64), len(values.values))


def _first_chunks(dataset: RecordDataset, count: int, split: str | None) -> Iterator[Chunk]:
    """Chunks that hold just the first `count` records."""
    for target in dataset.files_of(split):
        if count <= 0:
            return
        for chunk in read_chunks(target, _BLOCK):
            ends = chunk.ends[:count]
            if len(ends):
                yield Chunk(target, chunk.data[: int(ends[-1])], ends, chunk.record, chunk.offset)
            count -= len(ends)
            if count <= 0:
                return


def _payloads(chunk: Chunk) -> Iterator[tuple[int, bytes]]:
    view, start = memoryview(chunk.data), 0
    for number, end in enumerate(chunk.ends.tolist()):
        yield number, bytes(view[start + HEADER : end - FOOTER])
        start = end


def _features(data: bytes) -> dict[str, Values | tuple[Values, ...]]:
    try:
        lists = {f"{LISTS}{key}": steps for key, steps in decode_lists(data).items()}
        return {**decode_example(data), **lists}
    except NoExampleError:
        return {PAYLOAD: Values("bytes", (data,))}
