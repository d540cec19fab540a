"""Schema files: YAML 1.2 in, with the line of everything, and YAML out.

Scalars follow the core schema of YAML 1.2 (yaml.org/spec/1.2.2, section 10.3): only `true`,
`false` and `null` are words with a meaning, so `no`, `on`, `1_000` and `2024-01-01` are text.
Where only a name can stand (keys, types, columns, labels, separators) every scalar is text as
written. One document a file, no duplicate keys, no tags of one's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tfrec_cli.errors import SchemaError, shorten
from tfrec_cli.schema.feature import Feature
from tfrec_cli.schema.fields import describe
from tfrec_cli.schema.model import Places, Schema
from tfrec_cli.schema.problems import validated

MAX_BYTES = 64 * 2**20
MAX_NODES = 1_000_000  # aliases of aliases grow without bound
MAX_DEPTH = 50
WIDTH = 100

_TAG = "tag:yaml.org,2002:"
_INT = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = (
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?(?:\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN"
)
# In this order: what is an int is a float as well.
_CORE = (
    ("null", r"null|Null|NULL|~|", [*"nN~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", _INT, [*"-+0123456789"]),
    ("float", _FLOAT, [*"-+.0123456789"]),
)
_NAME_KEYS = {"type", "column", "columns", "labels", "separator", "arrow", "load", "time", "root"}

_Path = tuple[str | int, ...]


class _CoreLoader(yaml.BaseLoader):
    """PyYAML's parser with the scalars of YAML 1.2."""


class _CoreDumper(yaml.SafeDumper):
    """Quotes what YAML 1.2 or YAML 1.1 would read as something else than text."""


for _name, _pattern, _first in _CORE:
    _regexp = re.compile(f"(?:{_pattern})$")
    for _class in (_CoreLoader, _CoreDumper):
        _class.add_implicit_resolver(_TAG + _name, _regexp, _first)


def load_schema(given: Schema | Mapping[str, Any] | str | os.PathLike[str]) -> Schema:
    """The schema in a file, or in a mapping of the same shape.

    Raises SchemaError, with file and line where there are any.
    """
    if isinstance(given, Schema):
        return given
    if isinstance(given, Mapping):
        return validated(given, Places())
    if not isinstance(given, (str, os.PathLike)):
        raise SchemaError(f"schema is {given!r}; give a file, a mapping or a Schema.")
    return parse_schema(_read(Path(given)), str(given))


def parse_schema(text: str, file: str) -> Schema:
    """The schema in `text`; errors say that it stands in `file`."""
    data, lines = parse_yaml(text, file)
    return validated(data, Places(file, lines))


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SchemaError(f"{path}: larger than {MAX_BYTES >> 20} MiB; this is no schema.")
        data = path.read_bytes()
    except OSError as error:
        raise SchemaError(f"{path}: {error.strerror}. It should be a schema file.") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise SchemaError(f"{path}, line {line}: {found}. Save the file as UTF-8.") from None


def parse_yaml(text: str, file: str) -> tuple[Any, dict[_Path, int]]:
    """The data in `text`, and the line (from 1) of each part by its path.

    Raises SchemaError with `file` and line for what is not YAML or not allowed here.
    """
    try:
        loader = _CoreLoader(text)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        found = f"control character U+{error.character:04X}"
        raise SchemaError(f"{file}, line {line}: {found}; take it out or escape it.") from None
    except yaml.MarkedYAMLError as error:
        raise SchemaError(_syntax_text(error, file)) from None
    except RecursionError:
        raise SchemaError(f"{file}: nested too deeply for a schema.") from None
    except (
        ValueError,
        OverflowError,
    ) as error:  # an escape such as "\UFFFFFFFF", which is no character
        raise SchemaError(f"{file}: not YAML: {error}.") from None
    if node is None:
        return None, {}
    reading = _Reading(file)
    return reading.value(node, ()), reading.lines


