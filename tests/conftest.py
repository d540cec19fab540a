"""Helpers that several test files share."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tfrec_cli import _kernel
from tfrec_cli.errors import UsageError

# Speed is measured elsewhere; a busy machine must not fail a test. Inputs are the same each run.
settings.register_profile(
    "tfrec", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tfrec")

REPOSITORY = Path(__file__).resolve().parent.parent
# Commands in shells and Makefiles are those of this environment, whether it is active or not.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
EXAMPLES = REPOSITORY / "examples"


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy of examples/ to write in."""
    ignore = shutil.ignore_patterns("out", "plugin")
    return Path(shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=ignore))


@pytest.fixture
def plain_user() -> Iterator[Path]:
    """A folder to write in, with no more rights than a user has, even where root runs the tests."""
    with tempfile.TemporaryDirectory() as folder:
        root = os.geteuid() == 0
        os.chmod(folder, 0o777)
        if root:
            os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            if root:
                os.seteuid(0)


def body_or_skip(name: str) -> Any:
    """The kernel's body `name`; skips the test where it was not built, unless the environment
    says by TFREC_EXPECT_NATIVE that it must have been.
    """
    try:
        return _kernel._load(name)[1]
    except UsageError:
        if os.environ.get("TFREC_EXPECT_NATIVE"):
            raise
        pytest.skip("the native kernel was not built here")


def package_or_skip(package: str) -> None:
    """Skip the test where a package of the extra `interop` is not installed, unless the environment
    says by TFREC_EXPECT_INTEROP that it must be.
    """
    if importlib.util.find_spec(package) is None and not os.environ.get("TFREC_EXPECT_INTEROP"):
        pytest.skip(f"the package {package} is not installed here")


def run_with(package: str, script: str, *args: str | Path, cwd: Path | None = None) -> str:
    """What a Python script prints that uses a package of the extra `interop`.

    It is a process of its own, since some of these packages and TensorFlow cannot be in one.
    """
    package_or_skip(package)
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, args)],
        cwd=cwd,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def csv_files(folder: Path, rows: int = 300, number: int = 3) -> list[str]:
    """CSV files part-0.csv, … of `rows` rows each, with texts of different lengths: their paths."""
    paths = []
    for at in range(number):
        path = folder / f"part-{at}.csv"
        numbers = range(at * rows, (at + 1) * rows)
        lines = (f"{n},{'w' * (n % 13)}{n},{n % 4}\n" for n in numbers)
        path.write_text("n,text,c\n" + "".join(lines))
        paths.append(str(path))
    return paths


def content(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their paths in it."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def shard_paths(dest: str | Path) -> list[str]:
    """The shards of a dataset in the order of their names, or the one file that it is."""
    dest = Path(dest)
    return [str(dest)] if dest.is_file() else sorted(map(str, dest.glob("*.tfrecord-*")))


def compression_of(path: str | Path) -> str:
    """TensorFlow's word for the compression that the file's name promises."""
    return {".gz": "GZIP", ".zz": "ZLIB"}.get(Path(path).suffix, "")


def read_records(dest: str | Path) -> list[bytes]:
    """All records of a dataset through tf.data, serialized."""
    import tensorflow as tf

    paths = shard_paths(dest)
    dataset = tf.data.TFRecordDataset(paths, compression_of(paths[0]))
    return list(dataset.as_numpy_iterator())


def read_examples(dest: str | Path) -> list[dict[str, list[Any]]]:
    """All records of a dataset: feature to values, absent keys absent."""
    import tensorflow as tf

    examples = map(tf.train.Example.FromString, read_records(dest))
    return [{k: values_of(f) for k, f in e.features.feature.items()} for e in examples]


def values_of(feature: Any) -> list[Any]:
    """The values of one feature; it must have a kind, even where its list is empty."""
    kind = feature.WhichOneof("kind")
    assert kind is not None, "a feature without a kind"
    return list(getattr(feature, kind).value)


def parse_examples(dest: str | Path, spec: dict[str, Any]) -> dict[str, Any]:
    """All records of a dataset through tf.io.parse_example, as one batch."""
    import tensorflow as tf

    return dict(tf.io.parse_example(tf.constant(read_records(dest), tf.string), spec))


def read_manifest(dest: str | Path) -> dict[str, Any]:
    """The manifest of a dataset folder as it lies on disk."""
    manifest: dict[str, Any] = json.loads((Path(dest) / "manifest.json").read_text("utf-8"))
    return manifest
