"""What pydantic found wrong with a schema, as one line for the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tfrec_cli.errors import SchemaError, did_you_mean, shorten
from tfrec_cli.schema.feature import Feature
from tfrec_cli.schema.fields import KeyFault, describe
from tfrec_cli.schema.model import Places, Schema

Path = tuple[str | int, ...]


def validated(data: Any, places: Places) -> Schema:
    """The schema that `data` says. Raises SchemaError with the place of the first fault."""
    if not isinstance(data, Mapping):
        said = "the schema is empty" if data is None else f"found {describe(data)}"
        wanted = "expected a mapping with version: 1 and features:"
        raise SchemaError(f"{places.at()}{said}, {wanted}")
    try:
        return Schema.model_validate(data).standing_at(places)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # On one line, a misspelt key explains the key that is missing.
        order = [
            (places.lines.get(_known(data, fault["loc"]), 0), fault["type"] == "missing")
            for fault in faults
        ]
        fault = faults[order.index(min(order))]
        raise SchemaError(_one_line(data, fault, places)) from None


def _one_line(data: Any, fault: Any, places: Places) -> str:
    path = _known(data, fault["loc"])
    cause = fault.get("ctx", {}).get("error")
    kind = fault["type"]
    if isinstance(cause, KeyFault):
        subject = ", ".join(part for part in (_subject(path), cause.key) if part)
        return f"{places.at(*path, cause.key)}{subject} {cause}"
    if kind == "extra_forbidden":
        return f"{places.at(*path)}{_unknown_key(path)}"
    if kind == "missing":
        return f"{places.at(*path)}{_lacking(path, str(fault['loc'][-1]))}"
    text = str(cause) if cause is not None else _pydantic_text(fault)
    return f"{places.at(*path)}{_subject(path) or 'the schema'}: {text}"


def _known(data: Any, loc: Sequence[str | int]) -> Path:
    """The part of pydantic's location that exists in the data: without names of union members."""
    path: list[str | int] = []
    for piece in loc:
        inside_list = isinstance(data, (list, tuple)) and isinstance(piece, int)
        if (isinstance(data, Mapping) and piece in data) or (inside_list and piece < len(data)):  # type: ignore[operator]
            data = data[piece]
            path.append(piece)
    return tuple(path)


def _subject(path: Path) -> str:
    if len(path) < 2 or path[0] != "features":
        return ", ".join(map(str, path))
    name = f"feature {shorten(str(path[1]))}"
    return ", ".join([name, *(str(piece) for piece in path[2:] if isinstance(piece, str))])


def _unknown_key(path: Path) -> str:
    owner = Feature if len(path) > 1 else Schema
    key, known = str(path[-1]), list(owner.model_fields)
    hint = did_you_mean(key, known) or f" The keys are {', '.join(known)}."
    subject = _subject(path[:-1])
    return f'{subject}{": " if subject else ""}unknown key "{shorten(key)}".{hint}'


def _lacking(path: Path, key: str) -> str:
    hint = " Add type: int64, float or bytes." if key == "type" else ""
    return f"{_subject(path) or 'the schema'} has no {key}.{hint}"


_EXPECTED = {
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "string_type": "text",
}


def _pydantic_text(fault: Any) -> str:
    expected = fault.get("ctx", {}).get("expected") or _EXPECTED.get(fault["type"])
    if expected is None:
        return f"{fault['msg'][:1].lower()}{fault['msg'][1:]}, found {describe(fault['input'])}"
    return f"found {describe(fault['input'])}, expected {expected}".replace("'", "")
