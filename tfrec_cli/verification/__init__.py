"""Verifying: every checksum, count and kind of TFRecord files of any origin.

verify(options)      read everything, tell what is wrong
check_staged(…)      the same for a dataset that is about to be committed
"""

from __future__ import annotations

from tfrec_cli.reading.finding import Finding
from tfrec_cli.verification.findings import DatasetSummary, FileSummary, Report
from tfrec_cli.verification.run import VerifyOptions, check_staged, verify

__all__ = [
    "DatasetSummary",
    "FileSummary",
    "Finding",
    "Report",
    "VerifyOptions",
    "check_staged",
    "verify",
]
