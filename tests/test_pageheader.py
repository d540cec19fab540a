"""What a dictionary page's header tells, and what is not read because of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.sources.pageheader import DictionaryPage, read_dictionary_page


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_values_and_bytes_are_those_of_the_dictionary(
    tmp_path: Path, compression: str, checksum: bool, version: str
) -> None:
    texts = [f"{n % 300}" * (n % 300) for n in range(2000)] + [None]
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"n": range(2001), "x": texts}),
        path,
        compression=compression,
        write_page_checksum=checksum,
        version=version,
    )
    chunk = pq.read_metadata(path).row_group(0).column(1)
    different = set(texts) - {None}
    found = read_dictionary_page(str(path), chunk.dictionary_page_offset)
    assert found == DictionaryPage(len(different), sum(4 + len(t or "") for t in different))


def test_no_other_page_is_taken_for_a_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": ["a", "b"]}), path)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    size = path.stat().st_size
    for at in (0, chunk.data_page_offset, size - 3, size + 9):
        assert read_dictionary_page(str(path), at) is None


@given(st.binary(max_size=60))
def test_whatever_stands_there_raises_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("page") / "a"
    path.write_bytes(data)
    found = read_dictionary_page(str(path), 0)
    assert found is None or 0 <= 4 * found.values <= found.size


def test_a_dictionary_of_giant_values_is_in_memory_as_often_as_decoding_takes(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(1)
    size = 2**18
    cells = [rng.bytes(size) for _ in range(300)]
    path = tmp_path / "giant.parquet"
    pq.write_table(pa.table({"x": cells}), path)
    script = (
        "import sys, pyarrow as pa, tfrec_cli\n"
        "tfrec_cli.convert(sys.argv[1], sys.argv[2], memory=2**24, shuffle=True)\n"
        "print(pa.default_memory_pool().max_memory())"
    )
    command = [sys.executable, "-c", script, str(path), str(tmp_path / "out.tfrecord")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # The page and the dictionary that is made of it, and some batches.
    assert int(printed) < (2 * 300 + 128) * size
