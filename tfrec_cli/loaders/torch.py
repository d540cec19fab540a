"""The PyTorch script that reads a dataset back, generated from its manifest."""

from __future__ import annotations

from tfrec_cli.dataset.manifest import Manifest
from tfrec_cli.loaders.parts import arrow_parts

_SCRIPT = '''\
"""Reads the TFRecord dataset {name} with PyTorch. Written by tfrec {version}.

As a module: `from {module} import load`. As a script: prints one batch of each split. Needs torch
and tfrec-cli, which reads plain, GZIP and ZLIB files and looks at each checksum.
"""

import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import tfrec_cli
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

{data}{arrow}

class Ragged(NamedTuple):
    """Lists of any length: all values in a row, and how many each record has."""

    values: torch.Tensor
    lengths: torch.Tensor

    def rows(self):
        """A tensor for each record."""
        return torch.split(self.values, self.lengths.tolist())

    def padded(self, value=0):
        """All records as one tensor, the shorter ones filled up with `value`."""
        return torch.nn.utils.rnn.pad_sequence(self.rows(), batch_first=True, padding_value=value)


def tensors(batch):
    """A pyarrow record batch as a dict: tensors, Ragged, and lists of bytes."""
    found = {{}}
    for key, value in columns(batch).items():
        if isinstance(value, tuple):
            found[key] = Ragged(*map(torch.from_numpy, value))
        else:
            found[key] = value if isinstance(value, list) else torch.from_numpy(value)
    return found

{image}
class Batches(IterableDataset):
    """The batches of one split, shared among the workers of a DataLoader and the processes of
    torch.distributed: whole files where there are enough of them, else every n-th record.

    shuffle: how many records to shuffle among, besides the order of the files; 0 keeps the order.
    Set `epoch` before each epoch to have another order.
    """

    def __init__(self, split, batch_size, shuffle=0, seed=0, dataset=DATASET):
        self.files = sorted(str(p) for name in FILES[split] for p in Path(dataset).glob(name))
        if len(self.files) != SHARDS[split]:
            found = f"{{len(self.files)}} of {{SHARDS[split]}} files match {{FILES[split]}}"
            raise FileNotFoundError(f"{{dataset}}: {{found}}")
        self.batch_size, self.shuffle, self.seed, self.epoch = batch_size, shuffle, seed, 0

    def __iter__(self):
        waiting = []
        draw = np.random.default_rng((self.seed, self.epoch))
        for batch in self._share(draw):
            waiting.append(batch)
            if sum(map(len, waiting)) >= max(self.shuffle, self.batch_size):
                *full, rest = self._cut(waiting, draw)
                yield from map(tensors, full)
                waiting = [rest]
        if waiting:
            yield from (tensors(batch) for batch in self._cut(waiting, draw) if len(batch))

    def _share(self, draw):
        """The records of this worker in this process, as Arrow batches."""
        part, parts = 0, 1
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            part, parts = torch.distributed.get_rank(), torch.distributed.get_world_size()
        if (worker := get_worker_info()) is not None:
            part, parts = part * worker.num_workers + worker.id, parts * worker.num_workers
        files = list(draw.permutation(self.files)) if self.shuffle else self.files
        if len(files) >= parts:
            for file in files[part::parts]:
                yield from self._read(file)
            return
        first = 0
        for file in files:
            for batch in self._read(file):
                start = (part - first) % parts
                first += len(batch)
                yield batch.take(pa.array(range(start, len(batch), parts), pa.int64()))

    def _read(self, file):
        return tfrec_cli.open_dataset(file, jobs=1, features=FEATURES).batches(list(FEATURES))

    def _cut(self, waiting, draw):
        """What waits as batches, shuffled if so; the last one holds what is left over."""
        table = pa.Table.from_batches(waiting).combine_chunks()
        if self.shuffle:
            table = table.take(pa.array(draw.permutation(len(table))))
        (batch,) = table.combine_chunks().to_batches() or [waiting[0]]
        whole = len(batch) - len(batch) % self.batch_size
        cuts = [batch.slice(n, self.batch_size) for n in range(0, whole, self.batch_size)]
        return [*cuts, batch.slice(whole)]


def load(split={split}, batch_size=32, shuffle=0, workers=0, **options):
    """A DataLoader of batches of one split, as dicts; see Batches and `tensors`.

    Each worker ends with a batch of what is left over, so that some batches are smaller.
    """
    batches = Batches(split, batch_size, shuffle, **options)
    return DataLoader(batches, batch_size=None, num_workers=workers)


def describe(value):
    """A value of a batch in a few words."""
    if isinstance(value, list):
        return f"list of {{len(value)}}"
    if isinstance(value, Ragged):
        return f"{{value.values.dtype}} ragged, {{len(value.lengths)}} rows"
    return f"{{value.dtype}} {{list(value.shape)}}"


{program}'''


def torch_script(manifest: Manifest, dataset: str) -> str:
    """A complete Python script that reads `dataset` (a path, written into it) with PyTorch."""
    return _SCRIPT.format(**arrow_parts(manifest, dataset))
