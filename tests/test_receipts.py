"""Receipts of finished tasks: whole or none, whatever happens while they are left."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.errors import DatasetError
from tfrec_cli.receipts import Receipts

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, width=32).filter(lambda x: abs(x) < 1e30),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(receipt=st.dictionaries(st.text(), VALUES))
def test_what_was_left_is_found(tmp_path_factory: pytest.TempPathFactory, receipt: dict) -> None:
    folder = tmp_path_factory.mktemp("receipts")
    Receipts(folder).leave("map-1", receipt)
    assert Receipts(folder).done("map-1") == receipt
    assert Receipts(folder).done("map-2") is None


def test_paths_that_are_not_utf8_are_kept(tmp_path: Path) -> None:
    path = os.fsdecode(b"caf\xe9.png")
    Receipts(tmp_path).leave("shard-0", {"files": [path]})
    assert Receipts(tmp_path).done("shard-0") == {"files": [path]}


def test_a_later_receipt_replaces_the_first_and_forgotten_ones_are_gone(tmp_path: Path) -> None:
    receipts = Receipts(tmp_path)
    receipts.leave("a", {"n": 1})
    receipts.leave("a", {"n": 2})
    assert receipts.done("a") == {"n": 2}
    receipts.forget()
    assert receipts.done("a") is None
    assert os.listdir(tmp_path) == []
    receipts.leave("a", {"n": 3})
    assert receipts.done("a") == {"n": 3}


def test_a_receipt_cut_or_changed_anywhere_is_none(tmp_path: Path) -> None:
    receipts = Receipts(tmp_path)
    receipts.leave("a", {"shard": "x", "bytes": 12})
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at])
        assert receipts.done("a") is None
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert receipts.done("a") is None
    file.write_bytes(whole)
    assert receipts.done("a") is not None


def test_what_the_run_is_stands_there_before_the_first_receipt(tmp_path: Path) -> None:
    folder, asked = tmp_path / "work" / "receipts", []

    def describe() -> dict[str, int]:
        asked.append(1)
        return {"seed": 7}

    receipts = Receipts(folder, describe)
    assert receipts.run() is None
    assert not folder.exists()
    receipts.leave("a", {})
    receipts.leave("b", {})
    assert receipts.run() == {"seed": 7}
    Receipts(folder, describe).leave("c", {})
    assert len(asked) == 1


def test_threads_leave_receipts_side_by_side(tmp_path: Path) -> None:
    receipts = Receipts(tmp_path, lambda: {"run": True})
    threads = [
        threading.Thread(target=receipts.leave, args=(f"t-{n % 20}", {"n": n % 20}))
        for n in range(60)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [receipts.done(f"t-{n}") for n in range(20)] == [{"n": n} for n in range(20)]
    assert len(os.listdir(tmp_path)) == 21


def test_without_a_folder_nothing_is_kept() -> None:
    receipts = Receipts(None)
    receipts.leave("a", {})
    receipts.forget()
    assert receipts.done("a") is None
    assert receipts.run() is None


@pytest.mark.parametrize("task", ["", "../a", "a/b", ".hidden", "a" * 300])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, task: str) -> None:
    with pytest.raises(ValueError, match="task"):
        Receipts(tmp_path).leave(task, {})


def test_a_receipt_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match="cannot be written: a part of the path is a file"):
        Receipts(tmp_path / "file" / "receipts").leave("a", {})
