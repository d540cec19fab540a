"""Schema and source brought together: what the records will hold, settled before any is written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.errors import CellError, SchemaError, SourceError, TfrecError
from tfrec_cli.options import ConvertOptions
from tfrec_cli.rowlengths import with_row_lengths
from tfrec_cli.schema.binding import BoundFeature, Missing
from tfrec_cli.schema.feature import Feature
from tfrec_cli.schema.infer import feature_of, infer_schema, row_lengths
from tfrec_cli.schema.labels import count_values, unknown_labels_error, unknown_values
from tfrec_cli.schema.model import Schema
from tfrec_cli.schema.settle import auto_labels, bind, complete, label_files
from tfrec_cli.schema.yaml import dump_schema, load_schema
from tfrec_cli.sources.base import Fingerprint, Needs, Source, Survey, WholeRecords
from tfrec_cli.sources.files import fingerprint
from tfrec_cli.sources.registry import detect, open_source
from tfrec_cli.stages import timed
from tfrec_cli.tasks import Piece, Work, limited_pieces, read_piece


@dataclass(frozen=True, slots=True)
class Settled:
    """A source, what was found in it, and what its records will hold.

    schema: complete, as the dataset keeps it. inferred: whether nobody gave one. notes: what the
    user should know of how columns became features. fingerprints: files that the schema names.
    schema_file: the file that holds it, if one was given.
    """

    source: Source
    survey: Survey
    schema: Schema
    features: tuple[BoundFeature, ...]
    inferred: bool
    notes: tuple[str, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = ()
    schema_file: Fingerprint | None = None

    @property
    def text(self) -> str:
        """The schema as a YAML file; empty where nothing is known of the records."""
        return dump_schema(self.schema) if self.features else ""

    @property
    def records(self) -> WholeRecords | None:
        """Where the source's own records are written as they are."""
        return self.survey.records if self.inferred else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The source's columns that the features need; at least one, so that rows are counted."""
        if self.records is not None:
            return (self.records.column,)
        used = {name for feature in self.features for name in feature.columns}
        found = tuple(c.name for c in self.survey.columns if c.name in used)
        return found or tuple(c.name for c in self.survey.columns[:1])


@dataclass(frozen=True, slots=True)
class Opened:
    """A source, and the schema given for it with its file, if there are any."""

    source: Source
    schema: Schema | None = None
    schema_file: Fingerprint | None = None


@timed("survey", lambda found: sum(file.size for file in found.survey.fingerprints))
def settle(options: ConvertOptions, opened: Opened | None = None) -> Settled:
    """Survey the source, and settle the schema: the given one, or one inferred.

    opened: the source and the schema, where they are known. Raises UsageError, SchemaError and
    SourceError where the two do not fit or cannot be read.
    """
    opened = opened or open_given(options)
    source, given = opened.source, opened.schema
    types = given is None or given.rest == "keep" or _by_columns(options)
    skips = given is not None and options.on_error == "skip"
    try:
        survey = source.survey(Needs(types, options.temp_dir, options.jobs, skips))
    except SourceError as error:
        raise _with_hint(error, options, given) from error
    described = dict(survey.options) | {"name": source.name}
    if survey.records is not None and (options.split is not None or options.split_column):
        unsplit = (replace(partition, split=None) for partition in survey.partitions)
        survey = replace(survey, partitions=tuple(unsplit))
    if given is None and survey.records is not None:
        schema = _schema_of(survey.records, described)
        said = survey.records.as_they_stand
        features = survey.records.features
        return Settled(source, survey, schema, features, True, (said,) if said else ())
    if given is not None and survey.records is not None and survey.records.refused:
        raise SchemaError(
            f"{survey.records.refused}. Without --schema the records are written as they stand."
        )
    if given is None:
        schema, notes = infer_schema(survey.columns, survey.labels, described, _named(options))
    else:
        values = _auto_values(source, survey, auto_labels(given, survey.columns), options)
        given, carried = with_row_lengths(given, survey)
        schema, notes = complete(given, survey.columns, values)
        notes = (*notes, *carried)
        schema = schema.with_source(described)
    features = bind(schema, survey.columns)
    prints = tuple(fingerprint(path) for path in label_files(given)) if given else ()
    return Settled(
        source, survey, schema, features, given is None, notes, prints, opened.schema_file
    )


