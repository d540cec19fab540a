"""Which source reads an input, and how its options are taken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tfrec_cli.errors import SchemaError, SourceError, UsageError
from tfrec_cli.sources import registry
from tfrec_cli.sources.base import Needs
from tfrec_cli.sources.registry import BUILT_IN, GROUP, SUFFIXES, list_sources, open_source

PLUGIN = Path(__file__).parent.parent / "examples/plugin"


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.lower().endswith((".png", ".webp")):
            Image.new("RGB", (2, 2)).save(path)
        elif "parquet" in name:
            pq.write_table(pa.table({"a": [1]}), path)
        else:
            path.write_text("a\n1\n")


def chosen(root: Path, *names: str) -> str:
    return open_source([str(root / name) for name in names]).name


def test_the_suffix_chooses(tmp_path: Path) -> None:
    make(tmp_path, "a.csv", "b.TSV", "c.parquet", "d.pq.parquet", "e.PNG")
    (tmp_path / "f.csv.gz").write_bytes(b"\x1f\x8b")
    assert chosen(tmp_path, "a.csv", "b.TSV", "f.csv.gz") == "csv"
    assert chosen(tmp_path, "c.parquet", "d.pq.parquet") == "parquet"
    assert chosen(tmp_path, "e.PNG") == "images"
    assert chosen(tmp_path, "*.parquet") == "parquet"


def test_a_folder_is_what_it_holds(tmp_path: Path) -> None:
    make(tmp_path, "t/x.csv", "t/README.md", "i/cat/1.png", "i/notes.txt", "p/y=1/z.parquet")
    assert [chosen(tmp_path, name) for name in "tip"] == ["csv", "images", "parquet"]


def test_mixtures_say_how_to_choose(tmp_path: Path) -> None:
    make(tmp_path, "m/x.csv", "m/1.png", "m/2.png", "b.parquet")
    with pytest.raises(SourceError, match="m: holds files of several kinds: 2 for images and 1"):
        chosen(tmp_path, "m")
    with pytest.raises(SourceError, match=r"several kinds: .*x\.csv \(csv\) and .*b\.parquet"):
        chosen(tmp_path, "m/x.csv", "b.parquet")
    assert open_source([str(tmp_path / "m")], "images").survey(Needs()).rows == 2


def test_the_content_chooses_where_the_ending_does_not(tmp_path: Path) -> None:
    make(tmp_path, "rows", "data.parquet")
    os.rename(tmp_path / "data.parquet", tmp_path / "data.bin")
    (tmp_path / "zeros").write_bytes(bytes(100))
    assert chosen(tmp_path, "rows") == "csv"
    assert chosen(tmp_path, "data.bin") == "parquet"
    with pytest.raises(UsageError, match="zeros: neither its ending nor its content"):
        chosen(tmp_path, "zeros")


def test_missing_and_empty_inputs(tmp_path: Path) -> None:
    make(tmp_path, "penguins.csv", "d/x.txt")
    with pytest.raises(SourceError, match=r'pengins\.csv: no such file.*"penguins\.csv"'):
        chosen(tmp_path, "pengins.csv")
    with pytest.raises(SourceError, match=r"d: holds no file that an installed source takes.*x\.t"):
        chosen(tmp_path, "d")
    with pytest.raises(SourceError, match="no file matches"):
        chosen(tmp_path, "*.nothing")
    with pytest.raises(UsageError, match="no source is given"):
        open_source([])


def test_tables_in_memory() -> None:
    for table in (pa.table({"a": [1]}), pd.DataFrame({"a": [1]}), pa.table({"a": [1]}).to_reader()):
        source = open_source([table])
        assert (source.name, source.survey(Needs()).rows) == ("table", 1)
    with pytest.raises(UsageError, match="a path beside a table"):
        open_source([pa.table({"a": [1]}), "x.csv"])
    with pytest.raises(UsageError, match="type int"):
        open_source([3])


def test_pandas_tables_follow_pandas() -> None:
    frame = pd.DataFrame({"a": [1.5, float("nan")], "s": ["x", None]}, index=[7, 8])
    survey = open_source([frame]).survey(Needs())
    assert [(c.name, c.nulls) for c in survey.columns] == [("a", True), ("s", True)]
    assert any("__index_level_0__" in notice for notice in survey.notices)
    named = open_source([frame.rename_axis("id")]).survey(Needs())
    assert [c.name for c in named.columns] == ["a", "s", "id"]
    mixed = pd.DataFrame({"m": [1, "x", b"y"]})
    with pytest.raises(SourceError, match=r"table: cannot be read as a table .*column m"):
        open_source([mixed]).survey(Needs())
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(SourceError, match="column a is there more than once"):
        open_source([twice]).survey(Needs())


def test_options_are_parsed_and_named_when_wrong(tmp_path: Path) -> None:
    make(tmp_path, "a.parquet")
    path = [str(tmp_path / "a.parquet")]
    assert open_source(path, options={"hive": "off"}).survey(Needs()).options["hive"] == "off"
    with pytest.raises(UsageError, match=r'-O hives: .*Did you mean "hive"\? It has: hive, ind'):
        open_source(path, options={"hives": "off"})
    with pytest.raises(UsageError, match="-O hive=maybe: input should be 'auto' or 'off'"):
        open_source(path, options={"hive": "maybe"})
    with pytest.raises(UsageError, match=r'no source "parket"\. Did you mean "parquet"\?'):
        open_source(path, "parket")


def test_the_command_line_goes_before_a_saved_schema(tmp_path: Path) -> None:
    make(tmp_path, "a.parquet")
    path = [str(tmp_path / "a.parquet")]
    saved = {"name": "parquet", "hive": "off", "index": "keep"}
    options = open_source(path, None, {"index": "drop"}, saved).survey(Needs()).options
    assert (options["hive"], options["index"]) == ("off", "drop")
    with pytest.raises(SchemaError, match="source: hvie"):
        open_source(path, saved={"hvie": "off"})
    with pytest.raises(SchemaError, match="source options hive: input should be"):
        open_source(path, saved={"hive": "x"})
    assert open_source(path, "csv", {}, saved).name == "csv"
    assert open_source([pa.table({"a": [1]})], saved=saved).name == "table"


def test_the_table_of_suffixes_is_what_the_sources_say() -> None:
    listed = {info.name: set(info.suffixes) for info in list_sources() if info.name in SUFFIXES}
    assert listed == {name: set(suffixes) for name, suffixes in SUFFIXES.items()}


def test_built_in_sources_are_where_the_entry_points_say() -> None:
    points = {point.name: point.value for point in entry_points(group=GROUP)}
    assert {name: points[name] for name in BUILT_IN} == BUILT_IN
    assert set(BUILT_IN) == set(SUFFIXES)


def test_sources_are_listed_with_their_options() -> None:
    listed = {info.name: info for info in list_sources()}
    assert {"csv", "parquet", "images", "table"} <= set(listed)
    options = {option.name: option for option in listed["images"].options}
    assert (options["check"].type, options["check"].default) == ("header|full", "header")
    assert options["layout"].description.endswith(".")
    assert listed["images"].package == "tfrec-cli"


def test_only_the_source_that_is_needed_is_imported(tmp_path: Path) -> None:
    make(tmp_path, "a.csv")
    code = (
        "import sys; from tfrec_cli.sources.registry import open_source;"
        f"open_source([{str(tmp_path / 'a.csv')!r}]);"
        "heavy = ('pandas', 'PIL', 'fsspec', 'pyarrow.parquet', 'tfrec_cli.sources.images');"
        "print([m for m in heavy if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_standard_input(tmp_path: Path) -> None:
    code = (
        "from tfrec_cli.sources.registry import open_source;"
        "from tfrec_cli.sources.base import Needs;"
        f"s = open_source(['-'], temp_dir={str(tmp_path)!r});"
        "print(s.name, s.survey(Needs()).rows, s.survey(Needs()).rows)"
    )
    make(tmp_path, "in.parquet", "in.csv")
    for name, expected in (("in.parquet", "parquet 1 1"), ("in.csv", "csv 1 1")):
        run = subprocess.run(
            [sys.executable, "-c", code],
            input=(tmp_path / name).read_bytes(),
            capture_output=True,
            check=True,
        )
        assert run.stdout.decode().strip() == expected
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv", "in.parquet"]


def test_a_plugin_is_installed_found_and_used(tmp_path: Path) -> None:
    copy = shutil.copytree(PLUGIN, tmp_path / "plugin")
    where = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps"]
    subprocess.run([*install, "--target", str(where), str(copy)], check=True)
    (tmp_path / "events.jsonl").write_text('{"a": 1, "b": "x"}\n{"a": 2}\n')
    code = (
        "import json; from tfrec_cli.sources.registry import open_source, list_sources;"
        "from tfrec_cli.sources.base import Needs;"
        f"s = open_source([{str(tmp_path / 'events.jsonl')!r}], options={{'block': '4096'}});"
        "v = s.survey(Needs());"
        "rows = [r for p in v.partitions for b in s.read(p, ['b', 'a'])"
        " for r in b.data.to_pylist()];"
        "about = [i.package for i in list_sources() if i.name == s.name];"
        "print(json.dumps([s.name, rows, about, v.options['block']]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(where)},
        capture_output=True,
        text=True,
        check=True,
    )
    name, rows, about, block = json.loads(run.stdout)
    assert (name, about, block) == ("jsonlines", ["tfrec-jsonlines"], 4096)
    assert rows == [{"b": "x", "a": 1}, {"b": None, "a": 2}]


BROKEN_PLUGINS = {
    "tfrec_gone": "import no_such_package",
    "tfrec_empty": "class Source: name = 'empty'",
    "tfrec_good": (
        "from pydantic import BaseModel\n"
        "class Source:\n"
        "    name, summary, suffixes = 'good', 'good', ('.good',)\n"
        "    class Options(BaseModel): pass\n"
        "    def __init__(self, inputs, options): pass"
    ),
}


@pytest.fixture
def beside_broken_plugins(tmp_path: Path) -> Callable[[str], Any]:
    """Runs Python where two broken plugins and a sound one are installed."""
    site = tmp_path / "site"
    for package, source in BROKEN_PLUGINS.items():
        about = site / f"{package}-1.dist-info"
        about.mkdir(parents=True)
        (site / f"{package}.py").write_text(source)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        name = package.removeprefix("tfrec_")
        (about / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {package}:Source\n")

    def run(code: str) -> Any:
        found = subprocess.run(
            [sys.executable, "-c", f"import json\nfrom {REGISTRY} import *\n{code}"],
            env=os.environ | {"PYTHONPATH": str(site)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout)

    return run


REGISTRY = "tfrec_cli.sources.registry"


def test_broken_plugins_do_not_stop_other_sources(
    tmp_path: Path, beside_broken_plugins: Callable[[str], Any]
) -> None:
    make(tmp_path, "c/a.csv", "d/x.good", "i/1.png", "i/1.txt")
    code = "print(json.dumps([open_source([i]).name for i in ('c/*.csv', 'd', 'i', 'd/x.good')]))"
    assert beside_broken_plugins(code) == ["csv", "good", "images", "good"]


def test_broken_plugins_are_named_where_they_may_have_been_wanted(
    tmp_path: Path, beside_broken_plugins: Callable[[str], Any]
) -> None:
    make(tmp_path, "d/x.gone")
    (tmp_path / "zeros").write_bytes(bytes(100))
    code = """
