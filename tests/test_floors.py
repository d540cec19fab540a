"""The rooms of the package stand on floors: imports point down, and never in a ring."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest
from conftest import REPOSITORY

PACKAGE = REPOSITORY / "tfrec_cli"

FLOORS = [
    {
        "errors",
        "options",
        "progress",
        "buffers",
        "compute",
        "kinds",
        "words",
        "wrappings",
        "stages",
        "scratch",
        "interruption",
    },
    {"_kernel"},
    {"schema"},
    {"casting", "encoding", "decoding", "records", "checksums"},
    {"sources", "dataset"},
    {"splitting", "shuffle"},
    {
        *(
            "settlement",
            "rowlengths",
            "arrangement",
            "rowrules",
            "checks",
            "scanning",
            "plan",
            "tasks",
            "placing",
            "ordering",
            "spill",
            "sizing",
        ),
        *("engines", "cluster", "accounts", "rejects", "receipts", "writing"),
        *("provenance", "sourcefiles", "description", "freshness", "preparation"),
        *("pipeline", "resumption", "shardlog", "runlog"),
        *("conversion", "estimates", "profiling"),
    },
    {"reading"},
    {
        "inspection",
        "statistics",
        "verification",
        "repair",
        "indexing",
        "metadata",
        "export",
        "loaders",
        "throughput",
    },
    {"cli", "__main__", "__init__"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

# A source gives Arrow batches and knows nothing of what they become.
SOURCES_MAY_NOT_KNOW = {"casting", "encoding", "decoding", "records", "dataset"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(PACKAGE).with_suffix("").parts)


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(module: Path) -> set[str]:
    """The rooms that `module` imports anywhere in its text, inside functions too."""
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}, line {node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        paths = [name.split(".") for name in names if name.split(".")[0] == "tfrec_cli"]
        rooms |= {path[1] for path in paths if len(path) > 1 and path[1] in FLOOR}
    return rooms - {room_of(module)}


def test_every_room_has_a_floor() -> None:
    assert {room_of(module) for module in modules()} - set(FLOOR) == set()


@pytest.mark.parametrize("module", modules(), ids=name_of)
def test_imports_point_down(module: Path) -> None:
    own = FLOOR[room_of(module)]
    assert {room for room in imported_rooms(module) if FLOOR[room] > own} == set()


def test_rooms_do_not_import_in_rings() -> None:
    rooms: dict[str, set[str]] = {}
    for module in modules():
        rooms.setdefault(room_of(module), set()).update(imported_rooms(module))
    graphlib.TopologicalSorter(rooms).prepare()


# But for the one whose files are records, and for what it consists of: it takes them as they are.
READ_RECORDS = {
    "sources.foreign",
    "sources.tfrecord",
    "sources.recordfiles",
    "sources.recordsurvey",
}


def test_sources_know_nothing_of_records() -> None:
    for module in modules():
        if room_of(module) == "sources" and name_of(module) not in READ_RECORDS:
            assert imported_rooms(module) & SOURCES_MAY_NOT_KNOW == set(), name_of(module)
            assert READ_RECORDS.isdisjoint(top_level_imports(module)), name_of(module)


def top_level_imports(module: Path) -> set[str]:
    """The modules that `module` imports as soon as it is imported itself, without the package."""
    found = [n for n in ast.parse(module.read_text("utf-8")).body if isinstance(n, ast.ImportFrom)]
    return {str(node.module).removeprefix("tfrec_cli.") for node in found}