def _syntax_text(error: yaml.MarkedYAMLError, file: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{file}, line {mark.line + 1}" if mark else file
    problem = str(error.problem or error.context)
    if "'\\t'" in problem:
        return f"{place}: found a tab; indent with blanks."
    if error.context and error.context_mark and error.problem:
        problem = f"{problem} ({error.context}, line {error.context_mark.line + 1})"
    return f"{place}: not YAML: {shorten(problem, 200)}."


class _Reading:
    """One file's nodes on their way to data."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[_Path, int] = {}
        self.nodes = 0

    def value(self, node: yaml.Node, path: _Path) -> Any:
        """The data of `node`, which stands at `path`."""
        self.nodes += 1
        if len(path) > MAX_DEPTH or self.nodes > MAX_NODES:
            raise self.fault(node, "nested too deeply, or too many aliases, for a schema")
        if node.tag not in _TAGS:
            raise self.fault(node, f"the tag {shorten(node.tag)} is not for schemas")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, path)

    def fault(self, node: yaml.Node, text: str) -> SchemaError:
        return SchemaError(f"{self.file}, line {node.start_mark.line + 1}: {text}.")

    def _mapping(self, node: yaml.MappingNode, path: _Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.fault(key_node, "a key is a list or mapping, expected a name")
            key = key_node.value
            if key in data:
                first = self.lines[(*path, key)]
                found = f'the key "{shorten(key)}" stands on line {first} already'
                raise self.fault(key_node, found)
            self.lines[(*path, key)] = key_node.start_mark.line + 1
            data[key] = self.value(value_node, (*path, key))
        return data

    def _scalar(self, node: yaml.ScalarNode, path: _Path) -> Any:
        text = node.value
        if node.style is None and not text:
            return None
        if _only_a_name(path):
            return text
        try:
            return _CONSTRUCT[node.tag](text)
        except (KeyError, ValueError):
            said = f"{describe(text)} is not what its tag says, or a number beyond all bounds"
            raise self.fault(node, said) from None


def _only_a_name(path: _Path) -> bool:
    is_feature = len(path) == 2 and path[0] == "features"
    return is_feature or (len(path) > 2 and path[0] == "features" and path[2] in _NAME_KEYS)


def _integer(text: str) -> int:
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _number(text: str) -> float:
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


_CONSTRUCT: dict[str, Any] = {
    _TAG + "null": lambda _: None,
    _TAG + "bool": lambda text: {"true": True, "false": False}[text.lower()],
    _TAG + "int": _integer,
    _TAG + "float": lambda text: _number(text.lower()),
    _TAG + "str": str,
}
_TAGS = {*_CONSTRUCT, _TAG + "map", _TAG + "seq"}


def dump_schema(schema: Schema, notes: Iterable[str] = ()) -> str:
    """The schema as a file that `load_schema` reads back equal; `notes` stand at its head."""
    head = "".join(f"# {shorten(note, 500)}\n" for note in notes)
    root = _mapping({"version": schema.version}, flow=False)
    if schema.source:
        root.value.append((_node("source"), _fitting(schema.source, 10)))
    if schema.rest != "drop":
        root.value.append((_node("rest"), _node(schema.rest)))
    features = yaml.MappingNode(_TAG + "map", [], flow_style=False)
    for key, feature in schema.features.items():
        features.value.append((_node(key), _feature_node(key, feature)))
    features.flow_style = not features.value
    root.value.append((_node("features"), features))
    text = yaml.serialize(root, Dumper=_CoreDumper, allow_unicode=True, width=2**31)
    return head + text


def _feature_node(key: str, feature: Feature) -> yaml.Node:
    entries = feature.entries()
    return _node(entries["type"]) if list(entries) == ["type"] else _fitting(entries, len(key) + 4)


def _fitting(data: Mapping[str, Any], indent: int) -> yaml.Node:
    """On one line where it is short enough, else one line a key, else one line an item."""
    if indent + _width(data) <= WIDTH:
        return _mapping(data, flow=True)
    node = _mapping(data, flow=False)
    for (key, value), (_, child) in zip(data.items(), node.value, strict=True):
        if isinstance(child, yaml.CollectionNode):
            child.flow_style = len(key) + _width(value) + 6 <= WIDTH or not value
    return node


def _width(data: Any) -> int:
    """About how many characters `data` takes on one line."""
    if isinstance(data, Mapping):
        return 2 + sum(len(key) + 4 + _width(value) for key, value in data.items())
    if isinstance(data, (list, tuple)):
        return 2 + sum(2 + _width(item) for item in data)
    return len(str(data))


def _mapping(data: Mapping[str, Any], flow: bool) -> yaml.MappingNode:
    pairs = [(_node(key), _node(value)) for key, value in data.items()]
    return yaml.MappingNode(_TAG + "map", pairs, flow_style=flow)


def _node(data: Any) -> yaml.Node:
    if isinstance(data, Mapping):
        return _mapping(data, flow=True)
    if isinstance(data, (list, tuple)):
        return yaml.SequenceNode(_TAG + "seq", [_node(item) for item in data], flow_style=True)
    if isinstance(data, str):
        # Line breaks of all kinds are safe in double quotes only, where they are escaped.
        style = None if data.isprintable() else '"'
        return yaml.ScalarNode(_TAG + "str", data, style=style)
    return yaml.representer.SafeRepresenter().represent_data(data)
