"""One feature of a schema file, checked in itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tfrec_cli.errors import did_you_mean
from tfrec_cli.schema.binding import FeatureType, Missing
from tfrec_cli.schema.fields import (
    TYPE_ALIASES,
    TYPES,
    ArrowName,
    Constant,
    FirstLabel,
    KeyFault,
    MissingRule,
    Name,
    Names,
    NullItemRule,
    Shape,
    describe,
)
from tfrec_cli.schema.labels import label_fault


class Feature(BaseModel):
    """What one feature of the record holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: Name | None = Field(
        default=None,
        description="The column it is made of (default: the feature's name); parent/child "
        "names the child of a struct column.",
    )
    columns: Names | None = Field(
        default=None,
        description="Several columns that make one vector: a list, or a glob such as "
        '"pixel*", in the order of the source.'
    )  # fmt: skip
    constant: Constant | None = Field(default=None, description="The same value in every record.")
    type: FeatureType = Field(description="The type in the record: int64, float or bytes.")
    labels: Names | None = Field(
        default=None,
        description="Class names, numbered from 0: a list, a file with one name a line "
        "(relative to this schema), or auto for the sorted values of the column.",
    )
    first_label: FirstLabel | None = Field(
        default=None,
        description="The number of the first label (default: 0). Object detection counts from "
        "1, as 0 is the background.",
    )
    unknown: MissingRule | None = Field(
        default=None,
        description="A value that is not among the labels: an error (the default), the "
        "feature left out, or a default.",
    )
    load: Literal["file"] | None = Field(
        default=None,
        description="The cell names a file; the feature holds the bytes of that file.",
    )
    root: Name | None = Field(
        default=None,
        description="With load: the folder that relative file names start from, itself relative "
        "to this schema (default: the folder of the table).",
    )
    shape: Shape | None = Field(
        default=None,
        description="The fixed shape of a list. A row of another length is an error.",
    )
    separator: Name | None = Field(
        default=None,
        description="Splits a text cell into the items of a list.",
    )
    time: Literal["iso8601"] | None = Field(
        default=None,
        description="Write a time as ISO 8601 text instead of a count of its unit.",
    )
    missing: MissingRule | None = Field(
        default=None,
        description="A row without a value: an error (the default), the feature left out "
        "of the record, or a default.",
    )
    null_item: NullItemRule | None = Field(
        default=None,
        description="A null inside a list: an error (the default), dropped, or a default.",
    )
    arrow: ArrowName | None = Field(
        default=None,
        description="The Arrow type the column had, for export; nothing else reads it.",
    )

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"type": data}
        if isinstance(data, Feature):
            return data
        if not isinstance(data, Mapping):
            raise ValueError(
                f"found {describe(data)}, expected a type (int64, float or bytes) or a mapping"
            )
        for key, value in data.items():
            if value is None and key in cls.model_fields:
                raise KeyFault(str(key), "has no value; give one or take the key out")
        implied = _implied_type(data)
        return {"type": implied, **data} if implied else data

    @field_validator("type", mode="before")
    @classmethod
    def _type_name(cls, value: Any) -> Any:
        if value in TYPES:
            return value
        word = value if isinstance(value, str) else str(value)
        alias = TYPE_ALIASES.get(word.lower())
        hint = f' Did you mean "{alias}"?' if alias else did_you_mean(word, TYPES)
        raise ValueError(f"{describe(value)} is not int64, float or bytes.{hint}")

    @model_validator(mode="after")
    def _consistent(self) -> Feature:
        _check_origin(self)
        _check_labels(self)
        _check_readings(self)
        _check_values(self)
        return self

    def entries(self) -> dict[str, Any]:
        """The feature as a schema file says it: the keys that were given, in a fixed order."""
        given = {key: getattr(self, key) for key in type(self).model_fields}
        return {key: _as_said(key, value) for key, value in given.items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        full = handler.resolve_ref_schema(handler(core_schema))
        full.pop("required", None)
        for name, entry in full["properties"].items():
            _strip_null(entry, name)
        shorthand = {"enum": list(TYPES), "description": "Shorthand for {type: …}."}
        return {"title": full.pop("title"), "anyOf": [shorthand, dict(full)]}


def _as_said(key: str, value: Any) -> Any:
    if isinstance(value, Missing):
        if value.action == "default":
            return {"default": _as_said(key, value.default)}
        return "drop" if (key, value.action) == ("null_item", "omit") else value.action
    return list(value) if isinstance(value, tuple) else value


def _strip_null(entry: dict[str, Any], name: str) -> None:
    """Write a JSON Schema property without the null that None adds: a file cannot say it."""
    choices = [c for c in entry.pop("anyOf", []) if c != {"type": "null"}]
    entry.update(choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})
    entry.pop("default", None)
    entry["title"] = name


