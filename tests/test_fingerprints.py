"""What tells that a file is what it was: the same everywhere that it is asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfrec_cli.dataset.manifest import SourceFile
from tfrec_cli.errors import SourceError
from tfrec_cli.shardlog import are_unchanged, file_entries, fingerprints
from tfrec_cli.sourcefiles import fingerprint_of, source_file
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.fingerprints import fingerprint, gather, is_unchanged, looks_same

WAS = Fingerprint("f", 3, 5, 9, (11, 12))


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (Fingerprint("f", 3, 5, None, (11, 12, 1, 2)), True),
        (Fingerprint("f", 4, 5, None, (11, 12)), False),
        (Fingerprint("f", 3, 6, None, (11, 12)), None),
        (Fingerprint("f", 3, 5, None, (10, 12)), None),
        (Fingerprint("f", 3, 5, None, (11, 13)), None),
        (Fingerprint("f", 3, 6, 9, (10, 13)), True),
        (Fingerprint("f", 3, 5, 8, (11, 12)), False),
    ],
)
def test_size_time_and_which_file_it_is_tell_unless_both_contents_are_known(
    now: Fingerprint, same: bool | None
) -> None:
    assert looks_same(WAS, now) is same


def test_of_what_nobody_noted_which_file_it_was_the_content_must_tell() -> None:
    assert looks_same(Fingerprint("f", 3, 5, 9), Fingerprint("f", 3, 5, None, ())) is None


def looked_at(path: Path, crc32c: int | None = None) -> Fingerprint:
    found = fingerprint(str(path))
    return Fingerprint(found.path, found.size, found.mtime_ns, crc32c, found.state)


@pytest.mark.parametrize("crc32c", [None, 0xC1D04330])
def test_other_rights_are_no_other_file_and_hide_no_other_content(
    tmp_path: Path, crc32c: int | None
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a")
    os.utime(path, (1e9, 1e9))
    before = looked_at(path, crc32c)
    path.chmod(0o600)
    assert is_unchanged(before)
    path.write_bytes(b"b")
    os.utime(path, (1e9, 1e9))
    assert is_unchanged(before) == (crc32c is None)


def test_another_file_under_the_same_name_is_told_by_its_content(tmp_path: Path) -> None:
    path, other = tmp_path / "f", tmp_path / "g"
    for each in (path, other):
        each.write_bytes(b"a")
        os.utime(each, (1e9, 1e9))
    known, unknown = looked_at(path, 0xC1D04330), looked_at(path)
    os.replace(other, path)
    assert is_unchanged(known)
    assert not is_unchanged(unknown)
    kept = fingerprints(file_entries([known, known]))
    assert kept == (known, known)
    assert are_unchanged(kept)
    path.unlink()
    assert not are_unchanged(kept)


def test_a_file_that_is_read_twice_has_one_content() -> None:
    known: dict[str, Fingerprint] = {}
    gather(known, [WAS, Fingerprint("g", 1, 1, 1), Fingerprint("f", 3, 6, 9)])
    assert sorted(known) == ["f", "g"]
    with pytest.raises(SourceError, match="f: the file changed while it was being read"):
        gather(known, [Fingerprint("f", 3, 5, 8)])


def test_a_manifest_keeps_which_file_it_was() -> None:
    assert source_file(WAS, "loaded") == SourceFile("f", 3, 5, 9, "loaded", 11, 12)
    assert fingerprint_of(source_file(WAS)) == WAS
    assert source_file(Fingerprint("f", 3, 5)) == SourceFile("f", 3, 5)
    assert fingerprint_of(SourceFile("f", 3, 5)) == Fingerprint("f", 3, 5)
