"""Which source reads an input, and with which options.

Sources are found through the entry point group `tfrec_cli.sources`; only the one that is needed is
imported. `SUFFIXES` and `BUILT_IN` say what the built-in ones take and where they are, so that
choosing among them imports none, and opening one does not look through all installed packages.
"""

from __future__ import annotations

import glob
import importlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticUndefined

from tfrec_cli.errors import SchemaError, SourceError, UsageError, did_you_mean, first_line
from tfrec_cli.sources.base import Source
from tfrec_cli.sources.files import (
    display,
    expand_inputs,
    fingerprint,
    has_suffix,
    some,
    unreadable,
    walk,
)
from tfrec_cli.sources.magic import PARQUET, compression_of
from tfrec_cli.sources.spools import Spools
from tfrec_cli.sources.streams import settle_streams
from tfrec_cli.sources.suffixes import (
    CSV_SUFFIXES,
    IMAGE_SUFFIXES,
    PARQUET_SUFFIXES,
    TFRECORD_SUFFIXES,
    TSV_SUFFIXES,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tfrec_cli.sources"
SUFFIXES: dict[str, tuple[str, ...]] = {
    "csv": (*CSV_SUFFIXES, *TSV_SUFFIXES),
    "parquet": PARQUET_SUFFIXES,
    "images": IMAGE_SUFFIXES,
    "table": (),
    "boxes": (),
    "tfrecord": TFRECORD_SUFFIXES,
}
_ATTRIBUTES = ("name", "summary", "suffixes", "Options")
BUILT_IN = {
    "csv": "tfrec_cli.sources.csv:CsvSource",
    "parquet": "tfrec_cli.sources.parquet:ParquetSource",
    "images": "tfrec_cli.sources.images:ImagesSource",
    "table": "tfrec_cli.sources.table:TableSource",
    "boxes": "tfrec_cli.sources.boxes:BoxesSource",
    "tfrecord": "tfrec_cli.sources.tfrecord:TFRecordSource",
}


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """One option of a source. type: its values in words, such as `auto|off`. default: as it
    would be typed, None where there is none.
    """

    name: str
    type: str
    default: str | None
    description: str


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """One installed source. package: the distribution that brings it."""

    name: str
    summary: str
    suffixes: tuple[str, ...]
    options: tuple[OptionInfo, ...]
    package: str


def open_source(
    inputs: Sequence[Any],
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    saved: Mapping[str, Any] | None = None,
    temp_dir: str | None = None,
) -> Source:
    """The source that reads `inputs`, chosen by name, or by what the inputs are.

    inputs: paths, patterns, folders, `-`, or tables in memory; not mixed. name: of an installed
    source. options: as `-O` gives them. saved: the `source:` section of a schema file, with
    `name` or without; its options count only for the source it was written for, and `options` go
    before them. temp_dir: where standard input is copied; the copy goes when the source does.
    Raises UsageError for unknown names, options and values, SourceError for missing inputs.
    """
    if not inputs:
        raise UsageError(
            "no source is given. Name files, folders, patterns, or - (standard input)."
        )
    spools = Spools(temp_dir)
    settled = _settle(inputs, spools)
    known = dict(saved or {})
    saved_name = known.pop("name", None)
    tables = not isinstance(settled[0], str)
    chosen = "table" if tables else name or saved_name or _detect(settled)
    source = _load(chosen)
    fits = saved_name in (None, chosen)
    opened: Source = source(settled, _options(source, options or {}, known if fits else {}))
    spools.live_for(opened)
    return opened


def detect(inputs: Sequence[Any]) -> str:
    """The name of the source that reads `inputs` (paths, patterns, folders) when nobody says
    another. Raises UsageError and SourceError where nothing tells.
    """
    return _detect([os.fspath(item) for item in inputs])


def list_sources() -> list[SourceInfo]:
    """All installed sources by name; one that cannot be imported says so in its summary."""
    return [_info(point) for _, point in sorted(_points().items())]


def _points() -> dict[str, EntryPoint]:
    """Entry points by name. The built-in ones cannot be replaced by accident."""
    from importlib.metadata import entry_points

    found = {point.name: point for point in entry_points(group=GROUP)}
    own = {p.name: p for p in entry_points(group=GROUP) if p.value.startswith("tfrec_cli.")}
    return found | own


def _load(name: str) -> Any:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    points = _points()
    if name not in points:
        raise UsageError(
            f'--source: there is no source "{name}".{did_you_mean(name, points)} '
            f"Installed: {', '.join(sorted(points))}."
        )
    return _load_foreign(points[name])


def _load_foreign(point: EntryPoint) -> Any:
    """The class that a plugin brings. Raises UsageError naming one that is broken."""
    named = f'source "{point.name}" ({point.value})'
    try:
        source = point.load()
    except Exception as error:
        # A plugin is foreign code: whatever its import raises must name it.
        raise UsageError(f"{named} cannot be imported: {first_line(error)}.") from error
    if lacking := [name for name in _ATTRIBUTES if not hasattr(source, name)]:
        raise UsageError(f"{named} is no source adapter: it has no {', '.join(lacking)}.")
    if not (isinstance(source.Options, type) and issubclass(source.Options, BaseModel)):
        raise UsageError(f"{named} is no source adapter: its Options are no pydantic model.")
    return source


def _settle(inputs: Sequence[Any], spools: Spools) -> list[Any]:
    paths = [os.fsdecode(i) for i in inputs if isinstance(i, (str, bytes, os.PathLike))]
    if len(paths) == len(inputs):
        return settle_streams(paths, spools)
    from tfrec_cli.sources.table import refuse_mixture

    refuse_mixture(inputs)
    return list(inputs)


def _detect(inputs: Sequence[str]) -> str:
    """The one source whose kind of files all `inputs` are."""
    first: dict[str, str] = {}
    for item in inputs:
        first.setdefault(_detect_one(item), item)
    if len(first) > 1:
        kinds = " and ".join(f"{display(item)} ({kind})" for kind, item in first.items())
        pictured = (
            "images" in first and len(first) == 2 and not {"csv", "parquet"}.isdisjoint(first)
        )
        boxes = " (boxes, where the table has boxes in these pictures)" if pictured else ""
        raise SourceError(
            f"the inputs are of several kinds: {kinds}. Convert them apart, or choose by "
            f"--source{boxes}."
        )
    return next(iter(first))


def _detect_one(item: str) -> str:
    if os.path.isdir(item):
        return _by_files(item, walk(item).files)
    if not os.path.lexists(item) and glob.has_magic(item):
        files = expand_inputs([item], _all_suffixes()).files
        contents = {_by_suffix(path) or _by_content(path) for path in files}
        kind = next(iter(contents))
        return kind if len(contents) == 1 and kind is not None else _by_files(item, files)
    fingerprint(item)
    found = _by_suffix(item) or _by_content(item)
    if found is None:
        raise UsageError(
            f"{display(item)}: neither its ending nor its content tells which source reads it. "
            f"Choose with --source: {', '.join(sorted(_points()))}.{_broken_ones()}"
        )
    return found


def _by_files(place: str, paths: Iterable[str]) -> str:
    paths = list(paths)
    kinds = Counter(kind for path in paths if (kind := _by_suffix(path)))
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds:
        listed = " and ".join(f"{number:,} for {kind}" for kind, number in kinds.most_common())
        raise SourceError(
            f"{display(place)}: holds files of several kinds: {listed}. Choose with "
            f"{' or '.join(f'--source {kind}' for kind in kinds)}."
        )
    held = some(paths) if paths else "nothing"
    raise SourceError(
        f"{display(place)}: holds no file that an installed source takes; found {held}. "
        f"Check the folder, or choose with --source.{_broken_ones()}"
    )


def _broken_ones() -> str:
    """Words on the plugins that were passed over, one of which may have been wanted."""
    return "".join(f" Passed over: {reason}" for reason in _foreign().broken)


def _by_suffix(path: str) -> str | None:
    name = os.path.basename(path).lower()
    # What tells is behind the first dot, unless it is a number among others.
    ending = name if "-of-" in name else name[max(0, name.find(".")) :]
    return _built_in(ending) or next(
        (kind for kind, suffixes in _foreign().suffixes.items() if has_suffix(name, suffixes)), None
    )


@lru_cache
def _built_in(name: str) -> str | None:
    return next((kind for kind, suffixes in SUFFIXES.items() if has_suffix(name, suffixes)), None)


def _all_suffixes() -> tuple[str, ...]:
    known = [*SUFFIXES.values(), *_foreign().suffixes.values()]
    return tuple(suffix for suffixes in known for suffix in suffixes)


@dataclass(frozen=True, slots=True)
class _Foreign:
    """The sources that are not built in: what they take, and why some of them cannot be used."""

    suffixes: Mapping[str, tuple[str, ...]]
    broken: tuple[str, ...]


@cache
def _foreign() -> _Foreign:
    """Looked for once a process: it means to search all installed packages.

    A broken plugin is passed over. It fails those who ask for it, not everybody.
    """
    suffixes: dict[str, tuple[str, ...]] = {}
    broken: list[str] = []
    for name, point in sorted(_points().items()):
        if name not in SUFFIXES:
            try:
                suffixes[name] = tuple(_load_foreign(point).suffixes)
            except UsageError as error:
                broken.append(str(error))
    return _Foreign(suffixes, tuple(broken))


def _by_content(path: str) -> str | None:
    """The source for a file by its first bytes: Parquet, TFRecord (plain or compressed), an image,
    compressed text, text.
    """
    from tfrec_cli.sources.foreign import holds_records
    from tfrec_cli.sources.imageheader import image_format

    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise unreadable(path, error) from error
    if head.startswith(PARQUET):
        return "parquet"
    if holds_records(head):
        return "tfrecord"
    if image_format(head[:32]):
        return "images"
    if compression_of(head):
        return "csv"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or (head and b"\0" not in head):
        return "csv"
    return None


def _options(source: type[Any], given: Mapping[str, Any], saved: Mapping[str, Any]) -> BaseModel:
    model: type[BaseModel] = source.Options
    asked = {key.replace("-", "_"): value for key, value in given.items()}
    _refuse_unknown(source, asked, "-O ", UsageError)
    _refuse_unknown(source, saved, "source: ", SchemaError)
    try:
        return model.model_validate({**saved, **asked})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        by_user = key in asked or not key
        where = f"-O {key}={asked[key]}" if key in asked else f"source options {key}".strip()
        kind = UsageError if by_user else SchemaError
        raise kind(f"{where}: {_reason(first)} {_about(model, key)}".rstrip()) from error


def _reason(error: Any) -> str:
    text = str(error["msg"]).removeprefix("Value error, ").rstrip(".")
    if error["type"].startswith("bool"):
        text = "it is neither true nor false"
    return f"{text[:1].lower()}{text[1:]}."


def _about(model: type[BaseModel], key: str) -> str:
    field = model.model_fields.get(key)
    return "" if field is None else _sentence(field.description or "")


def _refuse_unknown(
    source: type[Any], keys: Iterable[str], where: str, kind: type[UsageError]
) -> None:
    known = sorted(source.Options.model_fields)
    for key in keys:
        if key not in known:
            listed = f"It has: {', '.join(known)}." if known else "It has none."
            raise kind(
                f"{where}{key}: the source {source.name} has no such option."
                f"{did_you_mean(key, known)} {listed}"
            )


def _info(point: EntryPoint) -> SourceInfo:
    package = point.dist.name if point.dist else ""
    try:
        source = _load(point.name)
    except UsageError as error:
        return SourceInfo(point.name, str(error), (), (), package)
    fields = source.Options.model_fields.items()
    options = tuple(_option(key, field) for key, field in fields)
    return SourceInfo(
        point.name, _sentence(source.summary), tuple(source.suffixes), options, package
    )


def _option(key: str, field: Any) -> OptionInfo:
    default = field.get_default(call_default_factory=True)
    nothing = default is None or default is PydanticUndefined
    text = _sentence(field.description or "")
    return OptionInfo(key, _spell(field.annotation), None if nothing else _typed(default), text)


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _typed(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return str(value)


def _spell(annotation: Any) -> str:
    """An annotation as values a user can type."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "|".join(map(str, args))
    if origin in (Union, UnionType):
        return "|".join(_spell(arg) for arg in args if arg is not NoneType)
    if origin in (tuple, list, Sequence):
        return f"{_spell(args[0])},…"
    names = {str: "text", int: "number", float: "number", bool: "true|false"}
    return names.get(annotation, getattr(annotation, "__name__", "text"))