def said(*arguments):
    try:
        open_source(*arguments)
    except Exception as error:
        return str(error)
summaries = {info.name: info.summary for info in list_sources()}
print(json.dumps([said(["d"]), said(["zeros"]), said(["d"], "gone"), said(["d"], "empty"),
                  summaries["gone"], summaries["empty"]]))
"""
    folder, content, gone, empty, *listed = beside_broken_plugins(code)
    reason = 'source "gone" (tfrec_gone:Source) cannot be imported: No module named'
    assert f"Passed over: {reason}" in folder
    assert f"Passed over: {reason}" in content
    assert gone.startswith(reason)
    assert empty.endswith("is no source adapter: it has no summary, suffixes, Options.")
    assert listed == [gone, empty]


def test_packages_are_searched_once_for_a_folder_of_strays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def points() -> dict[str, Any]:
        searched.append(1)
        return {}

    monkeypatch.setattr(registry, "_points", points)
    make(tmp_path, "i/1.png", *(f"i/{n}.txt" for n in range(20)))
    registry._foreign.cache_clear()
    assert chosen(tmp_path, "i") == "images"
    registry._foreign.cache_clear()
    assert len(searched) == 1


def test_a_copied_input_lives_as_long_as_its_source(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    store.pipe_file("/spooled/a.csv", b"a\n1\n2\n")
    source = open_source(["memory://spooled/a.csv"], temp_dir=str(tmp_path))
    survey = source.survey(Needs())
    rows = source.read(survey.partitions[0], ["a"])
    del source
    assert sum(batch.data.num_rows for batch in rows) == 2
    del rows
    assert list(tmp_path.iterdir()) == []


def test_a_copied_input_goes_where_no_source_takes_it(tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe_file("/spooled/zeros", bytes(100))
    with pytest.raises(UsageError, match="neither its ending nor its content"):
        open_source(["memory://spooled/zeros"], temp_dir=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_copied_input_is_left_by_forked_processes(tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe_file("/spooled/a.csv", b"a\n1\n")
    source = open_source(["memory://spooled/a.csv"], temp_dir=str(tmp_path))
    child = os.fork()
    if not child:
        del source
        os._exit(0)
    os.waitpid(child, 0)
    assert source.survey(Needs()).rows == 1
