"""What inputs mean: files, patterns, folders, links, hidden names, streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from tfrec_cli.errors import SourceError
from tfrec_cli.sources.files import display, expand_inputs, fingerprint, walk
from tfrec_cli.sources.loading import cell_sizes, load_cells
from tfrec_cli.sources.spools import Spools
from tfrec_cli.sources.streams import settle_streams

CSV = (".csv", ".csv.gz")


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\n1\n")


def names(root: Path, *inputs: str) -> list[str]:
    found = expand_inputs([str(root / i) for i in inputs], CSV)
    return [os.path.relpath(f, root) for f in found.files]


def test_inputs_keep_their_order(tmp_path: Path) -> None:
    make(tmp_path, "b.csv", "a.csv")
    assert names(tmp_path, "b.csv", "a.csv") == ["b.csv", "a.csv"]


def test_a_folder_gives_its_files_in_byte_order_at_any_depth(tmp_path: Path) -> None:
    make(tmp_path, "d/b.csv", "d/B.CSV", "d/a/z.csv", "d/ä.csv", "d/10.csv", "d/9.csv.gz")
    assert names(tmp_path, "d") == [
        "d/10.csv",
        "d/9.csv.gz",
        "d/B.CSV",
        "d/a/z.csv",
        "d/b.csv",
        "d/ä.csv",
    ]


def test_a_name_that_exists_is_not_a_pattern(tmp_path: Path) -> None:
    make(tmp_path, "run=[abc]/1.csv", "run=a/9.csv", "x*.csv", "x1.csv")
    assert names(tmp_path, "run=[abc]") == ["run=[abc]/1.csv"]
    assert names(tmp_path, "x*.csv") == ["x*.csv"]


def test_patterns(tmp_path: Path) -> None:
    make(tmp_path, "p1.csv", "p2.csv", "q/p3.csv", "q/r/p4.csv", "q/r/x.csv")
    assert names(tmp_path, "p?.csv") == ["p1.csv", "p2.csv"]
    assert names(tmp_path, "**/p*.csv") == ["p1.csv", "p2.csv", "q/p3.csv", "q/r/p4.csv"]
    assert names(tmp_path, "q/**") == ["q/p3.csv", "q/r/p4.csv", "q/r/x.csv"]
    assert names(tmp_path, "q*") == ["q/p3.csv", "q/r/p4.csv", "q/r/x.csv"]


def test_a_relative_pattern_gives_relative_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "q/p.csv")
    monkeypatch.chdir(tmp_path)
    assert expand_inputs(["**/*.csv"], CSV).files == ("q/p.csv",)
    assert expand_inputs(["q/*.csv"], CSV).files == ("q/p.csv",)


def test_a_pattern_without_a_match_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nothing\*\.csv: no file matches"):
        names(tmp_path, "nothing*.csv")


def test_hidden_and_stray_files_are_passed_over_and_reported(tmp_path: Path) -> None:
    make(tmp_path, "d/a.csv", "d/._a.csv", "d/_SUCCESS", "d/.git/x.csv", "d/README.md")
    found = expand_inputs([str(tmp_path / "d")], CSV)
    assert [os.path.basename(f) for f in found.files] == ["a.csv"]
    text = "\n".join(found.notices)
    assert "3 hidden names skipped" in text
    assert "README.md" in text


def test_hidden_files_of_a_pattern(tmp_path: Path) -> None:
    make(tmp_path, "a.csv", "_b.csv", "._a.csv", "notes.txt")
    found = expand_inputs([str(tmp_path / "*")], CSV)
    assert [os.path.basename(f) for f in found.files] == ["a.csv"]
    assert "_b.csv" in "\n".join(found.notices)
    assert "notes.txt" in "\n".join(found.notices)
    assert names(tmp_path, "_*.csv") == ["_b.csv"]


def test_a_file_named_by_itself_may_be_hidden_and_end_in_anything(tmp_path: Path) -> None:
    make(tmp_path, ".x.dat")
    assert names(tmp_path, ".x.dat") == [".x.dat"]


def test_a_missing_file_gets_a_suggestion(tmp_path: Path) -> None:
    make(tmp_path, "penguins.csv")
    with pytest.raises(SourceError, match=r'pengiuns\.csv: no such file.*"penguins\.csv"'):
        names(tmp_path, "pengiuns.csv")


def test_a_folder_of_other_files_is_an_error_naming_it(tmp_path: Path) -> None:
    make(tmp_path, "d/x.txt")
    with pytest.raises(SourceError, match=r"d: holds no file ending in \.csv.*only x\.txt"):
        names(tmp_path, "d")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"empty: holds no file.*nothing"):
        names(tmp_path, "empty")


def test_link_loops_end_and_links_are_followed(tmp_path: Path) -> None:
    make(tmp_path, "d/a.csv", "other/b.csv")
    (tmp_path / "d/loop").symlink_to("..", target_is_directory=True)
    (tmp_path / "d/loop2").symlink_to(".", target_is_directory=True)
    (tmp_path / "d/gone.csv").symlink_to("nowhere.csv")
    found = expand_inputs([str(tmp_path / "d")], CSV)
    assert [os.path.basename(f) for f in found.files] == ["a.csv", "b.csv"]
    assert "gone.csv" in "\n".join(found.notices)
    assert "loop2" in "\n".join(found.notices)
    assert len(expand_inputs([str(tmp_path / "**/*.csv")], CSV).files) == 2


def test_a_real_folder_goes_before_a_link_to_it(tmp_path: Path) -> None:
    make(tmp_path, "d/z/a.csv")
    (tmp_path / "d/link").symlink_to("z", target_is_directory=True)
    assert names(tmp_path, "d") == ["d/z/a.csv"]


def test_a_file_reached_twice_is_read_once_and_said(tmp_path: Path) -> None:
    make(tmp_path, "d/a.csv")
    (tmp_path / "d/latest.csv").symlink_to("a.csv")
    found = expand_inputs([str(tmp_path / "d"), str(tmp_path / "d/a.csv")], CSV)
    assert [os.path.basename(f) for f in found.files] == ["a.csv"]
    assert any("read once: latest.csv, a.csv" in n for n in found.notices)


def test_a_link_beside_its_file_is_read_once_under_one_pattern(tmp_path: Path) -> None:
    make(tmp_path, "d/a.csv")
    (tmp_path / "d/b.csv").symlink_to("a.csv")
    assert names(tmp_path, "d/*.csv") == ["d/a.csv"]
    assert names(tmp_path, "d") == ["d/a.csv"]


def test_links_to_folders_are_told(tmp_path: Path) -> None:
    make(tmp_path, "other/x/a.csv", "d/b.csv")
    (tmp_path / "d/all").symlink_to("../other", target_is_directory=True)
    assert walk(str(tmp_path / "d")).linked
    assert not walk(str(tmp_path / "other")).linked


class Listing:
    """What `os.scandir` gives, in an order that a file system might have."""

    def __init__(self, folder: str, backwards: bool) -> None:
        with real_scandir(folder) as entries:
            self._entries = sorted(entries, key=lambda e: e.name, reverse=backwards)

    def __enter__(self) -> Iterator[os.DirEntry[str]]:
        return iter(self._entries)

    def __exit__(self, *_: object) -> None:
        pass


real_scandir = os.scandir


@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_entered_first_does_not_depend_on_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    make(tmp_path, "other/a.csv", "d/x/1.csv", "d/y/2.csv", "more/b.csv")
    for name, target in (("n", "other"), ("m", "other"), ("x/up", "more"), ("y/up", "more")):
        (tmp_path / "d" / name).symlink_to(tmp_path / target, target_is_directory=True)
    monkeypatch.setattr(os, "scandir", lambda folder: Listing(folder, backwards))
    found = walk(str(tmp_path / "d"))
    assert [os.path.relpath(path, tmp_path / "d") for path in found.again] == ["n", "x/up"]
    inside = [os.path.relpath(path, tmp_path / "d") for path in found.files]
    assert inside == ["m/a.csv", "x/1.csv", "y/2.csv", "y/up/b.csv"]


def test_names_that_are_not_utf8_are_read_and_can_be_shown(tmp_path: Path) -> None:
    try:
        make(tmp_path, os.fsdecode(b"d/caf\xe9.csv"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    found = expand_inputs([str(tmp_path / "d")], CSV)
    assert os.fsencode(found.files[0]).endswith(b"caf\xe9.csv")
    assert display(found.files[0]).encode().endswith(rb"caf\xe9.csv")


def test_standard_input_is_copied_and_removed_at_exit(tmp_path: Path) -> None:
    code = (
        "import sys; from tfrec_cli.sources.files import expand_inputs as e;"
        f"f = e(['-'], ['.csv'], {str(tmp_path)!r}).files[0]; print(f);"
        "print(open(f, 'rb').read())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=b"a\n1\n", capture_output=True, check=True
    )
    path, content = run.stdout.decode().splitlines()
    assert content == repr(b"a\n1\n")
    assert path.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_named_pipe_is_copied(tmp_path: Path) -> None:
    pipe = tmp_path / "rows"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", f"printf '\\037\\213\\010rest' > {pipe}"])
    spools = Spools(str(tmp_path))
    (copy,) = settle_streams([str(pipe)], spools)
    writer.wait()
    assert Path(copy).read_bytes() == b"\x1f\x8b\x08rest"
    assert copy.endswith("rows.gz")
    del spools
    assert list(tmp_path.iterdir()) == [pipe]


def test_urls_are_copied_first(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    store.pipe({"/b/data/x.csv": b"a\n1\n", "/b/data/y=1/z.csv": b"a\n2\n", "/b/n.txt": b""})
    folder = expand_inputs(["memory://b/data"], CSV, str(tmp_path)).files
    assert [Path(f).read_bytes() for f in folder] == [b"a\n1\n", b"a\n2\n"]
    assert [os.path.relpath(f, tmp_path).split("/", 1)[1] for f in folder] == [
        "data/x.csv",
        "data/y=1/z.csv",
    ]
    single = expand_inputs(["memory://b/data/x.csv"], CSV, str(tmp_path)).files
    pattern = expand_inputs(["memory://b/data/*/z.csv"], CSV, str(tmp_path)).files
    assert [os.path.basename(f) for f in single + pattern] == ["x.csv", "z.csv"]
    with pytest.raises(SourceError, match=r"memory://b/gone\.csv: there is no such file"):
        expand_inputs(["memory://b/gone.csv"], CSV, str(tmp_path))
    with pytest.raises(SourceError, match="nosuch://x: cannot be fetched"):
        expand_inputs(["nosuch://x"], CSV, str(tmp_path))


def test_fingerprint_of_a_missing_file_names_it(tmp_path: Path) -> None:
    make(tmp_path, "a.csv")
    assert fingerprint(str(tmp_path / "a.csv")).size == 4
    with pytest.raises(SourceError, match=r"b\.csv: no such file"):
        fingerprint(str(tmp_path / "b.csv"))


def test_walk_lists_folders_too(tmp_path: Path) -> None:
    make(tmp_path, "b/x.csv")
    (tmp_path / "a").mkdir()
    assert [os.path.basename(f) for f in walk(str(tmp_path)).folders] == ["a", "b"]


def test_cells_become_the_bytes_of_the_files_they_name(tmp_path: Path) -> None:
    make(tmp_path, "img/a.bin", "img/ä b.bin")
    absolute = str(tmp_path / "img/a.bin")
    cells = pa.array(["img/a.bin", None, "img/ä b.bin", absolute, "img/a.bin"])
    loaded = load_cells(cells, "path", str(tmp_path / "table.csv"))
    assert loaded.faults == ()
    assert loaded.data.to_pylist() == [b"a\n1\n", None, b"a\n1\n", b"a\n1\n", b"a\n1\n"]
    assert {os.path.basename(f.path) for f in loaded.fingerprints} == {"a.bin", "ä b.bin"}
    assert all(f.crc32c is not None for f in loaded.fingerprints)
    assert cell_sizes(cells, str(tmp_path / "table.csv")).tolist() == [4, 0, 4, 4, 4]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_string(), pa.dictionary(pa.int8(), "str")])
def test_cells_of_any_text_type_name_files(tmp_path: Path, kind: pa.DataType) -> None:
    make(tmp_path, "a")
    cells = pa.array(["a", "a"]).cast(kind)
    assert load_cells(cells, "path", str(tmp_path / "t.csv")).data.to_pylist() == [b"a\n1\n"] * 2


def test_cells_that_name_no_readable_file_are_faults(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg")
    (tmp_path / "empty.jpg").touch()
    cells = pa.array(["a.jpg", "gone.jpg", "empty.jpg", "", ".", "x\0y", "C:\\a.jpg"])
    loaded = load_cells(cells, "path", str(tmp_path / "t.csv"))
    assert [f.row for f in loaded.faults] == [1, 2, 3, 4, 5, 6]
    assert all(f.column == "path" for f in loaded.faults)
    assert "does not exist" in loaded.faults[0].reason
    assert "is empty" in loaded.faults[1].reason
    assert len(loaded.data) == len(cells)


def test_cells_that_name_a_file_too_large_for_a_record_are_faults(tmp_path: Path) -> None:
    make(tmp_path, "large.jpg")
    os.truncate(tmp_path / "large.jpg", 2**40)
    loaded = load_cells(pa.array(["large.jpg"]), "path", str(tmp_path / "t.csv"))
    assert "its record would have 2 GiB or more" in loaded.faults[0].reason


def test_a_large_file_is_not_copied(tmp_path: Path) -> None:
    """Of one file, or of one for each cell, the content that was read is what the cells hold."""
    (tmp_path / "a").write_bytes(b"a" * 2**22)
    (tmp_path / "b").write_bytes(b"b")
    before = pa.default_memory_pool().bytes_allocated()
    loaded = load_cells(pa.array(["a"]), "path", str(tmp_path / "t.csv"))
    assert pa.default_memory_pool().bytes_allocated() - before < 2**16
    assert loaded.data.to_pylist() == [b"a" * 2**22]
    for cells in (["a", "b"], ["b", "a"], ["a", "a", "b"], ["a", None], [None], ["a", ""], []):
        found = load_cells(pa.array(cells, pa.string()), "path", str(tmp_path / "t.csv"))
        content = {"a": b"a" * 2**22, "b": b"b", "": None, None: None}
        assert found.data.to_pylist() == [content[cell] for cell in cells]
