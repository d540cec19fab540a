"""Reading datasets: what a path names, what its records hold, and their values as Arrow batches.

open_dataset(path)   one dataset, to ask for its features and read its records
"""

from __future__ import annotations

from tfrec_cli.reading.dataset import RecordDataset, open_dataset, open_datasets
from tfrec_cli.reading.decoder import Part
from tfrec_cli.reading.features import FeatureInfo

__all__ = ["FeatureInfo", "Part", "RecordDataset", "open_dataset", "open_datasets"]
