"""Groups that straddle splits: values of a feature that occur in two of them.

A group is one value (an item, where the feature is a list); a record without the feature belongs to
none. Memory grows with the number of different values, not of records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfrec_cli import _kernel
from tfrec_cli.decoding import decode_entry
from tfrec_cli.errors import UsageError, did_you_mean, shorten
from tfrec_cli.reading.finding import Finding
from tfrec_cli.records.blocks import Block

_LONG = 48
_SHOWN = 5


@dataclass(slots=True)
class Groups:
    """The values of one feature in one file, with record and offset of the first that has it."""

    key: str
    first: dict[Any, tuple[int, int]] = field(default_factory=dict)
    _known: set[bytes] = field(default_factory=set)

    def add(self, block: Block) -> None:
        """Take in the records of a block."""
        key = self.key.encode("utf-8", "surrogateescape")
        found = _kernel.find_feature(block.data, block.ends, key).tolist()
        begin = 0
        for number, ((start, end, _), stop) in enumerate(
            zip(found, block.ends.tolist(), strict=True)
        ):
            raw = bytes(block.data[start:end]) if start >= 0 else b""
            if raw and raw not in self._known:
                for value in decode_entry(block.data, start, end).values:
                    place = (block.record + number, block.offset + begin)
                    self.first.setdefault(_group(value), place)
                if len(raw) < 4 * _LONG:
                    self._known.add(raw)
            begin = stop

    def close(self) -> None:
        """Forget what only reading needs."""
        self._known.clear()


@dataclass(frozen=True, slots=True)
class SplitGroups:
    """The groups of one file, and the split that the file belongs to."""

    file: str
    split: str
    groups: Groups
    decompressed: bool


def _group(value: Any) -> Any:
    """`value`, or for long bytes their beginning and a hash."""
    if isinstance(value, bytes) and len(value) > _LONG:
        return value[:24], hashlib.blake2b(value, digest_size=16).digest()
    return value


def find_leaks(files: Iterable[SplitGroups], seen_keys: Iterable[str]) -> list[Finding]:
    """One finding for each feature and pair of splits that have a value in common.

    files: in order; seen_keys: all features of the records. Raises UsageError where there is but
    one split, or where no record has the feature.
    """
    files, known = list(files), list(seen_keys)
    splits = list(dict.fromkeys(file.split for file in files))
    if len(splits) < 2:
        raise UsageError(
            f"--leak compares splits, but all files are of one ({', '.join(splits) or 'none'}). "
            "Name a dataset with several, or all their files."
        )
    findings: list[Finding] = []
    for key in dict.fromkeys(file.groups.key for file in files):
        of_key = [file for file in files if file.groups.key == key]
        if not any(file.groups.first for file in of_key):
            hint = did_you_mean(key, known)
            raise UsageError(f'--leak {key}: no record has a feature "{shorten(key)}".{hint}')
        findings += _leaks(key, of_key)
    return findings


def _leaks(key: str, files: list[SplitGroups]) -> list[Finding]:
    owners: dict[Any, tuple[SplitGroups, tuple[int, int]]] = {}
    shared: dict[tuple[str, str], dict[Any, _Leak]] = {}
    for file in files:
        for value, place in file.groups.first.items():
            owner, where = owners.setdefault(value, (file, place))
            if owner.split != file.split:
                pair = shared.setdefault((owner.split, file.split), {})
                pair.setdefault(value, _Leak(owner, where, file, place))
    return [_finding(key, splits, leaks) for splits, leaks in shared.items()]


@dataclass(frozen=True, slots=True)
class _Leak:
    """One value: where it is first, and where it is again in another split."""

    owner: SplitGroups
    where: tuple[int, int]
    file: SplitGroups
    place: tuple[int, int]


def _finding(key: str, splits: tuple[str, str], leaks: Mapping[Any, _Leak]) -> Finding:
    first = next(iter(leaks.values()))
    values = ", ".join(_shown(value) for value in list(leaks)[:_SHOWN])
    more = f" and {len(leaks) - _SHOWN:,} more" if len(leaks) > _SHOWN else ""
    count = "1 value is" if len(leaks) == 1 else f"{len(leaks):,} values are"
    text = (
        f"{count} in {splits[0]} and in {splits[1]}: {values}{more}; the first of them also in "
        f"{shorten(first.owner.file, 1000)}, record {first.where[0]}"
    )
    record, offset = first.place
    return Finding(
        first.file.file, "leak", text, record, offset, key, decompressed=first.file.decompressed
    )


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return _shown(value[0]) + "…"
    if isinstance(value, bytes):
        return f'"{shorten(value.decode("utf-8", "backslashreplace"))}"'
    return str(value)
