"""Many files read in one call: both bodies find the same bytes and the same facts."""

from __future__ import annotations

import errno
import importlib
import itertools
import os
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
import pytest
from conftest import body_or_skip
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfrec_cli import _kernel


@pytest.fixture(params=["reference", "native"], autouse=True)
def body(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kernel, "_body", body_or_skip(request.param))


def read(paths: list[Path], sizes: list[int], whole: bool = True) -> _kernel.FilesRead:
    names = [os.fsencode(path) for path in paths]
    return _kernel.read_files(names, sizes, whole, lambda work, parts: [*map(work, parts)])


def contents(found: _kernel.FilesRead) -> list[bytes]:
    starts = [0, *found.ends.tolist()]
    data = found.data.to_pybytes()
    return [data[a:b] for a, b in itertools.pairwise(starts)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data=st.lists(st.binary(max_size=300), max_size=70))
def test_files_come_back_to_back_with_their_facts(tmp_path: Path, data: list[bytes]) -> None:
    paths = [tmp_path / str(number) for number in range(len(data))]
    for path, content in zip(paths, data, strict=True):
        path.write_bytes(content)
    found = read(paths, [*map(len, data)])
    assert contents(found) == data
    assert found.facts["error"].tolist() == [0] * len(data)
    assert found.facts["size"].tolist() == [*map(len, data)]
    assert found.facts["crc32c"].tolist() == [*map(crc32c.crc32c, data)]
    assert found.facts["mtime_ns"].tolist() == [os.stat(path).st_mtime_ns for path in paths]


def test_first_bytes_are_read_where_the_rest_is_not_wanted(tmp_path: Path) -> None:
    long, short = tmp_path / "long", tmp_path / "short"
    long.write_bytes(b"0123456789")
    short.write_bytes(b"ab")
    found = read([long, short, long], [4, 4, 0], whole=False)
    assert contents(found)[0] == b"0123"
    assert found.facts["error"].tolist() == [0, _kernel.OTHER_SIZE, 0]
    assert found.facts["crc32c"][0] == crc32c.crc32c(b"0123")


def test_files_that_are_not_as_expected_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(b"good")
    (tmp_path / "grown").write_bytes(b"grown!")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    names = ["good", "grown", "gone", "folder", "good", "pipe"]
    found = read([tmp_path / name for name in names], [4, 5, 4, 4, 4, 4])
    expected = [0, _kernel.OTHER_SIZE, errno.ENOENT, errno.EISDIR, 0, _kernel.OTHER_SIZE]
    assert found.facts["error"].tolist() == expected
    assert found.facts["size"][1] == 6
    assert contents(found)[0] == contents(found)[4] == b"good"


def test_nothing_to_read() -> None:
    found = read([], [])
    assert len(found.data) == len(found.ends) == len(found.facts) == 0


@pytest.mark.parametrize("change", [{"sizes": [3, 2]}, {"sizes": [-1, 4]}, {"facts": 1}])
def test_native_writes_nowhere_but_into_its_buffers(tmp_path: Path, change: dict[str, Any]) -> None:
    native = importlib.import_module(body_or_skip("native")._native.__name__)
    (tmp_path / "x").write_bytes(b"xxx")
    sizes = np.array(change.get("sizes", [2, 2]), np.int64)
    facts = np.zeros(change.get("facts", 2), _kernel.FILE_FACTS)
    with pytest.raises(ValueError, match="too small"):
        native.read_files((os.fsencode(tmp_path / "x"),) * 2, sizes, True, bytearray(4), facts)
