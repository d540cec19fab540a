"""The run: columns are settled, records decoded in parallel, files written in order and staged."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_values, rows_without_columns
from tfrec_cli.dataset.manifest import SCHEMA, FeatureFacts, manifest_path
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.dataset.occupant import occupant
from tfrec_cli.dataset.recovery import recover
from tfrec_cli.dataset.staging import Stage, staging
from tfrec_cli.errors import (
    DatasetError,
    SchemaError,
    UsageError,
    counted,
    key_text,
    listed,
    shorten,
)
from tfrec_cli.export.columns import Column, NotText, plan_columns
from tfrec_cli.export.options import ExportedFile, ExportOptions, ExportReport, Goal, goal_of
from tfrec_cli.export.pictures import PictureFolder, picture_features, refuse_none
from tfrec_cli.export.tables import dress_of, is_lossless, is_told_apart, open_table
from tfrec_cli.inspection.payload import without_lists
from tfrec_cli.options import Compression
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.reading import FeatureInfo, Part, RecordDataset, open_dataset
from tfrec_cli.reading.features import choose
from tfrec_cli.reading.targets import Target

if TYPE_CHECKING:
    from tfrec_cli.schema import Feature


def export(options: ExportOptions, reporter: Reporter = SILENT) -> ExportReport:
    """Write the records of a dataset as `options` say; return what was written.

    Nothing is at DEST before all of it is, and nothing that is there is replaced. Raises
    DatasetError where there is nothing to read, DEST is taken or a value is not of its column's
    type, UsageError for options that do not go together, DamageError for damaged records.
    """
    goal = goal_of(options)
    if goal.kind != "stdout":
        _refuse_taken(goal)
    dataset = open_dataset(list(options.paths), options.jobs, options.on_error)
    if options.split is not None:
        dataset = dataset.only(options.split)
    run = _Pictures if goal.to == "images" else _Tables
    return run(options, goal, dataset, reporter).report()


def _dest(goal: Goal) -> Dest:
    kind: Any = goal.kind
    return Dest(goal.text, goal.path, kind, "export", Compression())


def _refuse_taken(goal: Goal) -> None:
    dest = _dest(goal)
    recover(dest)
    if occupant(dest).kind not in ("nothing", "empty"):
        raise DatasetError(
            f"{goal.text} is there already, and an export replaces nothing. Choose another DEST, "
            "or remove it."
        )


@contextmanager
def _staged(goal: Goal, options: ExportOptions, dataset: RecordDataset) -> Iterator[Stage]:
    sources = [*options.paths, *(file.path for file in dataset.files)]
    with staging(_dest(goal), False, sources, options.fsync) as stage:
        yield stage
        stage.publish()


class _Tables:
    """An export to Parquet, CSV or JSON lines."""

    def __init__(
        self, options: ExportOptions, goal: Goal, dataset: RecordDataset, reporter: Reporter
    ) -> None:
        self._options, self._goal, self._dataset = options, goal, dataset
        self._reporter = reporter
        self._splits = dataset.splits
        self._skipped = Skipped()
        self._is_told_apart = True
        self._refuse_splits()
        # A look costs time, and most bytes are text; but a stream cannot be begun again.
        self._columns = self._plan(look=goal.kind == "stdout")
        self._refuse_name()

    def report(self) -> ExportReport:
        """Write all of it."""
        self._reporter.stage("export", None)
        try:
            files = self._write()
        except NotText:
            self._columns, self._skipped = self._plan(look=True), Skipped()
            files = self._write()
        shown = tuple((column.name, str(column.type)) for column in self._columns)
        return ExportReport(
            self._goal.text, self._goal.to, files, shown, tuple(self._notices()),
            self._skipped.records,
        )  # fmt: skip

    def _refuse_splits(self) -> None:
        if self._goal.kind == "folder" or len(self._splits) < 2 or self._options.split_column:
            return
        names = ", ".join(name or "none" for name in self._splits)
        raise UsageError(
            f"{self._goal.text} is one file, but the dataset has splits ({names}). Choose one with "
            "--split, add a column that tells them with --split-column NAME, or give a folder as "
            f"DEST with --to {self._goal.to}."
        )

    def _refuse_name(self) -> None:
        name = self._options.split_column
        if name is not None and any(column.name == name for column in self._columns):
            raise UsageError(f"--split-column {name}: there is a feature of this name.")

    def _plan(self, look: bool) -> tuple[Column, ...]:
        """The columns. look: whether to find out which bytes are text, where nothing tells; else
        all are taken for text.
        """
        features, asked = self._dataset.features, self._options.columns
        facts = _facts(self._dataset)
        chosen = choose(list(features.values()), asked)
        if asked is not None:
            chosen = _with_lengths(chosen, facts, features)
        if not chosen and not self._options.split_column:
            raise DatasetError(
                f"{shorten(self._dataset.path, 1000)}: the records have no features, so there is "
                "nothing to write."
            )
        schema: Mapping[str, Feature] = {} if self._options.plain else _schema(self._dataset)
        told = {key for key, feature in schema.items() if feature.arrow is not None}
        unsure = [f for f in chosen if f.kind == "bytes" and f.key not in told]
        binary = not_text(self._dataset, unsure) if look else frozenset()
        columns = plan_columns(chosen, facts, schema, binary, self._options.label_names)
        guesses = {feature.key for feature in unsure} - binary
        columns = tuple(replace(c, is_guess=c.info.key in guesses) for c in columns)
        # As text, a float has the digits that it has, not those that a double would show.
        narrow = self._goal.to != "parquet"
        return tuple(_narrowed(column) for column in columns) if narrow else columns

    def _notices(self) -> Iterator[str]:
        yield from self._skipped.notices()
        if text := without_lists(self._dataset):
            yield text
        encoded = [
            key_text(c.name) for c in self._columns if not is_lossless(self._goal.to, c.type)
        ]
        if encoded:
            yield f"bytes that are no text are written in base64: {listed(encoded, 8)}"
        if not self._is_told_apart:
            yield 'missing values are written as "", as empty text is: the file has one column'

    def _write(self) -> tuple[ExportedFile, ...]:
        goal = self._goal
        if goal.kind == "stdout":
            # The stream is the caller's; only what is written to it is ours.
            with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as stdout:
                return (self._file(stdout, "-", None),)
        with _staged(goal, self._options, self._dataset) as stage:
            if goal.kind == "file":
                name = goal.path.name
                return (self._file(stage.path(name), name, self._options.split),)
            return tuple(self._split_file(stage, split) for split in self._splits)

    def _split_file(self, stage: Stage, split: str | None) -> ExportedFile:
        name = f"{split or _name_of_none(self._splits)}{self._goal.suffix}"
        return self._file(stage.path(name), name, split, self._splits[split])

    def _file(
        self, sink: Any, name: str, split: str | None, files: Sequence[Target] | None = None
    ) -> ExportedFile:
        """Write the records of some files, or of all."""
        goal, records = self._goal, 0
        writer = open_table(sink, goal.to, self._arrow(), goal.suffix.endswith(".gz"))
        try:
            for done in self._dataset.map_parts(self._dressed, self._keys(), files):
                writer.write(done.content)
                records += done.rows
                self._skipped.add(done)
                self._is_told_apart &= done.is_told_apart
                self._reporter.advance(done.rows, done.size)
        finally:
            writer.close()
        size = os.stat(sink).st_size if isinstance(sink, Path) else 0
        return ExportedFile(name, split, records, size)

    def _keys(self) -> list[str] | None:
        """The features to decode; None is all, so that records with others are found out."""
        if self._options.columns is None:
            return None
        return [key for column in self._columns for key in column.keys]

    def _arrow(self) -> pa.Schema:
        fields = [pa.field(column.name, column.type) for column in self._columns]
        if self._options.split_column is not None:
            fields.append(pa.field(self._options.split_column, pa.string()))
        return pa.schema(fields)

    def _dressed(self, part: Part) -> _Dressed:
        """The rows of a part, ready to be written."""
        rows = part.batch.num_rows
        arrays = [column.array(part) for column in self._columns]
        if self._options.split_column is not None:
            arrays.append(_repeated(part.target.split, rows))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._arrow())
        content = dress_of(self._goal.to)(batch if arrays else rows_without_columns(rows))
        told_apart = is_told_apart(self._goal.to, arrays)
        return _Dressed(rows, part.size, content, part.skipped, part.misfit, told_apart)


@dataclass(frozen=True, slots=True)
class _Dressed:
    """Rows ready to be written, the bytes that they were as records, and what a Part says of those
    that were left out. is_told_apart: whether what is missing is not written as empty text is.
    """

    rows: int
    size: int
    content: Any
    skipped: int
    misfit: str
    is_told_apart: bool


@dataclass(slots=True)
class Skipped:
    """How many records were left out, and what is wrong with the first."""

    records: int = 0
    first: str = ""

    def add(self, part: Part | _Dressed) -> None:
        """Count those of a part."""
        self.records += part.skipped
        self.first = self.first or part.misfit

    def notices(self) -> Iterator[str]:
        """A line, where there are any."""
        if self.records:
            yield f"{counted(self.records, 'record')} left out; the first: {self.first}"


def _name_of_none(splits: Mapping[str | None, Any]) -> str:
    """What the records are called that no split is known of, when some have one."""
    names = ("data", "others", *(f"others{number}" for number in range(2, len(splits) + 2)))
    return next(name for name in names if name not in splits)


def _narrowed(column: Column) -> Column:
    is_wide = column.info.kind == "float" and column.leaf == pa.float64()
    return replace(column, leaf=pa.float32()) if is_wide else column


def _repeated(text: str | None, rows: int) -> pa.Array:
    return from_values([text] * rows, pa.string())


def _facts(dataset: RecordDataset) -> dict[str, FeatureFacts]:
    manifest = dataset.manifest
    return {facts.key: facts for facts in manifest.features} if manifest is not None else {}


def _with_lengths(
    chosen: Sequence[FeatureInfo],
    facts: Mapping[str, FeatureFacts],
    features: Mapping[str, FeatureInfo],
) -> list[FeatureInfo]:
    """The features with those that hold their row lengths."""
    found = {one.key: one for one in chosen}
    for one in chosen:
        for key in facts[one.key].row_lengths if one.key in facts else ():
            found.setdefault(key, features[key])
    return list(found.values())


def _schema(dataset: RecordDataset) -> Mapping[str, Feature]:
    """The features in the schema that lies with the dataset; none where it cannot be read, or says
    nothing of what an export goes by: to read it takes a third of the time of a short run.
    """
    home = manifest_path(dataset.owner).parent
    try:
        text = (home / SCHEMA).read_bytes()
    except OSError:
        return {}
    # A key may be written with escapes.
    if not any(word in text for word in (b"arrow", b"default", b"\\")):
        return {}
    from tfrec_cli.schema import load_schema

    try:
        return load_schema(home / SCHEMA).features
    except SchemaError:
        return {}


def not_text(dataset: RecordDataset, features: Sequence[FeatureInfo]) -> frozenset[str]:
    """Those of `features` (of bytes) that hold anything but UTF-8 in any record. Reads them all."""
    found: set[str] = set()

    def look(part: Part) -> None:
        for feature in features:
            if feature.key not in found and not _is_utf8(part.batch.column(feature.name)):
                found.add(feature.key)

    keys = [feature.key for feature in features]
    for _ in dataset.map_parts(look, keys) if keys else ():
        if len(found) == len(keys):
            break
    return frozenset(found)


def _is_utf8(column: pa.Array) -> bool:
    values = column.flatten() if pa.types.is_list(column.type) else column
    try:
        pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        return False
    return True


class _Pictures:
    """An export to image files."""

    def __init__(
        self, options: ExportOptions, goal: Goal, dataset: RecordDataset, reporter: Reporter
    ) -> None:
        for flag, value in (
            ("--columns", options.columns),
            ("--split-column", options.split_column),
        ):
            if value is not None:
                raise UsageError(f"{flag}: pictures have no columns. Leave it out.")
        self._options, self._goal, self._dataset = options, goal, dataset
        self._reporter = reporter
        self._features = picture_features(dataset.path, dataset.features)

    def report(self) -> ExportReport:
        """Write all of it."""
        self._reporter.stage("export", None)
        splits, skipped = self._dataset.splits, Skipped()
        files, notices = [], []
        with _staged(self._goal, self._options, self._dataset) as stage:
            for split, chosen in splits.items():
                name = (split or _name_of_none(splits)) if len(splits) > 1 else ""
                folder = PictureFolder(stage.path(name or "."), self._features)
                for part in self._dataset.parts(
                    self._features.keys, chosen, reporter=self._reporter
                ):
                    folder.write(part)
                    skipped.add(part)
                files.append(ExportedFile(name or ".", split, folder.records, folder.bytes))
                if folder.lacking:
                    notices.append(
                        f"{counted(folder.lacking, 'record')} without a picture left out"
                    )
            refuse_none(self._dataset.path, sum(file.records for file in files))
        notices += skipped.notices()
        return ExportReport(
            self._goal.text, "images", tuple(files), (), tuple(notices), skipped.records
        )
