import builtins
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from fnmatch import fnmatch
from pathlib import Path

import crc32c
import pytest

from tfrec_cli.dataset import commit, exchange, locking, recovery, staging
from tfrec_cli.dataset.leftovers import leftovers
from tfrec_cli.dataset.manifest import Manifest, Shard, Split, load_manifest, side_files
from tfrec_cli.dataset.naming import parse_dest
from tfrec_cli.dataset.occupant import check_dest
from tfrec_cli.errors import DatasetError
from tfrec_cli.options import Compression
from tfrec_cli.receipts import Receipts
from tfrec_cli.records.framing import frame, read_records

CALLS = ["mkdir", "rename", "unlink", "rmdir", "fsync", "open"]
KILLED = -signal.SIGKILL


def write(dest, tag, count=2, overwrite=False, sources=(), sync=True, made=None):
    """One run as convert does it: `count` shards of one record, which holds `tag`."""
    dest = parse_dest(str(dest))
    count = count if dest.kind == "folder" else 1
    with staging.staging(dest, overwrite, sources, sync) as stage:
        shards = []
        for name in dest.shards("train", count):
            with stage.writer(name, dest.compression) as writer:
                writer.write(frame(tag.encode()), 1)
                shards.append(writer.close())
        manifest = Manifest(dest.name, dest.compression, (Split("train", tuple(shards)),))
        return stage.commit(manifest, side_files(tag, {"a/b": [tag]}), made)


def holds(path):
    """The tag of the complete dataset at `path`, None where nothing is, `broken` otherwise."""
    path = path if path.is_dir() else parse_dest(str(path)).path
    if not path.exists():
        return None
    if path.is_dir() and not os.listdir(path):
        return None
    manifest = load_manifest(path)
    home = parse_dest(str(path)).home
    if manifest is None or {*os.listdir(home), path.name} - {*manifest.names, path.name}:
        return "broken"
    for shard in manifest.shards:
        if not is_whole(path / shard.name if path.is_dir() else path, shard):
            return "broken"
    return (home / "schema.yaml").read_text()


def is_whole(path, shard):
    return path.exists() and crc32c.crc32c(path.read_bytes()) == shard.crc32c


def inside(monkeypatch):
    monkeypatch.setattr("tfrec_cli.dataset.stageplace._is_mount", lambda path: True)


def aside(monkeypatch):
    monkeypatch.setattr(exchange, "_swap", lambda first, second: errno.EINVAL)


def immovable(monkeypatch):
    """A folder that the system will not rename, as a bind mount."""
    rename = os.rename

    def refuse(first, second):
        if os.path.isdir(second) or os.path.basename(first) == "out":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        rename(first, second)

    monkeypatch.setattr(os, "rename", refuse)
    monkeypatch.setattr(exchange, "_swap", lambda first, second: errno.EBUSY)


WAYS = {
    "new folder": ("out", "nothing", None),
    "empty folder": ("out", "empty", None),
    "exchanged": ("out", "old", None),
    "moved aside": ("out", "old", aside),
    "empty, inside": ("out", "empty", inside),
    "replaced inside": ("out", "old", inside),
    "immovable": ("out", "old", immovable),
    "new file": ("out.tfrecord.gz", "nothing", None),
    "replaced file": ("out.tfrecord", "old", None),
}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    name, before, fault = WAYS[request.param]

    def prepare(folder):
        """DEST in `folder`, which is made, with what lay there before."""
        folder.mkdir()
        dest = folder / name
        if before == "empty":
            dest.mkdir()
        if before == "old":
            write(dest, "old", 4, sync=False)
        return dest

    prepare.before = None if before != "old" else "old"
    prepare.one_by_one = fault in (inside, immovable)
    prepare.fault = lambda: fault and fault(monkeypatch)
    return prepare


def test_every_way_ends_with_the_new_dataset_and_nothing_else(way, tmp_path):
    dest = way(tmp_path / "t")
    before = set(os.listdir(dest.parent)) | {dest.name, parse_dest(str(dest)).home.name}
    way.fault()
    manifest = write(dest, "new", overwrite=True)
    assert holds(dest) == "new"
    assert set(os.listdir(dest.parent)) == before
    assert load_manifest(dest) == manifest
    assert [f.name for f in manifest.files] == ["schema.yaml", "a.b.labels.txt"]
    assert {b"new"} == {
        r for s in manifest.shards for r in read_records(dest / s.name if dest.is_dir() else dest)
    }


