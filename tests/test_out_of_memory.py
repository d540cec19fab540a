"""Memory that runs out is told as that: no file is called damaged for it, and no row left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageFile

import tfrec_cli
from tfrec_cli import compute
from tfrec_cli.export.leaves import restore


def spent(*_args: Any, **_options: Any) -> NoReturn:
    raise pa.ArrowMemoryError("malloc of size 4194304 failed")


def table(kind: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / f"t.{kind}"
        columns = pa.table({"filename": ["a.png"], "xmin": [1.0], "n": [1]})
        (pa_csv.write_csv if kind == "csv" else pq.write_table)(columns, path)
        return path

    return make


def picture(folder: Path) -> Path:
    (folder / "images" / "a").mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(folder / "images" / "a" / "1.png")
    return folder / "images"


@pytest.mark.parametrize(
    ("make", "where", "name", "options"),
    [
        (table("csv"), pa_csv, "read_csv", {}),
        (table("parquet"), pq, "ParquetFile", {}),
        (table("parquet"), pq.ParquetFile, "iter_batches", {}),
        (picture, ImageFile.ImageFile, "load", {"source_options": {"check": "full"}}),
    ],
)
def test_memory_that_runs_out_is_no_fault_of_the_source(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], Path],
    where: Any,
    name: str,
    options: dict[str, Any],
) -> None:
    path = make(tmp_path)
    monkeypatch.setattr(where, name, spent)
    with pytest.raises(MemoryError):
        tfrec_cli.convert(str(path), str(tmp_path / "out"), on_error="skip", **options)
    assert not (tmp_path / "out").exists()


def test_nor_does_it_make_a_value_wrong_on_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "cast", spent, raising=False)
    with pytest.raises(MemoryError):
        restore(pa.array([b"a"]), pa.string())
