"""Frozen dataclasses from JSON whose every value is of the type that is written there.

That is how files come that this program wrote. pydantic reads what is otherwise and says what is
wrong with it; to import it takes longer than all else that a command does to read a manifest.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Form = TypeVar("Form")


class _OtherwiseError(Exception):
    """A value is not of its type."""


def plain_form(kind: type[Form], entries: Any) -> Form | None:
    """`entries` (JSON as Python has it) as the dataclass `kind`, further keys passed over; None
    where a value is not of its very type, or is missing: pydantic may still read it.

    Types are dataclasses, `tuple[T, ...]`, `Mapping[str, T]`, `Literal`s, `T | None`, str, int,
    float and Any.
    """
    try:
        return _dataclass(kind, entries)  # type: ignore[no-any-return]
    except (_OtherwiseError, ValueError):
        return None


def _dataclass(kind: Any, entries: Any) -> Any:
    if type(entries) is not dict:
        raise _OtherwiseError
    hints, required = _form(kind)
    if not required <= entries.keys():
        raise _OtherwiseError
    return kind(**{name: _value(hints[name], entries[name]) for name in hints if name in entries})


@cache
def _form(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The types of the fields of a dataclass, and those of them that must be given."""
    hints = get_type_hints(kind)
    own = fields(kind)
    required = {f.name for f in own if f.default is MISSING and f.default_factory is MISSING}
    return {f.name: hints[f.name] for f in own}, frozenset(required)


def _value(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _dataclass(kind, value)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _value(args[0], value)
    if origin is tuple and type(value) is list:
        return tuple(_value(args[0], item) for item in value)
    if origin is Mapping and type(value) is dict:
        return {_value(str, key): _value(args[1], item) for key, item in value.items()}
    if origin is Literal and type(value) is str and value in args:
        return value
    return _scalar(kind, value)


def _scalar(kind: Any, value: Any) -> Any:
    if kind is float and type(value) in (int, float):
        return float(value)
    if kind in (str, int) and type(value) is kind:
        return value
    raise _OtherwiseError
