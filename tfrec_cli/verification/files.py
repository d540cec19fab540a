"""One file, read from its first byte to its last."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from tfrec_cli.decoding import Tally
from tfrec_cli.reading.expectations import Expectations
from tfrec_cli.reading.finding import Finding
from tfrec_cli.reading.payloads import OddRecords
from tfrec_cli.reading.targets import Target
from tfrec_cli.records.blocks import BLOCK, Block, Damage, read_blocks
from tfrec_cli.records.framing import promised_compression
from tfrec_cli.records.streams import ContentStream, Fault
from tfrec_cli.sources.paths import no_file
from tfrec_cli.verification import tensorflow
from tfrec_cli.verification.features import NO_EXAMPLE, FeatureCheck
from tfrec_cli.verification.findings import FileSummary, Findings
from tfrec_cli.verification.leaks import Groups

CONTAINERS = {"none": "plain", "gzip": "GZIP", "zlib": "ZLIB"}
"""What files with each compression are called."""

_REST = 1 << 16
_RATIO = 8
_AROUND = ("compressed data", "header", "truncated", "trailing data", "compression")


@dataclass(frozen=True, slots=True)
class FileReport:
    """What one file holds. crc32c: of the file, where a manifest gives one. total: records by
    their lengths, intact or not. is_whole: read to its end. odd: records that are no Example.
    """

    target: Target
    summary: FileSummary
    findings: tuple[Finding, ...]
    notices: tuple[str, ...]
    tally: Tally
    odd: tuple[OddRecords, ...]
    groups: tuple[Groups, ...]
    crc32c: int | None
    total: int
    is_whole: bool


class Stopped(Exception):
    """Another file failed, or the user interrupted: nobody waits for this one."""


def check_file(
    target: Target,
    expected: Expectations | None,
    leaks: Sequence[str],
    stop: threading.Event,
    block: int = BLOCK,
) -> FileReport:
    """Read `target` and tell what is in it and what is wrong.

    leaks: the features whose values are gathered. stop: give up soon once it is set. Raises OSError
    where the file cannot be read, Stopped.
    """
    with open(target.path, "rb") as file:
        promised = promised_compression(target.path)
        stream = ContentStream(file, target.shard is not None, promised)
        check = _Check(target, expected, leaks, stream)
        for part in read_blocks(stream, min(block, _room(stream))):
            if stop.is_set():
                raise Stopped
            check.add(part)
        # Behind a wrong length no record can be found, but the container is read to its end.
        rest = memoryview(bytearray(_REST))
        while stream.readinto(rest):
            if stop.is_set():
                raise Stopped
        return check.finish()


def _room(stream: ContentStream) -> int:
    """Bytes of buffer that a small file may fill."""
    return max(_REST, stream.size * (1 if stream.container == "none" else _RATIO))


class _Check:
    """One pass over one file."""

    def __init__(
        self,
        target: Target,
        expected: Expectations | None,
        leaks: Sequence[str],
        stream: ContentStream,
    ) -> None:
        self._target, self._stream = target, stream
        self._findings = Findings(target.path, stream.container != "none")
        self._features = FeatureCheck(target.path, expected, self._findings)
        self._groups = tuple(Groups(key) for key in leaks)
        self._intact = self._total = self._offset = self._faults = 0
        self._notices: list[str] = []
        self._is_over = False
        self._check_name()

    def add(self, part: Block | Damage) -> None:
        """Take in intact records, or one that is not."""
        self._place_faults(part)
        if isinstance(part, Block):
            self._features.add(part)
            for groups in self._groups:
                groups.add(part)
            self._intact += len(part.ends)
            self._total = part.record + len(part.ends)
            self._offset = part.offset + int(part.ends[-1])
        else:
            self._add_damage(part)

    def finish(self) -> FileReport:
        """What the whole file shows."""
        self._place_faults(None)
        self._features.finish()
        for groups in self._groups:
            groups.close()
        stream, tally = self._stream, self._features.tally
        summary = FileSummary(
            self._target.path, self._target.split, stream.container, self._intact,
            tally.examples, stream.size, stream.total,
        )  # fmt: skip
        whole = not self._is_over and not self._findings.has(*_AROUND)
        if stream.size == 0:
            self._notices.append(f"{self._target.path} is empty")
        return FileReport(
            self._target, summary, tuple(self._findings.listed()), tuple(self._notices),
            tally, self._features.odd.kinds(), self._groups,
            stream.raw.crc32c if stream.raw.at == stream.size else None, self._total, whole,
        )  # fmt: skip

    def _check_name(self) -> None:
        """The file's content against what its name promises."""
        promised = promised_compression(self._target.path)
        found = self._stream.container
        if promised == found or not self._stream.size:
            return
        if promised == "none":
            word = CONTAINERS[found]
            text = f"{self._target.path} is {word}, which its name does not say"
            self._notices.append(f'{text}: read it with compression_type="{word}"')
            return
        text = f"the name says {CONTAINERS[promised]}, the content is {CONTAINERS[found]}"
        if found == "none" and not self._is_plain():
            text = f"the name says {CONTAINERS[promised]}, but the file does not start like that"
        said = tensorflow.of_compression(found, promised)
        self._findings.add("compression", text, (0, 0), tensorflow=said)

    def _is_plain(self) -> bool:
        """Whether a file that is not compressed starts with a record."""
        from tfrec_cli.records.framing import HEADER, starts_with_record

        with open(self._target.path, "rb") as file:
            return starts_with_record(file.read(HEADER))

    def _add_damage(self, damage: Damage) -> None:
        self._is_over |= not damage.size
        if damage.size:
            self._total, self._offset = damage.record + 1, damage.offset + damage.size
        if damage.kind == "truncated" and self._explained():
            return
        place, text = (damage.record, damage.offset), damage.text
        if damage.kind in ("length checksum", "length"):
            text += "; nothing after it can be read"
        if place == (0, 0) and not damage.size and self._stream.container == "none":
            text += "; if the file ever was a TFRecord file, it was not plain, GZIP or ZLIB"
        said = tensorflow.of_damage(damage)
        self._findings.add(damage.kind, text, place, tensorflow=said)

    def _explained(self) -> bool:
        """Whether a record is cut because the compressed data around it is."""
        return any(f.kind in ("compressed data", "truncated") for f in self._stream.faults)

    def _place_faults(self, part: Block | Damage | None) -> None:
        """Report the faults around the records that lie before the end of `part`."""
        faults = self._stream.faults
        while self._faults < len(faults):
            fault = faults[self._faults]
            place = self._locate(fault, part)
            if place is None:
                return
            self._faults += 1
            self._report_fault(fault, place, part)

    def _locate(self, fault: Fault, part: Block | Damage | None) -> tuple[int, int] | None:
        """Number and offset of the record that a fault falls in; None where it is yet to come."""
        if isinstance(part, Block):
            inside = fault.offset - part.offset
            if inside >= part.ends[-1]:
                return None
            number = int(part.ends.searchsorted(inside, side="right"))
            start = int(part.ends[number - 1]) if number else 0
            return part.record + number, part.offset + start
        if isinstance(part, Damage):
            return (part.record, part.offset) if part.kind == "truncated" else None
        return self._total, self._offset

    def _report_fault(
        self, fault: Fault, place: tuple[int, int], part: Block | Damage | None
    ) -> None:
        said = tensorflow.of_fault(fault, self._stream.container)
        if fault.kind == "truncated":
            cut = isinstance(part, Damage)
            said = tensorflow.of_damage(part) if cut else "stops there without an error"  # type: ignore[arg-type]
        text = f"{fault.text} (byte {fault.at:,} of the file)"
        self._findings.add(fault.kind, text, place, tensorflow=said)


def unreadable(error: OSError | MemoryError, path: str) -> str:
    """One line on a file that cannot be read."""
    if isinstance(error, MemoryError):
        hint = "its largest record must fit; with -j 1 no other file is read beside it"
        return f"{path}: out of memory: {hint}"
    found = no_file(path)
    return f"{path}: {error.strerror or error}" if found is None else f"{path}: it is {found}"


__all__ = ["CONTAINERS", "NO_EXAMPLE", "FileReport", "Stopped", "check_file", "unreadable"]
