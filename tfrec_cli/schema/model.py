"""The schema file's contents, checked in themselves; `settle` checks them against a source.

    version: 1
    source: {name: csv, delimiter: ";"}     # how the source is read: adapter and its options
    rest: drop                              # columns that no feature names: drop or keep
    features:
      island: bytes                         # shorthand for {type: bytes}
      mass:   {column: body_mass_g, type: int64, missing: {default: -1}}
      class:  {column: name, labels: [cat, dog], first_label: 1}      # cat 1, dog 2
      owner:  {column: meta/owner, type: bytes}       # the child `owner` of the struct `meta`
      x:      {columns: "pixel*", type: float, shape: [28, 28]}

A feature without `column`, `columns` or `constant` takes the column of its own name. `type` may be
left out where another key settles it: `labels` (int64), `load` and `time` (bytes), `constant`.

An inferred schema says `missing: omit` where nulls were seen (or nobody looked), and `arrow` where
a typed column was not just int64, float (32 bits) or string, so that it can be given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from tfrec_cli.errors import did_you_mean
from tfrec_cli.schema.feature import Feature
from tfrec_cli.schema.fields import KeyFault, describe


@dataclass(frozen=True, slots=True)
class Places:
    """Where the parts of a schema stand in its file. Two schemas may be equal and stand apart."""

    file: str = field(default="", compare=False)
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict, compare=False)

    def at(self, *path: str | int) -> str:
        """`penguins.yaml, line 7: ` for the part at `path`, or for the nearest part around it;
        empty where the schema came from no file.
        """
        while path and path not in self.lines:
            path = path[:-1]
        line = self.lines.get(path)
        if not self.file:
            return ""
        return f"{self.file}: " if line is None else f"{self.file}, line {line}: "


def _source(value: Any) -> Any:
    """Options as a file gives them, the adapter's name first."""
    options = _plain(value)
    named = isinstance(options, dict) and "name" in options
    return {"name": options.pop("name"), **options} if named else options


def _plain(value: Any) -> Any:
    """`value` with mappings as dict and sequences as list, as a file gives them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"found {type(value).__name__}, expected text, numbers, lists and mappings")


class Schema(BaseModel):
    """What the records of a dataset hold, and how its source is read."""

    model_config = ConfigDict(frozen=True, extra="forbid", title="tfrec schema")

    version: Literal[1] = Field(default=1, description="The version of this format: 1.")
    source: Annotated[dict[str, Any], BeforeValidator(_source)] = Field(
        default_factory=dict,
        description="How the source is read: its adapter as name, and the "
        "adapter's options, as tfrec sources lists them.",
    )
    rest: Literal["drop", "keep"] = Field(
        default="drop",
        description="What becomes of columns that no feature names.",
    )
    features: dict[str, Feature] = Field(
        default_factory=dict,
        description="The features of the record by name.",
    )
    _places: Places = PrivateAttr(default_factory=Places)

    @field_validator("version", mode="before")
    @classmethod
    def _known_version(cls, value: Any) -> Any:
        if value != 1 or isinstance(value, bool):
            raise ValueError(f"found {describe(value)}, expected 1, the only version there is")
        return 1

    @field_validator("rest", mode="before")
    @classmethod
    def _known_rest(cls, value: Any) -> Any:
        if value in ("drop", "keep"):
            return value
        hint = did_you_mean(value, ("drop", "keep")) if isinstance(value, str) else ""
        raise ValueError(f"found {describe(value)}, expected drop or keep.{hint}")

    @model_validator(mode="after")
    def _not_empty(self) -> Schema:
        if not self.features and self.rest == "drop":
            raise KeyFault("features", "is empty; name the features of the record, or rest: keep")
        return self

    @property
    def places(self) -> Places:
        """Where the parts of the schema stand in its file."""
        return self._places

    def standing_at(self, places: Places) -> Schema:
        """The same schema, read from `places`."""
        copy = self.model_copy()
        copy._places = places
        return copy

    def with_features(self, features: Mapping[str, Feature], rest: str | None = None) -> Schema:
        """The same schema with other features, and `rest` where it is given."""
        update = {"features": dict(features), "rest": rest or self.rest}
        return self.model_copy(update=update)

    def with_source(self, options: Mapping[str, Any]) -> Schema:
        """The same schema for a source read with `options`; the adapter's name is under `name`."""
        return self.model_copy(update={"source": _source(options)})


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the schema file, for editors."""
    schema = Schema.model_json_schema()
    schema.pop("description", None)
    for entry in schema["properties"].values():
        entry.pop("default", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
