"""Messages in protobuf's text format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Fields = Sequence[tuple[str, Any]]
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Word(str):
    """An enum's name, which stands without quotes."""

    __slots__ = ()


def text_of(fields: Fields) -> str:
    """A message: `(name, value)` pairs, where a value is text, a Word, a number, a bool, or again
    a list of pairs.
    """
    return "".join(f"{line}\n" for line in _lines(fields))


def _lines(fields: Fields) -> Iterable[str]:
    for name, value in fields:
        if isinstance(value, list | tuple):
            inner = list(_lines(value))
            if not inner:
                yield f"{name} {{ }}"
                continue
            yield f"{name} {{"
            yield from (f"  {line}" for line in inner)
            yield "}"
        else:
            yield f"{name}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, Word):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """A string literal. Surrogates are bytes that are not UTF-8, written as octal escapes."""
    return '"' + "".join(_escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
