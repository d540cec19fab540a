"""What a dataset is made from, and whether that is still the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tfrec_cli._kernel import crc32c
from tfrec_cli.dataset.manifest import Manifest
from tfrec_cli.errors import shorten
from tfrec_cli.options import ConvertOptions
from tfrec_cli.sources.base import Source

_OPTIONS = (
    "source", "split", "split_exact", "split_by", "stratify", "split_column", "split_seed",
    "shuffle", "seed", "sort_by", "key", "shards", "shard_size", "limit", "on_error",
    "index", "metadata",
)  # fmt: skip
# How messages call what is not called as on the command line.
_WORDS = {"sources": "SOURCE", "source_options": "-O", "schema": "the schema"}


def output_options(options: ConvertOptions) -> dict[str, Any]:
    """The options that the output depends on, as the manifest keeps them.

    sources: as they were given, null for a table in memory. schema: null where it was inferred,
    `file`, or the CRC32C of a mapping. Files are the manifest's `sources`, one by one.
    """
    found = {name: _plain(getattr(options, name)) for name in _OPTIONS}
    found["seed"] = options.seed or 0 if options.shuffle else None
    found["split_seed"] = options.split_seed or 0 if "=" in (options.split or "") else None
    given = options.source_options.items()
    return found | {
        "sources": [item if isinstance(item, str) else None for item in options.sources],
        "source_options": {str(key): _plain(value) for key, value in sorted(given)},
        "schema": _schema(options.schema),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _schema(given: Any) -> Any:
    if given is None:
        return None
    if isinstance(given, Mapping):
        return crc32c(json.dumps(given, sort_keys=True, default=str).encode())
    return "file" if isinstance(given, str) else crc32c(repr(given).encode())


def passes_records_on(source: Source) -> bool:
    """Whether the source's records stand as they are unless a schema is given, so that it matters
    whether one is, whatever it says.
    """
    return source.name == "tfrecord"


def with_schema_of(now: Manifest, before: Manifest) -> Manifest:
    """`now`, where both have one schema: it is no matter whether it was inferred then and is read
    from a file now, or which file that is.
    """
    return replace(now, options={**now.options, "schema": before.options.get("schema")})


def difference(before: Manifest, now: Manifest) -> str:
    """What is not the same of the two besides the files: the part of a sentence, or empty.

    The output depends on nothing else but the content of the files.
    """
    pairs = (
        ("tfrec", before.tfrec.version, now.tfrec.version),
        ("--name", before.name, now.name),
        ("--compression", _compression(before), _compression(now)),
        *_option_pairs(before.options, now.options),
        *_pairs(before.libraries, now.libraries),
    )
    for name, old, new in pairs:
        if old != new:
            return f"{name} was {_shown(old)}, now it is {_shown(new)}"
    return ""


def _option_pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    for key, *pair in _pairs(old, new):
        if key == "schema" and pair[0] != pair[1]:
            pair = [_given_as(schema) for schema in pair]
            if pair[0] == pair[1]:
                pair = ["one", "another"]
        yield _flag(key), *pair


def _given_as(schema: Any) -> str | None:
    """How a schema was given, as `_schema` has it."""
    if schema is None:
        return None
    return "given in a file" if schema == "file" else "given as a mapping"


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    for key in dict.fromkeys((*new, *old)):
        yield key, old.get(key), new.get(key)


def _compression(manifest: Manifest) -> str:
    way = manifest.compression
    return "none" if way.kind == "none" else f"{way.kind}:{way.level} by {way.compressor}"


def _flag(option: str) -> str:
    return _WORDS.get(option) or f"--{option.replace('_', '-')}"


def _shown(value: Any) -> str:
    if value is None or value == [] or value == {} or value is False:
        return "not given"
    if value is True:
        return "given"
    if isinstance(value, list):
        return shorten(", ".join(map(str, value)))
    if isinstance(value, dict):
        return shorten(", ".join(f"{key}={item}" for key, item in value.items()))
    return shorten(str(value))
