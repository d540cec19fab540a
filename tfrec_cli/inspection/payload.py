"""What records are that are no `tf.train.Example`, or more than one."""

from __future__ import annotations

from dataclasses import dataclass

from tfrec_cli.decoding import sequence_keys
from tfrec_cli.errors import counted, key_text, listed
from tfrec_cli.reading.chunks import read_chunks
from tfrec_cli.reading.dataset import RecordDataset
from tfrec_cli.reading.survey import DatasetSurvey
from tfrec_cli.reading.targets import Target
from tfrec_cli.records.framing import FOOTER, HEADER

SEQUENCE = "tf.train.SequenceExample"
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Payload:
    """Records of one kind that are no Example. records: how many. file, record: the first of them.
    kind: what they are. keys: of the feature lists of the first, where they are
    `tf.train.SequenceExample`. sampled: whether their number was made out by some of them.
    """

    records: int
    file: str
    record: int
    kind: str
    keys: tuple[str, ...] = ()
    sampled: bool = False


def payloads(survey: DatasetSurvey) -> tuple[Payload, ...]:
    """What the records of a dataset are that are no Example, or more than one."""
    targets = {file.target.path: file.target for file in survey.files}
    found = []
    if survey.first_sequence is not None:
        path, record = survey.first_sequence
        found.append(_sequences(survey.sequences, targets[path], record))
    found += [Payload(o.records, o.file, o.record, o.kind, sampled=o.sampled) for o in survey.odd]
    return tuple(found)


def without_lists(dataset: RecordDataset) -> str:
    """Words on feature lists of SequenceExamples, which are no columns; empty where there are none.

    Of records that a manifest describes there are none; others are looked at for it.
    """
    if dataset.manifest is not None and dataset.manifest.features:
        return ""
    for one in payloads(dataset.survey()):
        if one.kind == SEQUENCE:
            keys = listed([key_text(key, 40) for key in one.keys], _SHOWN) or "without any"
            return (
                f"{counted(one.records, 'record')} {'is' if one.records == 1 else 'are'} "
                "SequenceExample: only the context is here, and the feature lists are left out: "
                f"{keys}"
            )
    return ""


def _sequences(records: int, target: Target, record: int) -> Payload:
    """SequenceExamples, the first of which is `record` of a file."""
    keys = tuple(sequence_keys(_record(target, record)) or ())
    return Payload(records, target.path, record, SEQUENCE, keys)


def _record(target: Target, number: int) -> bytes:
    """The data of one record."""
    for chunk in read_chunks(target):
        inside = number - chunk.record
        if 0 <= inside < len(chunk.ends):
            start = int(chunk.ends[inside - 1]) if inside else 0
            return bytes(chunk.data[start + HEADER : int(chunk.ends[inside]) - FOOTER])
    raise IndexError(number)
