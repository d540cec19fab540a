"""What the scripts of all frameworks are made of."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Literal

from tfrec_cli import __version__
from tfrec_cli.dataset.manifest import FeatureFacts, Manifest
from tfrec_cli.errors import DatasetError

Framework = Literal["tf", "torch", "grain"]

_DATA = """\
DATASET = Path({path})
FILES = {{  # patterns, or names
{files}
}}
SHARDS = {{  # how many files match
{shards}
}}
RECORDS = {{
{records}
}}
"""

_PROGRAM = """\
if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else DATASET
    for split in FILES:
        print(f"{split}: {RECORDS[split]} records")
        if RECORDS[split]:
            for key, value in next(iter(load(split, dataset=place))).items():
                print(f"  {key}: {describe(value)}")
"""

_LABELS = """
# What the numbers of a label feature mean: LABELS[key][number].
LABELS = {{
{labels}
}}
"""

_ARROW = '''
FEATURES = {{  # key: (type, shape, may be missing); the shape of a list of any length is None
{features}
}}
MISSING = {{"int64": 0, "float": float("nan"), "bytes": b""}}  # stands where a value is missing
DTYPES = {{"int64": np.int64, "float": np.float32}}
{labels}

def columns(batch):
    """The features of a pyarrow record batch: numpy arrays of numbers, lists of bytes.

    A list of any length is a pair: all values in a row, and how many each record has. Of a feature
    that may be missing, KEY + "/present" tells which records have it.
    """
    found = {{}}
    for (key, (kind, shape, optional)), column in zip(FEATURES.items(), batch.columns):
        present = np.array(column.is_valid())
        if shape == ():
            values = column.fill_null(MISSING[kind])
            found[key] = values.to_pylist() if kind == "bytes" else np.array(values, DTYPES[kind])
        elif kind == "bytes":
            blank = [] if shape is None else [b""] * math.prod(shape)
            found[key] = [blank if row is None else row for row in column.to_pylist()]
        elif shape is None:
            lengths = np.array(column.value_lengths().fill_null(0), np.int64)
            found[key] = np.array(column.flatten(), DTYPES[kind]), lengths
        else:
            values = np.full((len(column), math.prod(shape)), MISSING[kind], DTYPES[kind])
            values[present] = np.array(column.flatten()).reshape(-1, values.shape[1])
            found[key] = values.reshape(len(column), *shape)
        if optional:
            found[key + "/present"] = present
    return found
'''

_IMAGE = '''
def decode(data):
    """The bytes of an image file as an array of shape [height, width, 3], uint8."""
    import io

    from PIL import Image

    return np.array(Image.open(io.BytesIO(data)).convert("RGB"))

'''


def common(manifest: Manifest, dataset: str) -> dict[str, str]:
    """The parts of a script that do not depend on the framework, by their names in its text.

    What a manifest or a file name says reaches the code as Python literals alone. Raises
    DatasetError where the dataset has no shards.
    """
    splits = [split for split in manifest.splits if split.shards]
    if not splits:
        raise DatasetError(f"{dataset}: the manifest names no shards, so there is nothing to read.")
    home = Path(dataset)
    home = home.parent if home.is_file() else home
    data = _DATA.format(
        path=repr(str(home)),
        files=entries(
            {s.name: _listed(file_patterns([f.name for f in s.shards], home)) for s in splits}
        ),
        shards=entries({s.name: str(len(s.shards)) for s in splits}),
        records=entries({s.name: str(s.records) for s in splits}),
    )
    return {
        "name": re.sub(r"\W", "_", manifest.name),
        "version": __version__,
        "module": "load",
        "data": data,
        "labels": _labels(manifest),
        "split": repr(splits[0].name),
        "program": _PROGRAM,
    }


def arrow_parts(manifest: Manifest, dataset: str) -> dict[str, str]:
    """As `common`, for scripts that make numpy arrays of Arrow batches: with the code of that."""
    parts = common(manifest, dataset)
    is_image = any(facts.key == "image/encoded" for facts in manifest.features)
    image = _IMAGE if is_image else ""
    return parts | {"arrow": _arrow(manifest, parts.pop("labels")), "image": image}


def _arrow(manifest: Manifest, labels: str) -> str:
    features = {}
    for facts in manifest.features:
        optional = facts.missing == "omit"
        shape = None if facts.ragged else facts.shape or ()
        features[facts.key] = repr((facts.type, shape, optional))
        features |= {key: repr(("int64", None, optional)) for key in facts.row_lengths}
    return _ARROW.format(features=entries(features), labels=labels)


def entries(values: Mapping[str, str]) -> str:
    """The lines of a dict."""
    return "\n".join(f"    {key!r}: {value}," for key, value in values.items())


def file_patterns(names: Sequence[str], home: Path) -> list[str]:
    """Patterns that find the files of a split in the folder `home`, and no others: one for what the
    names have in common, or each name where that is too little.
    """
    pattern = _pattern(names)
    if pattern is None or any(n not in names for n in _entries(home) if fnmatchcase(n, pattern)):
        return [_literal(name) for name in names]
    return [pattern]


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _pattern(names: Sequence[str]) -> str | None:
    """That of all siblings for `train.tfrecord-00000-of-00010.gz` and others; a single name as it
    is; None where names begin in different ways, so that others in the folder may match tomorrow.
    """
    if len(names) == 1:
        return _literal(names[0])
    head, marker, tail = names[0].partition("-00000-of-")
    siblings = f"{head}-[0-9]*-of-{tail}"
    if marker and all(fnmatchcase(name, siblings) for name in names):
        return siblings
    start = _common_start(names)
    end = _common_start([name[len(start) :][::-1] for name in names])[::-1]
    return f"{_literal(start)}*{_literal(end)}" if start else None


def _listed(patterns: Sequence[str]) -> str:
    """The code of a list, a line for each of several."""
    if len(patterns) == 1:
        return repr(list(patterns))
    return "".join(["[\n", *(f"        {pattern!r},\n" for pattern in patterns), "    ]"])


def _common_start(names: Sequence[str]) -> str:
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in same)


def _literal(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _labels(manifest: Manifest) -> str:
    named = {f.key: _names(f, f.labels) for f in manifest.features if f.labels is not None}
    return _LABELS.format(labels=entries(named)) if named else ""


def _names(feature: FeatureFacts, labels: tuple[str, ...]) -> str:
    """A list where the numbers are positions, else a dict."""
    first = feature.first_label
    return repr(dict(enumerate(labels, first)) if first else list(labels))