def _implied_type(data: Mapping[Any, Any]) -> str | None:
    if "labels" in data:
        return "int64"
    if "load" in data or "time" in data:
        return "bytes"
    first = data.get("constant")
    if isinstance(first, (list, tuple)) and first:
        first = 0.5 if any(isinstance(item, float) for item in first) else first[0]
    return {int: "int64", float: "float", str: "bytes"}.get(type(first))


def _check_origin(feature: Feature) -> None:
    given = [k for k in ("column", "columns", "constant") if getattr(feature, k) is not None]
    if len(given) > 1:
        raise KeyFault(given[1], f"stands beside {given[0]}; a feature is made of one of them")
    if feature.columns == ():
        raise KeyFault("columns", "is empty; name the columns of the vector")
    if feature.constant == ():
        raise KeyFault("constant", "is an empty list; give it values or take the feature out")
    clashes = {
        "constant": ("labels", "load", "separator", "time", "missing", "null_item"),
        "columns": ("load", "separator", "time"),
    }
    for key in clashes.get(given[0], ()) if given else ():
        if getattr(feature, key) is not None:
            raise KeyFault(key, f"has no meaning beside {given[0]}")


def _check_labels(feature: Feature) -> None:
    if feature.labels is None:
        for key in ("unknown", "first_label"):
            if getattr(feature, key) is not None:
                raise KeyFault(key, "has no meaning without labels")
        return
    if feature.type != "int64":
        raise KeyFault("type", f"is {feature.type}, but labels are numbers: write int64")
    if isinstance(feature.labels, tuple) and (fault := label_fault(feature.labels)):
        raise KeyFault("labels", fault)


def _check_readings(feature: Feature) -> None:
    if feature.root is not None and feature.load is None:
        raise KeyFault("root", "has no meaning without load: file")
    readings = [k for k in ("load", "separator", "time") if getattr(feature, k) is not None]
    if len(readings) > 1:
        raise KeyFault(readings[1], f"cannot stand beside {readings[0]}")
    if feature.separator == "":
        raise KeyFault("separator", "is empty; give the text between two items")
    for key in ("load", "time"):
        if getattr(feature, key) is not None and feature.type != "bytes":
            raise KeyFault("type", f"is {feature.type}, but {key} gives bytes")
    for key in ("labels", "shape", "null_item"):
        if feature.load is not None and getattr(feature, key) is not None:
            raise KeyFault(key, "has no meaning beside load")
    if feature.labels == "auto" and feature.columns is not None:
        raise KeyFault("labels", "are auto, which takes one column; list the names")
    if feature.labels is not None and feature.time is not None:
        raise KeyFault("time", "cannot stand beside labels")


def _check_values(feature: Feature) -> None:
    if feature.constant is not None:
        _check_fits(feature, "constant", feature.constant)
    for key in ("missing", "unknown", "null_item"):
        rule = getattr(feature, key)
        if rule is not None and rule.action == "default":
            _check_fits(feature, key, rule.default)
    for key in ("unknown", "null_item"):
        rule = getattr(feature, key)
        if rule is not None and isinstance(rule.default, tuple):
            raise KeyFault(key, "has a list as default, expected one value")


def _check_fits(feature: Feature, key: str, value: Any) -> None:
    """Raise KeyFault where `value` is no value of the feature: wrong type, range or length."""
    items = value if isinstance(value, tuple) else (value,)
    for item in items:
        if fault := _misfit(feature, item):
            raise KeyFault(key, f"is {describe(item)}, {fault}")
    broadcast = key != "constant" and not isinstance(value, tuple)
    if feature.shape is not None and not broadcast and len(items) != math.prod(feature.shape):
        wanted = f"{math.prod(feature.shape)} by shape {list(feature.shape)}"
        raise KeyFault(key, f"has {len(items)} values, expected {wanted}")


def _misfit(feature: Feature, value: Any) -> str:
    """Why `value` is not one value of the feature's type; empty where it is."""
    if feature.labels is not None and isinstance(value, str):
        known = feature.labels
        if isinstance(known, str) or value in known:
            return ""
        return f"which is not among the labels.{did_you_mean(value, known)}"
    if feature.type == "bytes":
        return "" if isinstance(value, str) else "but the type is bytes: put it in quotes"
    if isinstance(value, str):
        return f"but the type is {feature.type}: give a number"
    if feature.type == "int64":
        if isinstance(value, float):
            return "but the type is int64: give a whole number"
        return "" if -(2**63) <= value < 2**63 else "which is outside the range of int64"
    # Halfway between the largest float32 and the next power of two: from here on it rounds to inf.
    finite = not isinstance(value, float) or math.isfinite(value)
    return "which is too large for a float" if finite and abs(value) >= 2**128 - 2**103 else ""
