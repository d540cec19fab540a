"""Runs of `tfrec` to which faults are done, each in a process of its own that is cheap to make.

A server process imports what a run imports, once, and forks for each run. `faults.c` stands between
it and the system: it counts the calls that open and change files below a folder, and strikes at one
of them. So a run can be killed, refused, cut short or stopped at every single step of its work.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
NOBODY = 65534
# A run that takes longer hangs.
SECONDS = 60

ACTS = {"none": 0, "signal": 1, "fail": 2, "fail on": 3, "torn": 4, "short": 5}
READ, CREATE, WRITE, SYNC, MOVE, MAKE, REMOVE = (1 << bit for bit in range(7))
CHANGES = CREATE | WRITE | SYNC | MOVE | MAKE | REMOVE
ALL = CHANGES | READ


@dataclass(frozen=True)
class Fault:
    """What is done to a run.

    number: of the call it is done at, from 1. act: `signal` sends one before the call, `fail` has
    the call refused, `fail on` that and all like it from then on, `torn` kills the process in the
    middle of a write, `short` has each write take half of its bytes. value: the signal or error
    number. kinds: of the calls that count. plain: the file system cannot exchange two names.
    """

    number: int = 0
    act: str = "none"
    value: int = 0
    kinds: int = CHANGES
    plain: bool = False


@dataclass(frozen=True, order=True)
class Call:
    """A call that opened or changed something. path: below the folder, `` for itself."""

    name: str
    path: str
    struck: bool


@dataclass(frozen=True)
class Ended:
    """How a run ended. code: the exit code, or minus the signal; None where it is stopped."""

    code: int | None
    out: str
    err: str
    calls: tuple[Call, ...]
    pid: int

    @property
    def struck(self) -> bool:
        """Whether the run came as far as the fault."""
        return any(call.struck for call in self.calls)


@dataclass(frozen=True)
class Run:
    """One run of `tfrec`. folder: the working folder, below which calls are counted. limits: of
    `resource`, by name; RLIMIT_AS counts from what the process has at the start.
    """

    folder: Path
    args: Sequence[str]
    fault: Fault = Fault()
    user: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


class Server:
    """The server process; `run` has it do a run. It ends with `close`."""

    def __init__(self, library: Path) -> None:
        self._notes = Path(tempfile.mkdtemp(prefix="faults-"))
        self._number = 0
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(library)],
            env=os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, run: Run) -> Ended:
        """Do a run, to its end or to where it stops."""
        self._number += 1
        notes = self._notes / str(self._number)
        notes.mkdir()
        return self._ask(
            {
                "notes": str(notes),
                "folder": str(run.folder),
                "args": list(run.args),
                "fault": [
                    run.fault.number,
                    ACTS[run.fault.act],
                    int(run.fault.value),
                    run.fault.kinds,
                ],
                "plain": run.fault.plain,
                "user": run.user,
                "limits": dict(run.limits),
            }
        )

    def go_on(self, stopped: Ended) -> Ended:
        """Let a run that is stopped go on to its end."""
        return self._ask({"pid": stopped.pid})

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        shutil.rmtree(self._notes)

    def _ask(self, request: dict[str, Any]) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the server has ended"
        found = json.loads(answer)
        notes = Path(found["notes"])
        noted = (notes / "calls").read_text(errors="replace").splitlines()
        # A limit on the size of files cuts this one, too.
        calls = tuple(_call(line) for line in noted if line.count(" ") > 1)
        if found["code"] is not None:
            shutil.rmtree(notes)
        return Ended(found["code"], *found["said"], calls, found["pid"])


def _call(line: str) -> Call:
    struck = line.endswith(" !")
    _, name, path = line.removesuffix(" !").split(" ", 2)
    return Call(name, path, struck)


def build(folder: Path) -> Path | None:
    """Compile `faults.c`; None where that cannot be had: no Linux, or no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        return None
    library = folder / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "faults.c", "-ldl"]
    subprocess.run(command, check=True)
    return library


def serve(library: str) -> None:
    """Answer requests, a line each, until there are no more."""
    _warm()
    runs: dict[int, tuple[dict[str, Any], list[int]]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        pid = request.get("pid")
        if pid is None:
            # Files would be under the limits of the run.
            pipes = [os.pipe(), os.pipe()]
            pid = os.fork()
            if pid == 0:
                _be(request, library, pipes)
            for _, end in pipes:
                os.close(end)
            runs[pid] = request, [start for start, _ in pipes]
        else:
            os.kill(pid, signal.SIGCONT)
        _, status = os.waitpid(pid, os.WUNTRACED)
        code = None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
        request, pipes_out = runs[pid]
        said = [_all_of(pipe) for pipe in pipes_out] if code is not None else ["", ""]
        answer = {"pid": pid, "code": code, "notes": request["notes"], "said": said}
        print(json.dumps(answer), flush=True)


def _all_of(pipe: int) -> str:
    with open(pipe, errors="replace") as file:
        return file.read()


def _warm() -> None:
    """Import all of tfrec, and what else runs import, which a child finds out by doing some: a run
    under another user may not be able to read it any more.
    """
    script = (
        "import sys, runpy\n"
        "for args in (['convert', 't.csv', 'out', '--shuffle', '--split', 'a=.5,b=.5', '--shards',"
        " '2', '--memory', '1', '--compression', 'gzip', '--verify'], ['convert', 't.csv', 'x',"
        " '--index', 'dali', '--on-error', 'skip'], ['verify', 'out'], ['index', 'x', '--format',"
        " 'tfindex'], ['repair', 'x', 'y']):\n"
        "    from tfrec_cli.cli import main\n"
        "    try: main([*args])\n"
        "    except SystemExit as end: assert end.code == 0, args\n"
        "print('\\n' + ' '.join(sys.modules))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t.csv").write_text("a,b\n1,x\n2,y\n3,z\n")
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    import tfrec_cli

    rooms = pkgutil.walk_packages(tfrec_cli.__path__, "tfrec_cli.", onerror=lambda _: None)
    for name in (*done.stdout.splitlines()[-1].split(), *(room.name for room in rooms)):
        with suppress(ImportError):
            __import__(name)
    gc.collect()
    gc.freeze()


def _be(request: dict[str, Any], library: str, pipes: list[tuple[int, int]]) -> NoReturn:
    """Become a run."""
    import ctypes

    from tfrec_cli.__main__ import main

    shim = ctypes.CDLL(library)
    notes = request["notes"]
    for handle, (start, end) in enumerate(pipes, 1):
        os.dup2(end, handle)
        os.close(start)
        os.close(end)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = os.open(f"{notes}/calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.chdir(request["folder"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(SECONDS)
    if request["user"] is not None:
        os.setgroups([])
        os.setgid(request["user"])
        os.setuid(request["user"])
    for name, limit in request["limits"].items():
        if name == "RLIMIT_AS":
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit += pages * resource.getpagesize()
        resource.setrlimit(getattr(resource, name), (limit, limit))
    sys.argv = ["tfrec", *request["args"]]
    number, act, value, kinds = request["fault"]
    folder = os.fsencode(os.path.realpath(request["folder"]))
    shim.faults_arm(folder, ctypes.c_long(number), act, value, kinds, log, request["plain"])
    main()


if __name__ == "__main__":
    serve(sys.argv[1])
