"""Frozen dataclasses from JSON whose every value is of the type that is written there.

That is how files come that this program wrote. pydantic reads what is otherwise and says what is
wrong with it; to import it takes longer than all else that a command does to read a manifest.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
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
        return _reader(kind)(entries)  # type: ignore[arg-type, no-any-return]
    except (_OtherwiseError, ValueError):
        return None


Reader = Callable[[Any], Any]
"""Gives a value as one of its type. Raises _OtherwiseError where it is none."""


@cache
def _reader(kind: Any) -> Reader:
    """Of values of a type. A manifest may have a million of them: what they are is asked once."""
    if is_dataclass(kind):
        return _dataclass_reader(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _optional_reader(_reader(args[0]))
    if origin is tuple:
        return _list_reader(_reader(args[0]))
    if origin is Mapping:
        return _mapping_reader(_reader(str), _reader(args[1]))
    if origin is Literal:
        return _literal_reader(frozenset(args))
    return (lambda value: value) if kind is Any else _scalar_reader(kind)


def _dataclass_reader(kind: Any) -> Reader:
    hints, own = get_type_hints(kind), fields(kind)
    readers = [(each.name, _reader(hints[each.name])) for each in own]
    required = {f.name for f in own if f.default is MISSING and f.default_factory is MISSING}

    def read(value: Any) -> Any:
        if type(value) is not dict or not required <= value.keys():
            raise _OtherwiseError
        return kind(**{name: of(value[name]) for name, of in readers if name in value})

    return read


def _optional_reader(of: Reader) -> Reader:
    return lambda value: None if value is None else of(value)


def _list_reader(of: Reader) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise _OtherwiseError
        return tuple(map(of, value))

    return read


def _mapping_reader(key_of: Reader, of: Reader) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _OtherwiseError
        return {key_of(key): of(item) for key, item in value.items()}

    return read


def _literal_reader(known: frozenset[str]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not str or value not in known:
            raise _OtherwiseError
        return value

    return read


def _scalar_reader(kind: type[Any]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise _OtherwiseError

    return read if kind in (str, int, float) else _refuse


def _refuse(_: Any) -> Any:
    raise _OtherwiseError
