"""The first records of a dataset, value by value, whatever their payload is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfrec_cli import _kernel
from tfrec_cli.decoding import NoExampleError, Values, decode_example, decode_lists
from tfrec_cli.errors import UsageError, did_you_mean
from tfrec_cli.reading.chunks import Chunk, read_chunks
from tfrec_cli.reading.dataset import RecordDataset
from tfrec_cli.reading.values import plain

_BLOCK = 1 << 16
_HEAD, _FOOT = 12, 4
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
    known = {facts.key for facts in dataset.manifest.features} if dataset.manifest else set()
    lacking = dict.fromkeys(key for key in columns or () if key not in known)
    seen: dict[str, None] = {}
    for chunk in _first_chunks(dataset, count, split):
        for number, data in _payloads(chunk):
            features = _features(data)
            seen |= dict.fromkeys(features)
            if columns is not None:
                features = {key: features[key] for key in columns if key in features}
                lacking = {key: None for key in lacking if key not in features}
            yield HeadRecord(chunk.target.path, chunk.record + number, features)
    if lacking and seen:
        key = next(iter(lacking))
        hint = did_you_mean(key, seen)
        raise UsageError(f'no feature of these records is called "{key}".{hint}')


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


def json_of(record: HeadRecord, lists: set[str], as_base64: bool = False) -> dict[str, Any]:
    """A record as an object of JSON: features of `lists` as lists, others as one value; those
    without a kind are null.
    """
    found: dict[str, Any] = {}
    for key, values in record.features.items():
        if isinstance(values, tuple):
            found[key] = [plain(step, as_base64) for step in values]
            continue
        items = plain(values, as_base64)
        one = items[0] if len(items) == 1 and key not in lists else items
        found[key] = None if values.kind == "no kind" else one
    return found


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
        yield number, bytes(view[start + _HEAD : end - _FOOT])
        start = end


def _features(data: bytes) -> dict[str, Values | tuple[Values, ...]]:
    try:
        lists = {f"{LISTS}{key}": steps for key, steps in decode_lists(data).items()}
        return {**decode_example(data), **lists}
    except NoExampleError:
        return {PAYLOAD: Values("bytes", (data,))}