def on_call(number, act, monkeypatch):
    """`act(name)` in place of the `number`-th call that changes or opens something."""
    seen = 0

    def watched(name, call):
        def wrapper(*args, **kwargs):
            nonlocal seen
            seen += 1
            if seen == number:
                act(name)
            return call(*args, **kwargs)

        return wrapper

    # Nobody cuts the power here, and the test is to be quick.
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    for name in CALLS:
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    monkeypatch.setattr(builtins, "open", watched("builtin open", builtins.open))
    monkeypatch.setattr(exchange, "_swap", watched("exchange", exchange._swap))


def in_child(run):
    """The exit code of a process that does `run` alone."""
    pid = os.fork()
    if pid == 0:
        try:
            run()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def quick(tmp_path):
    """A folder in memory where the system has such a place, for runs by the hundred."""
    memory = "/dev/shm"
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def test_killed_at_any_call_dest_is_old_or_new(way, quick, monkeypatch):
    seen = set()
    for number in range(1, 500):
        dest = way(quick / str(number))
        with monkeypatch.context() as patch:
            way.fault()
            on_call(number, kill, patch)
            code = in_child(lambda d=dest: write(d, "new", overwrite=True))
        assert code in (KILLED, 0)
        if not way.one_by_one and not (dest.is_file() and way.before):
            assert holds(dest) in (None, way.before, "new")
        if way.one_by_one and (manifest := load_manifest(dest)):
            assert all(is_whole(dest / s.name, s) for s in manifest.shards), number
        recovery.recover(parse_dest(str(dest)), sync=False)
        state = holds(dest)
        assert state in (way.before, "new"), (number, code)
        assert code != 0 or state == "new"
        seen.add(state)
        write(dest, "next", 3, overwrite=True, sync=False)
        assert holds(dest) == "next"
        assert set(os.listdir(dest.parent)) == {dest.name, parse_dest(str(dest)).home.name}
        if code == 0:
            break
    assert number > 25
    assert seen == {way.before, "new"}


def test_a_recovery_can_itself_be_killed_at_any_call(way, quick, monkeypatch):
    for number in range(1, 200):
        dest = way(quick / str(number))
        with monkeypatch.context() as patch:
            patch.setattr(staging, "put", kill)
            if way.one_by_one:
                way.fault()
            assert in_child(lambda d=dest: write(d, "new", overwrite=True, sync=False)) == KILLED
        with monkeypatch.context() as patch:
            way.fault()
            on_call(number, kill, patch)
            code = in_child(lambda d=dest: recovery.recover(parse_dest(str(d))))
        assert code in (KILLED, 0)
        recovery.recover(parse_dest(str(dest)), sync=False)
        assert holds(dest) == "new"
        if code == 0:
            break
    assert number > 5


def in_order(monkeypatch):
    """Folders list `data` before `ready`, as any file system may."""
    real = os.scandir

    def listed(folder):
        with real(folder) as entries:
            return nullcontext(sorted(entries, key=lambda entry: entry.name))

    monkeypatch.setattr(os, "scandir", listed)


def test_what_is_half_thrown_away_is_never_put_in_place(quick, monkeypatch):
    for number in range(1, 100):
        dest = quick / str(number) / "out"
        dest.parent.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(staging, "put", kill)
            assert in_child(lambda d=dest: write(d, "new", sync=False)) == KILLED
        stage = next(p for p in dest.parent.iterdir() if p.is_dir())
        with monkeypatch.context() as patch:
            in_order(patch)
            on_call(number, kill, patch)
            code = in_child(lambda s=stage: commit.discard(s))
        recovery.recover(parse_dest(str(dest)), sync=False)
        assert holds(dest) in (None, "new")
        if code == 0:
            break
    assert number > 5


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_any_call_may_fail_and_nothing_is_left(way, quick, monkeypatch, code):
    for number in range(1, 500):
        dest = way(quick / str(number))
        failed = []

        def fail(name, failed=failed):
            failed.append(name)
            raise OSError(code, os.strerror(code))

        error = None
        with monkeypatch.context() as patch:
            way.fault()
            on_call(number, fail, patch)
            try:
                write(dest, "new", overwrite=True)
            except DatasetError as caught:
                error = caught
        assert error is None or ("\n" not in str(error) and "cannot be" in str(error))
        state = holds(dest)
        if error is None:
            # What failed was the cleaning; the next run does it.
            recovery.recover(parse_dest(str(dest)), sync=False)
            state = holds(dest)
        allowed = ("new",) if error is None else (way.before, "new")
        assert state in allowed, (number, failed, error)
        write(dest, "next", 3, overwrite=True, sync=False)
        assert holds(dest) == "next"
        if not failed:
            break
    assert number > 25


