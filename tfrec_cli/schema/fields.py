"""What may stand under the keys of a schema file, value by value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from tfrec_cli.errors import did_you_mean, shorten
from tfrec_cli.schema.arrowtypes import parse_type
from tfrec_cli.schema.binding import Missing

TYPES = ("int64", "float", "bytes")
MAX_VALUES = 2**31  # a record is smaller than 2 GiB, so no feature holds more values

_OTHER_NAMES = {
    "bytes": "string str text utf8 unicode char varchar binary byte blob object image category",
    "float": "float16 float32 float64 f32 f64 double real number numeric decimal half",
    "int64": "int int8 int16 int32 integer long short uint8 uint16 uint32 uint64 i64 bool boolean "
    "label timestamp datetime date time",
}
TYPE_ALIASES = {word: name for name, words in _OTHER_NAMES.items() for word in words.split()}


class KeyFault(ValueError):
    """A wrong value under `key` of the mapping being validated."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def _names(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_name(item) for item in value)
    return _name(value)


def _name(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"found {describe(value)}, expected a name; put it in quotes")
    return value


def _shape(value: Any) -> tuple[int, ...]:
    sizes = (value,) if isinstance(value, int) else value
    if not isinstance(sizes, (list, tuple)) or not sizes:
        raise ValueError(f"found {describe(value)}, expected a list of sizes such as [28, 28]")
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(
                f"found {describe(size)}, expected whole numbers from 1, as in [28, 28]"
            )
    if math.prod(sizes) >= MAX_VALUES:
        raise ValueError(f"{list(sizes)} is more values than a record can hold")
    return tuple(sizes)


def _first_label(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise ValueError(f"found {describe(value)}, expected a whole number from 0, such as 1")
    return value


def _values(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_value(item) for item in value)
    return _value(value)


def _value(value: Any) -> int | float | str:
    if isinstance(value, bool):
        raise ValueError(f"found {describe(value)}, expected a number or text; write 1 or 0")
    if not isinstance(value, (int, float, str)):
        raise ValueError(f"found {describe(value)}, expected a number or text")
    return value


def _rule(words: Mapping[str, str], value: Any) -> Missing:
    """A `Missing` from `error`, another of `words`, or `{default: value}`."""
    if isinstance(value, Missing):
        return value
    if isinstance(value, Mapping) and list(value) == ["default"]:
        return Missing("default", _values(value["default"]))
    if isinstance(value, str) and value in words:
        return Missing(words[value])  # type: ignore[arg-type]
    known = (*words, "default")
    hint = did_you_mean(value, known) if isinstance(value, str) else ""
    choice = f"{', '.join(words)} or {{default: value}}"
    raise ValueError(f"found {describe(value)}, expected {choice}.{hint}")


def _missing(value: Any) -> Missing:
    return _rule({"error": "error", "omit": "omit"}, value)


def _null_item(value: Any) -> Missing:
    return _rule({"error": "error", "drop": "omit"}, value)


def _arrow(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"found {describe(value)}, expected an Arrow type such as timestamp[us]")
    parse_type(value)
    return value


def describe(value: Any) -> str:
    """`value` for a message: text in quotes, the others by their kind."""
    if isinstance(value, str):
        return f'"{shorten(value)}"'
    kinds = {type(None): "nothing", dict: "a mapping", list: "a list", tuple: "a list"}
    return kinds.get(type(value)) or shorten(str(value))


def _rule_schema(word: str) -> WithJsonSchema:
    values = {"type": ["number", "string", "array"], "description": "the value to write"}
    default = {"type": "object", "properties": {"default": values}, "required": ["default"]}
    choices = [{"enum": ["error", word]}, {**default, "additionalProperties": False}]
    return WithJsonSchema({"anyOf": choices})


_NAME = {"type": ["string", "integer"]}
_NAME_LIST = {"type": "array", "items": _NAME, "minItems": 1}
_SIZE = {"type": "integer", "minimum": 1}
_SCALAR: dict[str, Any] = {"type": ["number", "string"]}

Name = Annotated[str, BeforeValidator(_name), WithJsonSchema(_NAME)]
Names = Annotated[
    str | tuple[str, ...], BeforeValidator(_names), WithJsonSchema({"anyOf": [_NAME, _NAME_LIST]})
]
Shape = Annotated[
    tuple[int, ...],
    BeforeValidator(_shape),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _SIZE, "minItems": 1}, _SIZE]}),
]
FirstLabel = Annotated[
    int,
    BeforeValidator(_first_label),
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 2**31 - 1}),
]
Constant = Annotated[
    Any,
    BeforeValidator(_values),
    WithJsonSchema({"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}),
]
MissingRule = Annotated[Missing, BeforeValidator(_missing), _rule_schema("omit")]
NullItemRule = Annotated[Missing, BeforeValidator(_null_item), _rule_schema("drop")]
ArrowName = Annotated[str, BeforeValidator(_arrow), WithJsonSchema({"type": "string"})]
