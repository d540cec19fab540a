"""What records are that are no `tf.train.Example`, as far as one of them tells."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tfrec_cli.decoding import NoExampleError, message_fields, sequence_keys
from tfrec_cli.errors import counted, listed, shorten
from tfrec_cli.inspection.values import describe, image_format, text_of
from tfrec_cli.reading.chunks import read_chunks
from tfrec_cli.reading.dataset import RecordDataset
from tfrec_cli.reading.survey import DatasetSurvey
from tfrec_cli.reading.targets import Target

SEQUENCE = "tf.train.SequenceExample"
_HEAD, _FOOT = 12, 4
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Payload:
    """Records that are no Example. records: how many. file, record: the first of them. kind: what
    that one is. keys: of its feature lists, where it is a `tf.train.SequenceExample`.
    """

    records: int
    file: str
    record: int
    kind: str
    keys: tuple[str, ...] = ()


def payloads(survey: DatasetSurvey) -> tuple[Payload, ...]:
    """What the records of a dataset are that are no Example, or more than one."""
    targets = {file.target.path: file.target for file in survey.files}
    found = []
    if survey.first_sequence is not None:
        path, record = survey.first_sequence
        found.append(payload(survey.sequences, targets[path], record))
    if survey.first_invalid is not None:
        path, record = survey.first_invalid
        found.append(payload(survey.records - survey.examples, targets[path], record))
    return tuple(found)


def without_lists(dataset: RecordDataset) -> str:
    """Words on feature lists of SequenceExamples, which are no columns; empty where there are none.

    Of records that a manifest describes there are none; others are looked at for it.
    """
    if dataset.manifest is not None and dataset.manifest.features:
        return ""
    for one in payloads(dataset.survey()):
        if one.kind == SEQUENCE:
            keys = listed([shorten(key, 40) for key in one.keys], _SHOWN) or "without any"
            return (
                f"{counted(one.records, 'record')} {'is' if one.records == 1 else 'are'} "
                "SequenceExample: only the context is here, and the feature lists are left out: "
                f"{keys}"
            )
    return ""


def payload(records: int, target: Target, record: int) -> Payload:
    """What `records` records are, the first of which is `record` of a file."""
    data = _record(target, record)
    try:
        keys = sequence_keys(data)
    except NoExampleError:
        keys = None
    if keys is not None:
        return Payload(records, target.path, record, SEQUENCE, tuple(keys))
    return Payload(records, target.path, record, kind_of(data))


def kind_of(data: bytes) -> str:
    """A word or two on bytes of any kind."""
    if (image := image_format(data)) is not None:
        return f"{image} images"
    if (text := text_of(data)) is not None:
        return "JSON" if _is_json(text) else "text"
    shown = describe(data)
    if "data" in shown or "pickle" in shown or "array" in shown or "archive" in shown:
        return shown[1:].split(",")[0]
    try:
        fields = message_fields(data)
    except NoExampleError:
        return "bytes of no known kind"
    names = listed([str(number) for number in fields], _SHOWN)
    return f"another protobuf message (fields {names})"


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def _record(target: Target, number: int) -> bytes:
    """The data of one record."""
    for chunk in read_chunks(target):
        inside = number - chunk.record
        if 0 <= inside < len(chunk.ends):
            start = int(chunk.ends[inside - 1]) if inside else 0
            return bytes(chunk.data[start + _HEAD : int(chunk.ends[inside]) - _FOOT])
    raise IndexError(number)
