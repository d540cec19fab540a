"""One look at all records of a dataset: how many there are, and which features they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfrec_cli import _kernel
from tfrec_cli._kernel import ExampleSurvey
from tfrec_cli.decoding import FeatureTally, Tally
from tfrec_cli.engines.threads import ordered_flat_map
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.reading.chunks import Chunk, read_chunks
from tfrec_cli.reading.payloads import OddKinds, OddRecords, look_at
from tfrec_cli.reading.targets import Target


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file: how it is compressed by its content, its records, how many of them are Examples,
    its bytes on the disk and decompressed.
    """

    target: Target
    container: str
    records: int
    examples: int
    bytes: int
    content_bytes: int


@dataclass(frozen=True, slots=True)
class DatasetSurvey:
    """What all records of a dataset hold.

    features: sorted by key. examples, sequences: how many records are Examples, and how many of
    these SequenceExamples. odd: the records that are no Example, by kind. first_sequence: file and
    number of the first SequenceExample. is_full: more than 100,000 features were seen; the further
    ones are left out.
    """

    files: tuple[FileFacts, ...]
    features: tuple[FeatureTally, ...]
    sequences: int = 0
    odd: tuple[OddRecords, ...] = ()
    first_sequence: tuple[str, int] | None = None
    is_full: bool = False

    @property
    def records(self) -> int:
        """All records of all files."""
        return sum(file.records for file in self.files)

    @property
    def examples(self) -> int:
        """The records that are Examples."""
        return sum(file.examples for file in self.files)


def survey_records(
    targets: Sequence[Target],
    jobs: int,
    reporter: Reporter = SILENT,
    watch: Callable[[Chunk], None] | None = None,
) -> DatasetSurvey:
    """Look at all records of `targets`, on `jobs` threads, in bounded memory.

    watch: is given each chunk in order, in the calling thread. Raises DamageError where a record is
    not intact, OSError where a file cannot be read.
    """
    gathered = _Gathered()
    for chunk, survey, odd in ordered_flat_map(read_chunks, _survey, targets, jobs):
        gathered.add(chunk, survey, odd)
        if watch is not None:
            watch(chunk)
        if chunk.container is None:
            reporter.advance(len(chunk.ends), chunk.data.size)
    return gathered.result()


def _survey(chunk: Chunk) -> tuple[Chunk, ExampleSurvey, list[OddRecords]]:
    found = _kernel.survey_examples(chunk.data, chunk.ends)
    odd = look_at(chunk.target.path, memoryview(chunk.data), chunk.ends, found.invalid)
    return chunk, found, odd


class _Gathered:
    """The survey so far: a tally of the file at hand, and what files before it held."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._files: list[FileFacts] = []
        self._features: dict[bytes, FeatureTally] = {}
        self._sequences = 0
        self._odd = OddKinds()
        self._first_sequence: tuple[str, int] | None = None
        self._is_full = False

    def add(self, chunk: Chunk, survey: ExampleSurvey, odd: list[OddRecords]) -> None:
        """Take in a chunk; the last of a file ends the file."""
        self._odd.add(odd, chunk.record)
        if chunk.container is None:
            self._tally.add(survey, chunk.ends, chunk.record, chunk.offset)
            return
        tally, self._tally = self._tally, Tally()
        self._files.append(
            FileFacts(
                chunk.target, chunk.container, chunk.record, tally.examples, chunk.bytes,
                chunk.content_bytes,
            )
        )  # fmt: skip
        for key, facts in zip(tally.keys, tally.facts, strict=True):
            self._features.setdefault(key, FeatureTally(key)).add(facts)
        self._note(chunk.target.path, tally)

    def _note(self, path: str, tally: Tally) -> None:
        self._sequences += tally.sequences
        self._is_full |= tally.is_full
        if tally.first_sequence is not None and self._first_sequence is None:
            self._first_sequence = (path, tally.first_sequence[0])

    def result(self) -> DatasetSurvey:
        """All of it."""
        return DatasetSurvey(
            tuple(self._files),
            tuple(sorted(self._features.values(), key=lambda feature: feature.key)),
            self._sequences,
            self._odd.kinds(),
            self._first_sequence,
            self._is_full,
        )


__all__ = ["DatasetSurvey", "FeatureTally", "FileFacts", "survey_records"]