def open_given(options: ConvertOptions) -> Opened:
    """The source and the schema that the options name, nothing of the source read yet but streams.

    Raises UsageError, SchemaError and SourceError where they cannot be opened.
    """
    file = options.schema if isinstance(options.schema, str | os.PathLike) else None
    # Looked at before it is read: a change in between will be seen.
    print = fingerprint(os.fspath(file)) if file is not None and os.path.exists(file) else None
    given = None if options.schema is None else load_schema(options.schema)
    return Opened(_open(options, given), given, print)


def _with_hint(error: SourceError, options: ConvertOptions, given: Schema | None) -> SourceError:
    """`error`, and that it is the schema that says how the source is read, where it is of another
    kind.
    """
    name = given.source.get("name") if given is not None and options.source is None else None
    if name is None or type(error) is not SourceError:
        return error
    try:
        found = detect(options.sources)
    except TfrecError:
        return error
    if found == name:
        return error
    return SourceError(
        f"{error} The schema's `source:` says that it is {name}; it looks like {found}: say "
        f"--source {found}."
    )


def _schema_of(records: WholeRecords, described: Mapping[str, Any]) -> Schema:
    """The schema by which the features of ready-made records would be written again."""
    features: dict[str, Feature] = {}
    for one in records.features:
        omits = Missing("omit") if one.missing.action == "omit" else None
        arrow = records.arrow.get(one.key) or None
        features[one.key] = feature_of(type=one.type, shape=one.shape, missing=omits, arrow=arrow)
        for key in row_lengths(one.key, one.ragged):
            features[key] = feature_of(type="int64", missing=omits)
    return Schema(source=dict(described), rest="drop" if features else "keep", features=features)


def _by_columns(options: ConvertOptions) -> bool:
    """Whether columns decide on order or split, so that it matters which hold numbers."""
    names = (options.split_by, options.stratify, options.split_column, *options.key)
    return bool(options.sort_by or any(name is not None for name in names))


def _open(options: ConvertOptions, given: Schema | None) -> Source:
    saved = given.source if given else {}
    try:
        return open_source(
            options.sources, options.source, options.source_options, saved, options.temp_dir
        )
    except SchemaError as error:
        place = given.places.at("source") if given else ""
        raise SchemaError(f"{place}{error}") from None


def _named(options: ConvertOptions) -> str:
    """The source in messages."""
    texts = [item if isinstance(item, str) else "the table" for item in options.sources]
    return texts[0] if len(texts) == 1 else f"{texts[0]} and {len(texts) - 1} more"


def _auto_values(
    source: Source, survey: Survey, features: Sequence[BoundFeature], options: ConvertOptions
) -> dict[str, Counter[str]]:
    """The values in the columns of `features`, counted over the rows that are converted."""
    return {f.key: _counts(source, survey, f, options) for f in features}


def _counts(
    source: Source, survey: Survey, feature: BoundFeature, options: ConvertOptions
) -> Counter[str]:
    total: Counter[str] = Counter()
    pieces = limited_pieces(survey.partitions, options.limit)
    for counts in ordered_map(partial(_count_piece, source, feature), pieces, options.jobs):
        total.update(counts)
    return total


def _count_piece(source: Source, feature: BoundFeature, piece: Piece) -> Counter[str]:
    total: Counter[str] = Counter()
    for batch in read_piece(Work(source, (), feature.columns), piece):
        faulty = {fault.row for fault in batch.faults}
        rows = [row for row in range(batch.data.num_rows) if row not in faulty] if faulty else None
        column = batch.data.column(0)
        column = column if rows is None else column.take(pa.array(rows))
        total.update(count_values(column, feature.path, feature.separator, feature.text))
    return total


def explain_unknown_label(error: CellError, settled: Settled, options: ConvertOptions) -> CellError:
    """Where `error` is a value that is no label: one error for all such values. Else itself."""
    reject = error.reject
    for feature in settled.features:
        if feature.labels is None or feature.unknown.action != "error":
            continue
        if feature.columns != (reject.column,) or reject.value in (None, *feature.labels):
            continue
        counts = _counts(settled.source, settled.survey, feature, options)
        unknown = unknown_values(counts, feature.labels)
        if reject.value in unknown:
            first = (reject.where, reject.value)
            return unknown_labels_error(feature.columns[0], unknown, feature.labels, first)
    return error
