"""What a record holds: the schema, where it comes from, and how it is tied to a source.

load_schema, parse_schema    a schema file (or mapping) → Schema
infer_schema                 surveyed columns → Schema and notes
complete                     nothing left to find out: label names, `rest: keep`
bind                         Schema and columns → the BoundFeatures that casting needs
dump_schema                  Schema → the text of a file that reads back equal
json_schema                  the JSON Schema of schema files, for editors
"""

from __future__ import annotations

from tfrec_cli.schema.arrowtypes import parse_type, spell_type
from tfrec_cli.schema.binding import BoundFeature, FeatureType, Missing
from tfrec_cli.schema.feature import Feature
from tfrec_cli.schema.grammar import TextRules
from tfrec_cli.schema.infer import ColumnFacts, LabelFacts, infer_schema, row_lengths, time_unit
from tfrec_cli.schema.labels import (
    count_values,
    label_file_text,
    read_label_file,
    sort_labels,
    unknown_labels_error,
    unknown_values,
)
from tfrec_cli.schema.model import Schema, json_schema
from tfrec_cli.schema.settle import auto_labels, bind, complete, label_files
from tfrec_cli.schema.yaml import dump_schema, load_schema, parse_schema

__all__ = [
    "BoundFeature",
    "ColumnFacts",
    "Feature",
    "FeatureType",
    "LabelFacts",
    "Missing",
    "Schema",
    "TextRules",
    "auto_labels",
    "bind",
    "complete",
    "count_values",
    "dump_schema",
    "infer_schema",
    "json_schema",
    "label_file_text",
    "label_files",
    "load_schema",
    "parse_schema",
    "parse_type",
    "read_label_file",
    "row_lengths",
    "sort_labels",
    "spell_type",
    "time_unit",
    "unknown_labels_error",
    "unknown_values",
]