@pytest.mark.parametrize("name", ["out", "sub/deep/out", "out.tfrecord", "sub/out.tfrec"])
@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, None])
def test_without_a_commit_nothing_remains(tmp_path, name, failure):
    def run():
        with staging.staging(parse_dest(str(tmp_path / name))) as stage:
            stage.path("x").write_text("x")
            stage.work.joinpath("scratch").write_text("x")
            if failure:
                raise failure

    if failure:
        with pytest.raises(failure):
            run()
    else:
        run()
    assert os.listdir(tmp_path) == []


def test_missing_parents_are_made(tmp_path):
    write(tmp_path / "a/b/out", "new")
    assert holds(tmp_path / "a/b/out") == "new"


@pytest.mark.parametrize("name", ["out", "out.tfrecord"])
def test_a_finished_dataset_is_replaced_only_when_asked(tmp_path, name):
    write(tmp_path / name, "old", 4)
    with pytest.raises(DatasetError, match=rf"{name} holds a finished dataset.*--overwrite"):
        write(tmp_path / name, "new")
    assert holds(tmp_path / name) == "old"
    write(tmp_path / name, "new", overwrite=True)
    assert holds(tmp_path / name) == "new"


def test_a_shard_that_went_missing_can_be_made_again(tmp_path):
    write(tmp_path / "out", "old")
    next((tmp_path / "out").glob("*-00000-of-*")).unlink()
    write(tmp_path / "out", "new", overwrite=True)
    assert holds(tmp_path / "out") == "new"


def snapshot(folder):
    return {
        p.relative_to(folder): (os.lstat(p).st_mtime_ns, p.read_bytes() if p.is_file() else None)
        for p in [folder, *folder.rglob("*")]
    }


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_tfrec_did_not_write_is_never_touched(tmp_path, overwrite):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "holiday.jpg").write_bytes(b"x")
    web = tmp_path / "web"
    web.mkdir()
    (web / "manifest.json").write_text('{"name": "app"}')
    (tmp_path / "plain").write_text("x")
    (tmp_path / "a.tfrecord").write_bytes(frame(b"theirs"))
    (tmp_path / "d.tfrecord").mkdir()
    broken = tmp_path / "broken"
    write(broken, "old")
    (broken / "manifest.json").write_text('{"tfrec": 1')
    cases = {
        "folder": "holiday.jpg",
        "web": "manifest.json",
        "plain": "not a folder",
        "a.tfrecord": "not as tfrec wrote it",
        "d.tfrecord": "is a folder",
        "broken": "is damaged",
    }
    for name, says in cases.items():
        before = snapshot(tmp_path)
        dest = parse_dest(str(tmp_path / name))
        with pytest.raises(DatasetError, match=says) as caught, staging.staging(dest, overwrite):
            pass
        assert str(tmp_path / name) in str(caught.value)
        after = snapshot(tmp_path)
        assert {k: v for k, v in after.items() if k.name != tmp_path.name and str(k) != "."} == {
            k: v for k, v in before.items() if str(k) != "."
        }


def test_files_added_to_a_dataset_are_not_lost(tmp_path):
    write(tmp_path / "out", "old")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match=r"notes\.txt"):
        write(tmp_path / "out", "new", overwrite=True)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    write(tmp_path / "a.tfrecord", "old")
    home = parse_dest(str(tmp_path / "a.tfrecord")).home
    (home / "mine").write_text("mine")
    with pytest.raises(DatasetError, match="mine"):
        write(tmp_path / "a.tfrecord", "new", overwrite=True)


def test_a_file_exchanged_by_its_user_is_theirs(tmp_path):
    path = tmp_path / "a.tfrecord"
    write(path, "old")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(DatasetError, match="not as tfrec wrote it"):
        write(path, "new", overwrite=True)


def test_side_files_of_a_file_that_was_removed_are_replaced(tmp_path):
    path = tmp_path / "a.tfrecord"
    write(path, "old")
    path.unlink()
    write(path, "new")
    assert holds(path) == "new"


