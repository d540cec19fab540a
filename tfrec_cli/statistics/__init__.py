"""Statistics of the features of a dataset: one pass, on all processors, in bounded memory.

statistics(dataset, columns)   each feature in each split, and what differs between splits
"""

from __future__ import annotations

from tfrec_cli.statistics.run import Statistics, statistics

__all__ = ["Statistics", "statistics"]
