"""The files of a dataset against its manifest, once they are read."""

from __future__ import annotations

from collections.abc import Mapping

from tfrec_cli.dataset.manifest import Manifest, Shard
from tfrec_cli.errors import counted
from tfrec_cli.reading.finding import Finding
from tfrec_cli.verification.files import CONTAINERS, FileReport

_SILENT = "reads what is there, without an error"


def compare(
    manifest: Manifest, contents: Mapping[tuple[int, int], str], report: FileReport
) -> list[Finding]:
    """How a file that was read differs from what the manifest says of it.

    contents: the manifest's shards by their bytes and crc32c.
    """
    shard, found = report.target.shard, (report.summary.bytes, report.crc32c)
    if shard is None or found == (shard.bytes, shard.crc32c):
        return []
    if report.crc32c is not None and (other := contents.get((found[0], report.crc32c))):
        text = f"its content is that of the shard {other}"
        return [Finding(report.target.path, "swapped shards", text, tensorflow=_SILENT)]
    return _differences(report, shard, manifest)


def _differences(report: FileReport, shard: Shard, manifest: Manifest) -> list[Finding]:
    """Other bytes than were written, or only other content where nothing else was found."""
    path, summary = report.target.path, report.summary
    findings = []
    if summary.bytes and summary.compression != manifest.compression.kind and report.is_whole:
        found, written = CONTAINERS[summary.compression], CONTAINERS[manifest.compression.kind]
        findings.append(
            Finding(path, "compression", f"the file is {found}, but {written} was written")
        )
    if report.is_whole and report.total != shard.records:
        text = f"{counted(report.total, 'record')}, but {shard.records:,} were written"
        difference = abs(report.total - shard.records)
        findings.append(Finding(path, "record count", text, tensorflow=_SILENT, records=difference))
    if summary.bytes != shard.bytes:
        text = f"{counted(summary.bytes, 'byte')}, but {shard.bytes:,} were written"
        findings.append(Finding(path, "file size", text))
    elif not report.findings and not findings:
        text = "all records are intact, but the file is not the one that was written"
        findings.append(Finding(path, "file checksum", text, tensorflow=_SILENT))
    return findings
