"""How fast a dataset is read, and what would make that faster.

measure(options)     rates of tfrec's reader and of tf.data, with what they say
"""

from __future__ import annotations

from tfrec_cli.throughput.measurement import Benchmark, BenchOptions, measure
from tfrec_cli.throughput.rates import Rate

__all__ = ["BenchOptions", "Benchmark", "Rate", "measure"]