def test_something_that_comes_to_dest_during_the_run_is_not_replaced(tmp_path):
    dest = parse_dest(str(tmp_path / "out"))
    with staging.staging(dest) as stage:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "theirs").write_text("x")
        with pytest.raises(DatasetError, match="theirs"):
            stage.commit(Manifest("out", Compression(), ()))
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == ["theirs"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_holds_a_source_is_no_dest(tmp_path, overwrite):
    write(tmp_path / "out", "old")
    (tmp_path / "out" / "sub").mkdir()
    (tmp_path / "out" / "sub" / "a.csv").write_text("a\n1\n")
    (tmp_path / "link").symlink_to(tmp_path / "out" / "sub")
    for source in (tmp_path / "out/sub/a.csv", str(tmp_path / "link/a.csv"), str(tmp_path / "out")):
        with pytest.raises(DatasetError, match="holds the source"):
            write(tmp_path / "out", "new", overwrite=overwrite, sources=[object(), source])
    write(tmp_path / "other", "new", sources=[tmp_path / "out/sub/a.csv", tmp_path])


def test_symbolic_links_at_dest_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "loose").symlink_to("nowhere")
    with pytest.raises(DatasetError, match="symbolic link to folder"):
        write(tmp_path / "link", "new")
    with pytest.raises(DatasetError, match="does not exist"):
        write(tmp_path / "loose", "new")
    write(tmp_path / "link" / "out", "new")
    assert holds(tmp_path / "folder" / "out") == "new"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("file/out", "is a file, not a folder"),
        ("file/deep/out", "is a file, not a folder"),
        ("n" * 250, "too long"),
        ("n" * 300, "too long"),
        ("n" * 300 + "/out", "too long"),
        ("loose/out", "missing"),
        ("loop/out", "loop"),
    ],
)
def test_places_that_cannot_be_are_one_clear_line(tmp_path, name, says):
    (tmp_path / "file").write_text("x")
    (tmp_path / "loose").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    before = snapshot(tmp_path).keys()
    with pytest.raises(DatasetError, match=says) as caught:
        write(tmp_path / name, "new")
    assert "\n" not in str(caught.value)
    assert snapshot(tmp_path).keys() == before


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_an_unwritable_parent_is_told_or_staged_within(tmp_path, monkeypatch, code):
    real = os.open

    def denied(path, flags, *args, **kwargs):
        if flags & os.O_CREAT and os.path.dirname(path) == str(tmp_path):
            raise OSError(code, os.strerror(code))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(DatasetError, match=r"out cannot be written: (permission|the file system)"):
        write(tmp_path / "out", "new")
    (tmp_path / "out").mkdir()
    write(tmp_path / "out", "old", 4)
    assert holds(tmp_path / "out") == "old"
    write(tmp_path / "out", "new", overwrite=True)
    assert holds(tmp_path / "out") == "new"


def test_the_working_folder_stays_the_same_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(".", "old", 4)
    write(".", "new", overwrite=True)
    assert holds(tmp_path) == "new"
    assert os.path.samefile(tmp_path, ".")


def test_the_systems_own_files_stay(tmp_path):
    (tmp_path / "out" / "lost+found").mkdir(parents=True)
    write(tmp_path / "out", "new")
    assert (tmp_path / "out" / "lost+found").is_dir()
    assert load_manifest(tmp_path / "out") is not None


def test_the_mode_of_a_folder_is_kept(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o750)
    write(tmp_path / "out", "old")
    write(tmp_path / "out", "new", overwrite=True)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750


def test_a_shard_that_is_not_as_written_is_not_committed(tmp_path):
    def spoil(change):
        dest = parse_dest(str(tmp_path / "out"))
        with staging.staging(dest) as stage:
            name = dest.shards("train", 1)[0]
            with stage.writer(name, dest.compression) as writer:
                writer.write(frame(b"x" * 100), 1)
                shard = writer.close()
            change(stage.path(name))
            stage.commit(Manifest("out", Compression("gzip"), (Split("train", (shard,)),)))

    with pytest.raises(DatasetError, match="is not there"):
        spoil(os.unlink)
    with pytest.raises(DatasetError, match="has 50 bytes"):
        spoil(lambda path: os.truncate(path, 50))
    with pytest.raises(DatasetError, match="is none, not gzip"):
        spoil(lambda path: None)
    assert os.listdir(tmp_path) == []


