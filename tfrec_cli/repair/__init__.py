"""The good records of damaged TFRecord files, and a list of what was lost.

repair(options)      read the files, write what is intact as a dataset, tell what is not
"""

from __future__ import annotations

from tfrec_cli.repair.losses import FileOutcome, Loss, RepairReport
from tfrec_cli.repair.run import RepairOptions, repair

__all__ = ["FileOutcome", "Loss", "RepairOptions", "RepairReport", "repair"]
