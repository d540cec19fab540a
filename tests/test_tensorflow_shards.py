"""TensorFlow reads every record of every kind of shard."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.options import Compression
from tfrec_cli.records.framing import frame

tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("level", [0, 6])
@pytest.mark.parametrize("kind", ["none", "gzip", "zlib"])
def test_records_over_many_blocks_are_all_read(tmp_path, kind, level, count):
    compression = Compression(kind, level)
    source = random.Random(count)
    records = [source.randbytes(1 << 10) * (3 << 10) for _ in range(count)]
    path = tmp_path / "shard"
    with ThreadPoolExecutor(2) as pool, ShardWriter(path, compression, pool) as writer:
        for record in records:
            writer.write(frame(record), 1)
    dataset = tf.data.TFRecordDataset(str(path), compression_type=compression.tensorflow)
    assert [record.numpy() for record in dataset] == records
