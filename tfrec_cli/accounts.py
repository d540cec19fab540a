"""What a run writes of itself, beside the dataset, where an option says: the rows left out, and its
profile. Such a file never takes the place of anything but an older one of its kind.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.errors import UsageError


@dataclass(frozen=True, slots=True)
class Account:
    """A file, or a folder to put one in, as an option names it.

    kind: what the file is, as in "list of rejects". start: what such a file begins with; None is
    for a folder.
    """

    flag: str
    path: str
    kind: str
    start: bytes | None

    @property
    def target(self) -> Path:
        """Where it really is."""
        return Path(os.path.realpath(self.path))

    def __str__(self) -> str:
        return f"{self.flag} {self.path}"


def check_account(account: Account, dest: Dest, sources: Iterable[str] = ()) -> None:
    """Raise UsageError where an account cannot be written, or must not: to standard output, at or
    in DEST, in a source folder, which the next run would read, in the place of something else, or
    where no folder is that can be written.
    """
    if account.path == "-":
        what = "file" if account.start is not None else "folder"
        raise UsageError(f"{account}: standard output holds the summary. Give a {what}.")
    target = account.target
    if account.start is not None and target.is_dir():
        raise UsageError(f"{account} is a folder. Give a file.")
    if dest.kind != "stdout" and _is_at(account, (dest.path, dest.home)):
        raise UsageError(f"{account} lies in DEST. Choose a {_word(account)} outside of it.")
    folders = [Path(os.path.realpath(source)) for source in sources if os.path.isdir(source)]
    if any(folder in (target, *target.parents) for folder in folders):
        raise UsageError(
            f"{account} lies in a source folder. Choose a {_word(account)} outside of it."
        )
    if account.start is None:
        _check_folder(account, target)
    else:
        _check_file(account, target, account.start)


def refuse_same(accounts: Iterable[Account]) -> None:
    """Raise UsageError where one account would be in the place of another, or of its folder."""
    before: list[Account] = []
    for account in accounts:
        for other in before:
            one, two = account.target, other.target
            is_file = account.start is not None or other.start is not None
            if is_file and (one == two or _is_above(account, two) or _is_above(other, one)):
                raise UsageError(f"{account} and {other} are one place. Choose another for one.")
        before.append(account)


def _is_above(account: Account, path: Path) -> bool:
    """Whether a path leads through what is to be a file."""
    return account.start is not None and account.target in path.parents


def _is_at(account: Account, homes: Iterable[Path]) -> bool:
    target = account.target
    real = [Path(os.path.realpath(home)) for home in homes]
    return any(home in (target, *target.parents) or _is_above(account, home) for home in real)


def _word(account: Account) -> str:
    return "folder" if account.start is None else "file"


def _check_file(account: Account, target: Path, start: bytes) -> None:
    if os.path.lexists(target) and not (target.is_file() and _begins(target, start)):
        raise UsageError(
            f"{account} exists and is no {account.kind}. Choose another file, or move it."
        )
    _check_folder(account, target.parent, "there is no folder for it. Make it first")


def _begins(target: Path, start: bytes) -> bool:
    """Whether a file begins so, or is empty."""
    with writing(target, "file"), target.open("rb") as file:
        return file.read(len(start)) in (b"", start)


def _check_folder(account: Account, folder: Path, missing: str = "") -> None:
    """A folder that is not there yet is made later, unless something is to be said of that."""
    if missing and not os.path.lexists(folder):
        raise UsageError(f"{account}: {missing}.")
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise UsageError(f"{account}: {folder} is not a folder. Choose another {_word(account)}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{account}: {folder} cannot be written. Choose another {_word(account)}, or change "
            "its permissions."
        )


@contextmanager
def replacing(path: str, mode: str, **how: Any) -> Iterator[IO[Any]]:
    """A file to write, which is at `path` once it is whole, and until then not at all. mode, how:
    those of `open`. Raises DatasetError where it cannot be written.
    """
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), f".tfrec-{secrets.token_hex(4)}.tmp")
    with writing(path, "file"):
        try:
            with open(temporary, mode, **how) as file:
                yield file
            os.replace(temporary, target)
        finally:
            with suppress(OSError):
                os.unlink(temporary)