HOLD = """
import sys, time
from tfrec_cli.dataset.naming import parse_dest
from tfrec_cli.dataset.staging import staging
with staging(parse_dest(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("name", ["out", "out.tfrecord"])
def test_a_second_run_onto_the_same_dest_names_the_first(tmp_path, name):
    dest = tmp_path / name
    command = [sys.executable, "-c", HOLD, str(dest)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as first:
        try:
            assert first.stdout.readline() == b"held\n"
            with pytest.raises(DatasetError, match=rf"{name} is being .*process {first.pid}\)"):
                write(dest, "new")
            recovery.recover(parse_dest(str(dest)))
            write(tmp_path / f"other-{name}", "new")
        finally:
            first.kill()
    assert len(os.listdir(tmp_path)) > 2
    write(dest, "new")
    assert holds(dest) == "new"
    assert not [n for n in os.listdir(tmp_path) if "tfrec-" in n]


def test_of_many_runs_at_once_each_is_whole_or_refused(tmp_path):
    dest = tmp_path / "out"
    children = []
    for number in range(6):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for _ in range(5):
                    try:
                        write(dest, f"{number}", 3, overwrite=True, sync=False)
                    except DatasetError as error:
                        if "another run" not in str(error):
                            os._exit(2)
                    time.sleep(0.002)
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert {os.waitpid(pid, 0)[1] for pid in children} == {0}
    assert holds(dest) in set("012345")
    assert os.listdir(tmp_path) == ["out"]


def test_a_lock_file_that_nobody_holds_is_no_lock(tmp_path):
    (tmp_path / ".out.tfrec-lock").write_text("1 elsewhere\n")
    write(tmp_path / "out", "new")
    assert os.listdir(tmp_path) == ["out"]


def test_a_lock_file_that_cannot_be_opened_is_not_gone_around(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    lock = tmp_path / ".out.tfrec-lock"
    lock.write_text("1 elsewhere\n")
    real = os.open

    def denied(path, *args, **kwargs):
        if path == lock:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(DatasetError, match="tfrec-lock cannot be written: permission denied"):
        write(tmp_path / "out", "new")
    assert os.listdir(tmp_path / "out") == []


def test_a_file_system_without_locks_is_said_to_be_one(tmp_path, monkeypatch):
    def fail(handle, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locking.fcntl, "flock", fail)
    with pytest.raises(DatasetError, match="no file locks"):
        write(tmp_path / "out", "new")
    assert os.listdir(tmp_path) == []


def test_what_is_hidden_of_one_dest_is_not_that_of_another(tmp_path):
    file, folder = (parse_dest(str(tmp_path / name)) for name in ("one.tfrecord", "one-tfrecord"))
    with staging.staging(file) as stage:
        stage.kept = True
        (tmp_path / "one-tfrecord").mkdir()
        assert leftovers(folder) == []
        assert [path.name for path in leftovers(file)] == [stage.work.parent.name]
        write(tmp_path / "one-tfrecord", "new", overwrite=True)
        hidden = [name for name in os.listdir(tmp_path) if name.startswith(".")]
        assert len(hidden) == 2
        assert not [n for n in hidden if fnmatch(n, "*.tfrec") or fnmatch(n, "*.tfrecord*")]
    assert file.home.name == ".one-tfrecord.tfrec.d"


def test_rights_and_times_that_cannot_be_set_do_not_end_a_run(tmp_path, monkeypatch):
    write(tmp_path / "out", "old")
    os.chmod(tmp_path / "out", 0o777)

    def refused(*args, **kwargs):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "chmod", refused)
    monkeypatch.setattr(os, "utime", refused)
    write(tmp_path / "out", "new", overwrite=True, made=5)
    assert holds(tmp_path / "out") == "new"


def test_a_dataset_that_others_may_not_read_is_not_opened_to_them(tmp_path, monkeypatch):
    write(tmp_path / "out", "old")
    os.chmod(tmp_path / "out", 0o700)

    def refused(*args, **kwargs):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "chmod", refused)
    with pytest.raises(DatasetError, match="not permitted"):
        write(tmp_path / "out", "new", overwrite=True)
    assert holds(tmp_path / "out") == "old"


def test_a_committed_run_never_replaces_what_came_to_dest_later(tmp_path, monkeypatch):
    dest = tmp_path / "out"
    write(dest, "old", 4)
    with monkeypatch.context() as patch:
        aside(patch)
        rename = os.rename

        def stop(first, second):
            if str(second) == str(dest):
                raise KeyboardInterrupt
            rename(first, second)

        patch.setattr(os, "rename", stop)
        with pytest.raises(KeyboardInterrupt):
            write(dest, "new", overwrite=True)
    assert not dest.exists()
    dest.mkdir()
    (dest / "theirs").write_text("x")
    recovery.recover(parse_dest(str(dest)))
    assert os.listdir(dest) == ["theirs"]
    with pytest.raises(DatasetError, match="theirs"):
        write(dest, "next", overwrite=True)
    (dest / "theirs").unlink()
    recovery.recover(parse_dest(str(dest)))
    assert holds(dest) == "new"
    assert os.listdir(tmp_path) == ["out"]


def test_neighbours_with_like_names_are_left_alone(tmp_path):
    for name in (".out.tfrec-notes", ".out.tfrec-0000000g", ".output.tfrec-00000000"):
        (tmp_path / name).mkdir()
    write(tmp_path / "out", "new")
    assert len(os.listdir(tmp_path)) == 4


def test_a_ready_mark_that_is_cut_is_none(tmp_path):
    ready = commit.Ready("out", "file", 5, replaces=(1, 2, 3))
    commit.write_ready(tmp_path, ready, sync=False)
    assert commit.read_ready(tmp_path) == ready
    text = (tmp_path / "ready").read_text()
    for end in range(len(text)):
        (tmp_path / "ready").write_text(text[:end])
        assert commit.read_ready(tmp_path) is None


def test_looking_at_dest_changes_nothing(tmp_path):
    write(tmp_path / "out", "old")
    before = snapshot(tmp_path)
    check_dest(parse_dest(str(tmp_path / "out")), overwrite=True)
    assert check_dest(parse_dest(str(tmp_path / "none"))).kind == "nothing"
    assert snapshot(tmp_path) == before


def killed_after_a_shard(dest):
    """A run that is killed when one of its two shards is done and the other is begun."""

    def run():
        target = parse_dest(str(dest))
        with staging.staging(target, True) as stage:
            first, second = target.shards("train", 2)
            with stage.writer(first, target.compression) as writer:
                writer.write(frame(b"first"), 1)
                shard = writer.close()
            entry = {"records": 1, "bytes": shard.bytes, "crc32c": shard.crc32c}
            Receipts(stage.receipts, lambda: {"seed": 1}).leave("shard-0", entry)
            stage.writer(second, target.compression).write(frame(b"half")[:9], 1)
            kill()

    assert in_child(run) == KILLED


@pytest.mark.parametrize("before", [None, "old"])
def test_a_killed_run_that_left_a_receipt_can_be_resumed(tmp_path, before):
    dest = tmp_path / "out"
    if before:
        write(dest, before)
    killed_after_a_shard(dest)
    target = parse_dest(str(dest))
    found = recovery.recover(target)
    assert found is not None
    assert recovery.recover(target) == found
    with staging.staging(target, bool(before), resume=found) as stage:
        receipts = Receipts(stage.receipts)
        assert receipts.run() == {"seed": 1}
        names = target.shards("train", 2)
        shards = [Shard(names[0], **receipts.done("shard-0"))]
        with stage.writer(names[1], target.compression) as writer:
            writer.write(frame(b"second"), 1)
            shards.append(writer.close())
        manifest = Manifest(target.name, target.compression, (Split("train", tuple(shards)),))
        manifest = stage.commit(manifest, side_files("new"))
    assert holds(dest) == "new"
    assert [r for s in manifest.shards for r in read_records(dest / s.name)] == [
        b"first",
        b"second",
    ]
    assert os.listdir(tmp_path) == ["out"]


def test_a_killed_run_that_is_not_wanted_is_removed(tmp_path):
    dest = tmp_path / "out"
    killed_after_a_shard(dest)
    assert recovery.recover(parse_dest(str(dest)), keep=False) is None
    assert os.listdir(tmp_path) == []
    killed_after_a_shard(dest)
    write(dest, "new")
    assert holds(dest) == "new"
    assert os.listdir(tmp_path) == ["out"]


def test_of_a_live_run_nothing_is_taken(tmp_path):
    target = parse_dest(str(tmp_path / "out"))
    with staging.staging(target) as stage:
        Receipts(stage.receipts, lambda: {}).leave("shard-0", {})
        assert recovery.recover(target) is None
        assert Receipts(stage.receipts).done("shard-0") == {}
