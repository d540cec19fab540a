"""Faults at every step of a run: afterwards the old dataset is there or the new, never a mixture.

Whatever strikes, DEST is judged byte by byte against a run that nothing struck, and the next
command restores and cleans up what was left.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults import (
    ALL,
    CHANGES,
    MOVE,
    NOBODY,
    WRITE,
    Call,
    Ended,
    Fault,
    Run,
    Server,
    build,
)

from tfrec_cli.dataset.naming import parse_dest

SOURCES = {"t.csv", "old.csv", "s.yaml", "names.txt", "one.bin", "two.bin"}
SCHEMA = """version: 1
features:
  n: int64
  text: bytes
  c: {type: int64, labels: names.txt}
  x: {column: path, type: bytes, load: file}
"""
ROOT = os.geteuid() == 0
# One in so many of the calls of each scene is struck; with 1, all of them. Kills strike all always.
STRIDE = int(os.environ.get("TFREC_FAULT_STRIDE", "4"))
NARROW = min(2, STRIDE)
NONE = Fault()


@dataclass(frozen=True)
class Scene:
    """A run of `tfrec convert`, and what it meets at DEST.

    before: `nothing`, an `empty` folder, or an `old` dataset, which it replaces. plain: the file
    system cannot exchange two names. inside: only DEST itself may be written to.
    """

    options: tuple[str, ...] = ("--shards", "2")
    dest: str = "out"
    before: str = "nothing"
    plain: bool = False
    inside: bool = False

    @property
    def user(self) -> int | None:
        """Who runs it: root may write everywhere."""
        return NOBODY if self.inside and ROOT else None


SPILLED = ("--shuffle", "--memory", "1", "--split", "a=0.5,b=0.5")
SCENES = {
    "new folder": Scene(),
    "empty folder": Scene(before="empty"),
    "exchanged": Scene(before="old"),
    "moved aside": Scene(before="old", plain=True),
    "empty, inside": Scene(before="empty", inside=True),
    "replaced inside": Scene(before="old", inside=True),
    "folders above it": Scene(dest="sub/deep/out"),
    "new file": Scene((), "out.tfrecord"),
    "replaced file": Scene(("--shuffle",), "out.tfrecord.gz", before="old"),
    "file in a folder above it": Scene((), "sub/out.tfrec"),
    "splits": Scene(("--split", "a=0.5,b=0.5", "--shards", "2", "--compression", "gzip")),
    "spilled": Scene((*SPILLED, "-j", "1"), before="old"),
    "spilled by threads": Scene((*SPILLED, "-j", "3", "--shards", "3")),
    "shuffled by a schema": Scene(("--schema", "s.yaml", *SPILLED, "-j", "1", "--shards", "2")),
    "indexed": Scene(("--schema", "s.yaml", "--index", "dali,tfindex", "--verify")),
}


@dataclass(frozen=True)
class Stage:
    """A scene that is ready to be played again and again.

    template: the folder as it is before. old, new: what is at DEST before, and after a run that
    nothing struck. calls: how many that run made, of all kinds.
    """

    scene: Scene
    template: Path
    old: dict[str, bytes | None]
    new: dict[str, bytes | None]

    def args(self, *more: str) -> list[str]:
        """The command line."""
        return ["convert", "t.csv", self.scene.dest, *self.scene.options, "--quiet", *more]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        if library is None:
            pytest.skip("faults are done by a library that is compiled, on Linux")
        found = Server(library)
        yield found
        found.close()


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder in memory where there is such a place, that everybody may enter."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="tfrec-faults-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


class Theatre:
    """Plays scenes, each time in a new folder."""

    def __init__(self, server: Server, place: Path) -> None:
        self.server, self._place = server, place
        self._stages: dict[str, Stage] = {}
        self._number = 0

    def stage(self, name: str) -> Stage:
        """The scene of that name, ready to be played."""
        if name not in self._stages:
            self._stages[name] = self._build(name, SCENES[name])
        return self._stages[name]

    def folder(self, stage: Stage) -> Path:
        """A folder as it is before the scene."""
        self._number += 1
        folder = self._place / str(self._number)
        shutil.copytree(stage.template, folder)
        if stage.scene.inside:
            dest = folder / stage.scene.dest
            if ROOT:
                for path in (dest, *dest.iterdir()):
                    os.chown(path, NOBODY, NOBODY)
            else:
                os.chmod(folder, 0o555)
        return folder

    def play(self, stage: Stage, folder: Path, fault: Fault = NONE, *more: str) -> Ended:
        """One run of the scene."""
        more = more or (("--overwrite",) if stage.scene.before == "old" else ())
        fault = Fault(fault.number, fault.act, fault.value, fault.kinds, stage.scene.plain)
        return self.server.run(Run(folder, stage.args(*more), fault, stage.scene.user))

    def _build(self, name: str, scene: Scene) -> Stage:
        template = self._place / name
        template.mkdir()
        rows = [
            f"{n},{'w' * (n % 5)}{n},{'xyz'[n % 3]},{('one', 'two')[n % 2]}.bin" for n in range(6)
        ]
        (template / "t.csv").write_text("\n".join(["n,text,c,path", *rows]) + "\n")
        (template / "old.csv").write_text("a,b\n1,x\n2,y\n3,z\n4,zz\n")
        (template / "s.yaml").write_text(SCHEMA)
        (template / "names.txt").write_text("x\ny\nz\n")
        (template / "one.bin").write_bytes(b"\1" * 11)
        (template / "two.bin").write_bytes(b"\2" * 22)
        for path in template.iterdir():
            os.utime(path, (1e9, 1e9))
        old: dict[str, bytes | None] = {}
        if scene.before == "old":
            shards = ("--shards", "3") if parse_dest(scene.dest).kind == "folder" else ()
            args = ["convert", "old.csv", scene.dest, "--quiet", *shards]
            assert self.server.run(Run(template, args)).code == 0
            old = owned(scene, template)[0]
        if scene.before == "empty" or (scene.inside and not old):
            (template / scene.dest).mkdir()
        stage = Stage(scene, template, old, {})
        folder = self.folder(stage)
        ended = self.play(stage, folder)
        assert (ended.code, ended.err) == (0, "")
        new, left = owned(scene, folder)
        assert left == []
        self.clear(folder)
        return Stage(scene, template, old, new)

    @staticmethod
    def clear(folder: Path) -> None:
        """Remove a folder that was played in."""
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def theatre(server: Server, place: Path) -> Theatre:
    return Theatre(server, place)


def owned(scene: Scene, folder: Path) -> tuple[dict[str, bytes | None], list[str]]:
    """What is at DEST (for a file in its hidden folder, too), and what else there is but sources.

    Both by their paths in the folder; folders are None.
    """
    dest = parse_dest(str(folder / scene.dest))
    places = {dest.path, dest.home}
    at_dest: dict[str, bytes | None] = {}
    left = []
    for path in sorted(folder.rglob("*")):
        above = {path, *path.parents}
        staged = (
            re.match(r"\.tfrec-", str(path.relative_to(dest.path))) if dest.path in above else 0
        )
        if places & above and not staged:
            if path not in places or path.is_file():
                at_dest[str(path.relative_to(folder))] = bytes_of(path) if path.is_file() else None
        elif path.name not in SOURCES:
            left.append(path)
    parents = places if at_dest else set()
    return at_dest, [
        str(p.relative_to(folder)) for p in left if not any(p in x.parents for x in parents)
    ]


def bytes_of(path: Path) -> bytes:
    """What a file holds; of a manifest all but which files the sources are: each folder has its
    own.
    """
    return elsewhere(path, path.read_bytes())


def elsewhere(path: Path, data: bytes) -> bytes:
    """As `bytes_of`, of what was read at `path`."""
    if path.name != "manifest.json":
        return data
    return re.sub(rb', "inode": \d+, "ctime_ns": \d+', b"", data)


def state(stage: Stage, folder: Path) -> str:
    """`old`, `new`, `none` or `mixture`: what is at DEST."""
    found = owned(stage.scene, folder)[0]
    if not found:
        return "none"
    return {repr(stage.old): "old", repr(stage.new): "new"}.get(repr(found), "mixture")


def seen(stage: Stage, folder: Path) -> str:
    """The same, as a reader sees it who knows nothing of what is hidden or not yet complete."""
    if parse_dest(stage.scene.dest).kind == "folder":
        found = state(stage, folder)
        whole = found != "mixture" or (folder / stage.scene.dest / "manifest.json").exists()
        return found if whole or not stage.scene.inside else "none"
    file = folder / stage.scene.dest
    if not file.exists():
        return "none"
    names = {stage.old.get(stage.scene.dest): "old", stage.new[stage.scene.dest]: "new"}
    return names.get(file.read_bytes(), "mixture")


def is_one_line(err: str) -> bool:
    """Whether it is one line for a user, and no fault of ours."""
    return (
        re.fullmatch("\n?tfrec: [^\n]+\n", err) is not None
        and "fault in tfrec" not in err
        and "Errno" not in err
    )


def check(theatre: Theatre, stage: Stage, folder: Path, ended: Ended, what: object) -> str:
    """What must hold after any fault; returns what was at DEST. Removes the folder.

    Nothing is mixed, the next command restores what was there, and the next run brings the new
    dataset and cleans up.
    """
    without = stage.scene.before != "old" or stage.scene.plain or stage.scene.inside
    first = seen(stage, folder)
    assert first in {"old", "new", "none"} - (set() if without else {"none"}), what
    left = owned(stage.scene, folder)[1]
    if left or first not in ("old", "new"):
        args = ["verify", stage.scene.dest]
        verified = theatre.server.run(Run(folder, args, user=stage.scene.user))
        assert (verified.code == 1) == (state(stage, folder) == "none"), (what, verified)
    second = state(stage, folder)
    assert second in ({"old", "new"} if stage.scene.before == "old" else {"none", "new"}), what
    if ended.code == 0:
        assert second == "new", what
    again = theatre.play(stage, folder, NONE, "--overwrite")
    assert (again.code, again.err) == (0, ""), (what, again)
    assert state(stage, folder) == "new", what
    assert owned(stage.scene, folder)[1] == [], what
    theatre.clear(folder)
    return second


def steps(
    theatre: Theatre,
    stage: Stage,
    kinds: int = CHANGES,
    last: bool = False,
    stride: int = STRIDE,
) -> list[tuple[int, Call]]:
    """The calls of a run by number, one in `stride` of them; of many that are alike the first (and
    the last).
    """
    folder = theatre.folder(stage)
    ended = theatre.play(stage, folder, Fault(kinds=kinds))
    assert ended.code == 0
    theatre.clear(folder)
    alike: dict[str, list[tuple[int, Call]]] = {}
    for number, call in enumerate(ended.calls, 1):
        kind = re.sub(r"[0-9a-f]{5,}|runs-\w+|\d+-\d+$", "*", f"{call.name} {call.path}")
        alike.setdefault(kind, []).append((number, call))
    found = sorted({step for a in alike.values() for step in (a[0], a[-1 if last else 0])})
    # Where only some are asked for, each scene has others; the last is one of them.
    first = sum(map(ord, str(stage.scene))) % stride
    return [*found[first:-1:stride], *found[-1:]]


def kill(theatre: Theatre, stage: Stage, fault: Fault) -> str:
    """Kill a run; what was at DEST in the end."""
    folder = theatre.folder(stage)
    ended = theatre.play(stage, folder, fault)
    # With threads a run may have fewer calls than the one that they were counted in.
    assert ended.code == -signal.SIGKILL or not ended.struck, (fault, ended)
    return check(theatre, stage, folder, ended, (fault, ended))


def interrupt(theatre: Theatre, stage: Stage, fault: Fault) -> None:
    """Send a run a signal that it may answer to."""
    folder = theatre.folder(stage)
    ended = theatre.play(stage, folder, fault)
    what = (fault, ended, owned(stage.scene, folder)[1])
    if ended.code:
        assert ended.code == 128 + fault.value, what
        assert is_one_line(ended.err), what
    # What is terminated keeps its finished shards for a run that goes on.
    assert owned(stage.scene, folder)[1] == [] or fault.value != signal.SIGINT, what
    check(theatre, stage, folder, ended, what)


def refuse(theatre: Theatre, stage: Stage, fault: Fault) -> None:
    """Have calls of a run fail."""
    folder = theatre.folder(stage)
    ended = theatre.play(stage, folder, fault)
    what = (fault, errno.errorcode[fault.value], ended)
    if ended.code:
        # A schema that cannot be read is wrong usage; what was written and cannot be read, damage.
        reads = [call.path for call in ended.calls if call.struck and call.name == "read"]
        assert ended.code == 1 or reads, what
        assert is_one_line(ended.err), what
    check(theatre, stage, folder, ended, what)


INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ERRORS = {
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG),
    "truncate": (errno.EIO,),
    "sync": (errno.EIO, errno.ENOSPC),
    "create": (errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.EROFS, errno.EIO),
    "read": (errno.EACCES, errno.EMFILE, errno.EIO, errno.ENOENT),
    "mkdir": (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO),
    "rename": (errno.EACCES, errno.EIO, errno.ENOSPC, errno.EROFS, errno.EBUSY),
    "exchange": (errno.EACCES, errno.EIO, errno.ENOSPC, errno.EROFS, errno.EBUSY),
    "unlink": (errno.EACCES, errno.EIO, errno.EROFS),
    "rmdir": (errno.EACCES, errno.EIO, errno.EROFS),
    "link": (errno.EACCES,),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_killed_at_any_call(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    found = {
        kill(theatre, stage, Fault(number, "signal", signal.SIGKILL))
        for number, _ in steps(theatre, stage, last=True, stride=1)
    }
    assert found == {"old" if stage.scene.before == "old" else "none", "new"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_killed_within_any_write(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    found = {
        kill(theatre, stage, Fault(number, "torn", kinds=WRITE))
        for number, _ in steps(theatre, stage, WRITE, stride=1)
    }
    assert found == {"old" if stage.scene.before == "old" else "none"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_interrupted_at_any_call(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    for number, _ in steps(theatre, stage, stride=NARROW):
        interrupt(theatre, stage, Fault(number, "signal", INTERRUPTS[number % 3]))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_any_call_may_be_refused(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    # Another error number at the same call in another scene.
    shift = list(SCENES).index(name)
    for turn, (number, call) in enumerate(steps(theatre, stage, ALL, stride=NARROW), shift):
        code = ERRORS[call.name][turn % len(ERRORS[call.name])]
        refuse(theatre, stage, Fault(number, ("fail", "fail on")[turn // 2 % 2], code, ALL))


@pytest.mark.parametrize("name", ["exchanged", "new file", "spilled"])
def test_a_sample_of_all_faults(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    for turn, (number, call) in enumerate(steps(theatre, stage)[::3]):
        if turn % 3 == 0:
            kill(theatre, stage, Fault(number, "signal", signal.SIGKILL))
        elif turn % 3 == 1:
            interrupt(theatre, stage, Fault(number, "signal", signal.SIGTERM))
        else:
            refuse(theatre, stage, Fault(number, "fail", ERRORS[call.name][0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["new folder", "exchanged", "splits", "spilled by threads"])
def test_killed_and_killed_again_a_run_goes_on(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    for number, _ in steps(theatre, stage, last=True):
        folder = theatre.folder(stage)
        fault = Fault(number, "signal", signal.SIGKILL)
        assert theatre.play(stage, folder, fault).code != 0
        theatre.play(stage, folder, Fault(number * 7 % 40 + 1, "torn"), "--resume")
        ended = theatre.play(stage, folder, NONE, "--resume")
        if ended.code:
            # Nothing was begun that could be gone on with.
            assert state(stage, folder) == "old", (number, ended)
            ended = theatre.play(stage, folder, NONE, "--overwrite")
        assert (ended.code, state(stage, folder)) == (0, "new"), (number, ended)
        assert owned(stage.scene, folder)[1] == []
        theatre.clear(folder)


@pytest.mark.parametrize("name", ["exchanged", "spilled"])
def test_writes_that_take_half_of_what_they_are_given(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    folder = theatre.folder(stage)
    ended = theatre.play(stage, folder, Fault(1, "short"))
    assert ended.struck
    check(theatre, stage, folder, ended, ended)


@pytest.mark.parametrize("name", ["new folder", "moved aside", "replaced inside", "new file"])
def test_all_is_on_the_disk_before_it_is_put_in_place(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    folder = theatre.folder(stage)
    calls = [(call.name, call.path) for call in theatre.play(stage, folder).calls]
    theatre.clear(folder)
    ready = next(n for n, (name, path) in enumerate(calls) if path.endswith("/ready"))
    assert calls[ready][0] == "rename"
    staged = {p for name, p in calls[:ready] if name == "write" and re.search("/(data|side)/", p)}
    assert len(staged) >= 3
    for path in (*staged, calls[ready][1] + ".draft"):
        written = max(n for n, call in enumerate(calls) if call == ("write", path))
        assert ("sync", path) in calls[written:ready], path
        made = max(n for n, call in enumerate(calls) if call == ("create", path))
        if not path.endswith(".draft"):
            assert ("sync", os.path.dirname(path)) in calls[made:ready], path
    for number, (name, path) in enumerate(calls):
        if name == "rename" and "receipts/shard-" in path:
            shard = calls[max(n for n in range(number) if calls[n][0] == "sync")][1]
            assert "/data/" in shard
    assert ("sync", os.path.dirname(calls[ready][1])) == calls[ready + 1]
    moved = max(n for n, (name, _) in enumerate(calls) if name in ("rename", "exchange"))
    parent = stage.scene.dest if stage.scene.inside else ""
    assert calls[moved + 1] == ("sync", parent)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["exchanged", "moved aside", "replaced inside", "replaced file", "spilled"]
)
def test_a_dataset_is_replaced_under_a_reader(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    old = {path: data for path, data in stage.old.items() if data is not None}
    for number, call in steps(theatre, stage, MOVE):
        folder = theatre.folder(stage)
        with ExitStack() as after:
            handles = {p: after.enter_context(open(folder / p, "rb")) for p in old}
            begun = {path: file.read(10) for path, file in handles.items()}
            stopped = theatre.play(stage, folder, Fault(number, "signal", signal.SIGSTOP, MOVE))
            assert stopped.code is None
            found = seen(stage, folder)
            assert found in ("old", "new", "none"), call
            assert found != "none" or stage.scene.plain or stage.scene.inside, call
            for path in owned(stage.scene, folder)[0]:
                assert bytes_of(folder / path) in (old.get(path), stage.new.get(path))
            ended = theatre.server.go_on(stopped)
            for path, file in handles.items():
                assert elsewhere(folder / path, begun[path] + file.read()) == old[path]
        assert (ended.code, state(stage, folder)) == (0, "new")
        theatre.clear(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["new folder", "exchanged", "replaced inside", "replaced file"])
def test_two_runs_onto_one_dest(theatre: Theatre, name: str) -> None:
    """Wherever the first is, the second is refused and names it, or comes before it as a whole."""
    stage = theatre.stage(name)
    refused = 0
    for number, _ in steps(theatre, stage, ALL):
        folder = theatre.folder(stage)
        first = theatre.play(stage, folder, Fault(number, "signal", signal.SIGSTOP, ALL))
        assert first.code is None
        second = theatre.play(stage, folder)
        if second.code:
            assert is_one_line(second.err)
            assert re.search(rf"another run( \(process {first.pid}\))?\.", second.err)
            refused += f"process {first.pid}" in second.err
        else:
            assert state(stage, folder) == "new"
        ended = theatre.server.go_on(first)
        check(theatre, stage, folder, ended, (number, first, second, ended))
    assert refused > 40 // STRIDE


@pytest.mark.slow
@pytest.mark.skipif(not ROOT, reason="runs are those of two users")
@pytest.mark.parametrize("name", ["empty, inside", "replaced inside"])
@pytest.mark.parametrize("users", [(NOBODY, None), (None, NOBODY)], ids=["below", "above"])
def test_two_runs_of_users_with_other_rights(
    theatre: Theatre, name: str, users: tuple[int | None, int | None]
) -> None:
    """Only one of them may write to the folder above DEST: their locks are not in one place."""
    stage = theatre.stage(name)
    refused = 0
    for number, _ in steps(theatre, stage, ALL):
        folder = theatre.folder(stage)
        args = stage.args("--overwrite")
        fault = Fault(number, "signal", signal.SIGSTOP, ALL)
        first = theatre.server.run(Run(folder, args, fault, users[0]))
        # A run beside DEST has fewer calls.
        if first.code is None:
            second = theatre.server.run(Run(folder, args, NONE, users[1]))
            if second.code:
                assert is_one_line(second.err)
                assert re.search(rf"another run( \(process {first.pid}\))?\.", second.err)
                refused += f"process {first.pid}" in second.err
            ended = theatre.server.go_on(first)
            assert ended.code in (0, 1), ended
            assert not ended.code or is_one_line(ended.err), ended
        assert state(stage, folder) == "new"
        assert owned(stage.scene, folder)[1] == []
        theatre.clear(folder)
    assert refused > 40 // STRIDE


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    os.truncate(path, 40)


def grow(path: Path) -> None:
    with open(path, "a") as file:
        file.write("9,nine,x,one.bin\n")


def turn(path: Path) -> None:
    """Other values, in as many bytes."""
    path.write_text(path.read_text().replace("w", "v"))


def exchange(path: Path) -> None:
    """Another file of the same name."""
    path.unlink()
    path.write_text("n,text,c,path\n7,seven,x,two.bin\n8,eight,y,two.bin\n")


def shards(found: Mapping[str, bytes | None]) -> list[bytes | None]:
    return [data for name, data in sorted(found.items()) if ".tfrecord" in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exchanged", "spilled by threads"])
@pytest.mark.parametrize("change", [remove, cut, grow, turn, exchange])
def test_a_source_changes_during_the_run(
    theatre: Theatre, name: str, change: Callable[[Path], None]
) -> None:
    change_at_each_step(theatre, name, "t.csv", change)


def restamp(path: Path) -> None:
    """Other bytes, as many as before, under the old time: in files that no table is."""
    was = os.stat(path)
    other = {
        "one.bin": b"\3" * 11,
        "names.txt": b"z\ny\nx\n",
        "s.yaml": SCHEMA.replace("n: int64", "n: float").encode(),
    }
    path.write_bytes(other[path.name])
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


@pytest.mark.slow
@pytest.mark.parametrize("file", ["one.bin", "names.txt", "s.yaml"])
@pytest.mark.parametrize("name", ["indexed", "shuffled by a schema"])
def test_a_file_beside_the_table_changes_during_the_run(
    theatre: Theatre, name: str, file: str
) -> None:
    """One that cells name, one of labels, the schema."""
    change_at_each_step(theatre, name, file, restamp)


def change_at_each_step(
    theatre: Theatre, name: str, file: str, change: Callable[[Path], None]
) -> None:
    """Change a file at each step of a run: it is told, or was read as a whole before or after."""
    stage = theatre.stage(name)
    folder = theatre.folder(stage)
    change(folder / file)
    other = theatre.play(stage, folder)
    changed = shards(owned(stage.scene, folder)[0])
    theatre.clear(folder)
    assert changed != shards(stage.new)
    before = "old" if stage.scene.before == "old" else "none"
    codes = set()
    for number, _ in steps(theatre, stage, ALL):
        folder = theatre.folder(stage)
        stopped = theatre.play(stage, folder, Fault(number, "signal", signal.SIGSTOP, ALL))
        change(folder / file)
        ended = theatre.server.go_on(stopped)
        codes.add(ended.code)
        if ended.code:
            assert ended.code == 1
            assert is_one_line(ended.err), ended
            assert file in ended.err, ended
            assert state(stage, folder) == before
        else:
            found = shards(owned(stage.scene, folder)[0])
            # Before it was looked at, or when all was read.
            assert found in ([changed] if other.code == 0 else []) + [shards(stage.new)]
        assert owned(stage.scene, folder)[1] == []
        theatre.clear(folder)
    assert codes == {0, 1}


@pytest.fixture
def disk(place: Path) -> Iterator[Callable[[int], Path]]:
    """A function that mounts a file system of so many kB, or makes it larger."""
    folder = place / "disk"
    folder.mkdir()
    mounted = False

    def mount(size: int) -> Path:
        nonlocal mounted
        how = f"remount,size={size}k" if mounted else f"size={size}k,mode=755"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", how, "tmpfs", folder], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("file systems cannot be mounted here")
        mounted = True
        return folder

    yield mount
    if mounted:
        subprocess.run(["umount", folder], check=True)
    folder.rmdir()


@pytest.mark.slow
@pytest.mark.skipif(not ROOT, reason="mounts a file system")
@pytest.mark.parametrize("name", ["exchanged", "replaced file", "spilled", "splits"])
def test_a_file_system_that_fills(theatre: Theatre, disk: Callable[[int], Path], name: str) -> None:
    stage = theatre.stage(name)
    codes = []
    top = disk(1 << 20)
    for free in (*range(0, 100, 4), *(1 << n for n in range(7, 18))):
        folder = Path(shutil.copytree(stage.template, top / "t"))
        used = (os.statvfs(top).f_blocks - os.statvfs(top).f_bfree) * 4
        disk(used + free or 4)
        ended = theatre.play(stage, folder)
        disk(1 << 20)
        codes.append(ended.code)
        if ended.code:
            assert ended.code == 1
            assert is_one_line(ended.err), ended
            assert re.search("full|free", ended.err), ended
            assert owned(stage.scene, folder)[1] == []
        check(theatre, stage, folder, ended, (free, ended))
        if not ended.code:
            break
    assert codes[-1] == 0
    assert codes.count(1) > 4


LIMITS = [("RLIMIT_FSIZE", size) for size in (0, 1, 100, 200, 400, 800, 1600, 3200)]
LIMITS += [("RLIMIT_NOFILE", count) for count in (3, 5, 6, 7, 8, 9, 10, 12, 16, 24)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exchanged", "spilled by threads", "replaced file"])
def test_limits_of_the_process(theatre: Theatre, name: str) -> None:
    stage = theatre.stage(name)
    codes = set()
    for limit, most in LIMITS:
        folder = theatre.folder(stage)
        run = Run(folder, stage.args("--overwrite"), NONE, stage.scene.user, {limit: most})
        ended = theatre.server.run(run)
        what = (limit, most, ended.code, ended.err)
        codes.add((limit, ended.code))
        if ended.code:
            assert ended.code == 1, what
            assert is_one_line(ended.err), what
            # To remove a folder it must be opened.
            assert limit == "RLIMIT_NOFILE" or owned(stage.scene, folder)[1] == [], what
        check(theatre, stage, folder, ended, what)
    assert {
        (limit, code) for limit in ("RLIMIT_FSIZE", "RLIMIT_NOFILE") for code in (0, 1)
    } <= codes


# How Arrow ends without memory, and the loader of the system where a thread has none for its data.
GIVEN_UP = (-signal.SIGABRT, 127)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--shuffle",), ("--compression", "gzip", "-j", "3")])
def test_memory_runs_out(server: Server, place: Path, options: tuple[str, ...]) -> None:
    """One line or, where a library gives up in its own way, no word: DEST is whole or not there."""
    rows = "".join(f"{n},{'w' * 1000}{n}\n" for n in range(20_000))
    codes, whole = set(), None
    for megabytes in (1000, 24, 40, 60, 80, 100, 120, 160, 200, 250):
        with tempfile.TemporaryDirectory(dir=place) as name:
            folder = Path(name)
            (folder / "t.csv").write_text("a,b\n" + rows)
            os.utime(folder / "t.csv", (1e9, 1e9))
            args = ["convert", "t.csv", "out", "--shards", "2", "--quiet", *options]
            ended = server.run(Run(folder, args, limits={"RLIMIT_AS": megabytes << 20}))
            what = (megabytes, ended.code, ended.err)
            codes.add(ended.code)
            assert ended.code in (0, 1, *GIVEN_UP), what
            if ended.code == 1:
                assert is_one_line(ended.err), what
                assert "out of memory" in ended.err, what
                assert owned(Scene(), folder) == ({}, []), what
            if ended.code:
                assert owned(Scene(), folder)[0] == {}, what
                assert server.run(Run(folder, [*args, "--overwrite"])).code == 0
            found, left = owned(Scene(), folder)
            whole = whole or found
            assert (found == whole, left) == (True, []), what
    assert 0 in codes
    assert len(codes) > 1
