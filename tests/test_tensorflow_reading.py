"""What TensorFlow writes is read as TensorFlow reads it."""

from __future__ import annotations

import os

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")

import tfrec_cli  # noqa: E402


def feature(kind, values):
    lists = {
        "int64": lambda: tf.train.Feature(int64_list=tf.train.Int64List(value=values)),
        "float": lambda: tf.train.Feature(float_list=tf.train.FloatList(value=values)),
        "bytes": lambda: tf.train.Feature(bytes_list=tf.train.BytesList(value=values)),
    }
    return lists[kind]()


def records():
    """Examples with gaps, lists of any length, and keys in the order that protobuf likes."""
    chance = np.random.default_rng(5)
    for number in range(300):
        features = {
            "id": feature("int64", [number - 150]),
            "big": feature("int64", [int(chance.integers(-(2**63), 2**63 - 1))]),
            "word": feature("bytes", [f"wörd {number % 7}".encode()]),
            "tokens": feature("int64", chance.integers(0, 1 << 20, number % 5).tolist()),
            "vector": feature("float", chance.normal(size=8).tolist()),
            "parts": feature("bytes", [bytes([n]) * n for n in range(number % 4)]),
        }
        if number % 3:
            features["weight"] = feature("float", [number / 7])
        if number % 11 == 0:
            features["nothing"] = tf.train.Feature()
        example = tf.train.Example(features=tf.train.Features(feature=features))
        yield example.SerializeToString(deterministic=bool(number % 2))


SPEC = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "big": tf.io.FixedLenFeature([], tf.int64),
    "word": tf.io.FixedLenFeature([], tf.string),
    "tokens": tf.io.RaggedFeature(tf.int64),
    "vector": tf.io.FixedLenFeature([8], tf.float32),
    "parts": tf.io.RaggedFeature(tf.string),
    "weight": tf.io.FixedLenFeature([], tf.float32, default_value=np.nan),
}


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_the_same_values_as_tensorflow(tmp_path, compression):
    path = str(tmp_path / "data")
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression)) as writer:
        for record in records():
            writer.write(record)
    serialized = list(tf.data.TFRecordDataset(path, compression).as_numpy_iterator())
    expected = tf.io.parse_example(tf.constant(serialized), SPEC)
    opened = tfrec_cli.open_dataset(path)
    assert len(opened) == 300
    assert list(opened.records()) == serialized
    found = {key: [] for key in opened.features}
    for batch in opened.batches():
        for key, column in zip(batch.schema.names, batch.columns, strict=True):
            found[key] += column.to_pylist()
    for key in ("id", "big", "word"):
        assert found[key] == expected[key].numpy().tolist()
    assert np.array(found["vector"], np.float32).tobytes() == expected["vector"].numpy().tobytes()
    assert found["tokens"] == expected["tokens"].to_list()
    assert found["parts"] == expected["parts"].to_list()
    weights = np.array([np.nan if w is None else w for w in found["weight"]], np.float32)
    np.testing.assert_array_equal(weights, expected["weight"].numpy())
    assert found["nothing"] == [None] * 300
