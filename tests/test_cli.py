"""The command line as a user meets it: output, exit codes, signals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from conftest import REPOSITORY

from tfrec_cli.cli import _COMMANDS, cli
from tfrec_cli.records.framing import read_records

DIGITS = REPOSITORY / "examples" / "digits"
ROWS = "id,name,score\n1,Ann,1.5\n2,,2\n3,Cy,\n"


# A run of some time.
SEVERAL = ["convert", "big.csv", "out", "--shards", "40", "--compression", "zlib:9"]


def tfrec(*args: str, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tfrec_cli", *args]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, check=False)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(ROWS)
    return tmp_path


def error_of(result: subprocess.CompletedProcess[bytes]) -> str:
    """The one line on standard error."""
    assert result.stdout == b""
    (line,) = result.stderr.decode().splitlines()
    assert line.startswith("tfrec: ")
    return line


def test_convert_prints_a_summary(people: Path) -> None:
    result = tfrec("convert", "people.csv", "out", cwd=people)
    assert result.returncode == 0
    text = result.stdout.decode()
    assert "out: 3 records in 1 shard" in text
    assert "inferred from 3 rows, 3 features" in text
    assert "score  float, left out where missing" in text


def test_json_is_one_document(people: Path) -> None:
    result = tfrec("convert", "people.csv", "out", "--json", cwd=people)
    document = json.loads(result.stdout)
    assert document["splits"][0]["records"] == 3
    assert document["up_to_date"] is False
    assert 0 < document["seconds"] < 600
    assert isinstance(document["notices"], list)
    assert result.stderr == b""


def test_quiet_prints_nothing(people: Path) -> None:
    result = tfrec("convert", "people.csv", "out", "--quiet", cwd=people)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_standard_input_and_output(people: Path) -> None:
    tfrec("convert", "people.csv", "file.tfrecord", cwd=people)
    piped = tfrec("convert", "-", "-", "--source", "csv", cwd=people, stdin=ROWS.encode())
    assert piped.returncode == 0
    assert piped.stdout == (people / "file.tfrecord").read_bytes()
    assert b"3 records" in piped.stderr


def test_the_suffix_of_a_file_chooses_the_compression(people: Path) -> None:
    for name, start in (("a.tfrecord.gz", b"\x1f\x8b"), ("a.tfrecord.zz", b"\x78")):
        assert tfrec("convert", "people.csv", name, cwd=people).returncode == 0
        assert (people / name).read_bytes().startswith(start)
        assert len(list(read_records(people / name))) == 3
    error = error_of(
        tfrec("convert", "people.csv", "b.tfrecord", "--compression", "gzip", cwd=people)
    )
    assert "b.tfrecord.gz" in error


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["convert"], 2, "SOURCE and DEST are missing"),
        (["convert", "people.csv"], 2, "DEST is missing"),
        (["convert", "people.csv", "out", "--shrads", "2"], 2, "--shards"),
        (["convert", "people.csv", "out", "--shards", "none"], 2, "none"),
        (["convert", "people.csv", "out", "-O", "delimitr=;"], 2, 'Did you mean "delimiter"?'),
        (["convert", "people.csv", "out", "-O", "delimiter"], 2, "KEY=VALUE"),
        (["convert", "people.csv", "out", "--schema", "none.yaml"], 2, "none.yaml"),
        (["convert", "people.csv", "out", "--source", "cvs"], 2, 'Did you mean "csv"?'),
        (["convert", "people.csv", "other.csv"], 2, "DEST"),
        (["convert", "poeple.csv", "out"], 1, 'Did you mean "people.csv"?'),
        (["convert", "empty.csv", "out"], 1, "empty.csv"),
        (["convert", "header.csv", "out"], 1, "header.csv"),
        (["convert", "open.csv", "out"], 1, "open.csv, line 3"),
        (["convert", "ragged.csv", "out"], 1, "ragged.csv, line 3"),
        (["convert", "twice.csv", "out"], 1, 'column "a"'),
        (["convert", "open_twice.csv", "out"], 1, 'open_twice.csv, line 1: column "a"'),
        (["convert", "long_header.csv", "out"], 1, 'long_header.csv, line 2: column "a"'),
        (["convert", "people.csv", "out", "--sort-by", ""], 2, '"" names a column without a name'),
        (["convert", "people.csv", "out", "--sort-by", "id,"], 2, '"id," names a column without'),
        (["convert", "people.csv", "out", "--key", "id,id"], 2, 'names column "id" twice'),
        (["convert", "people.csv", "people.csv/out"], 1, "people.csv/out"),
        (["convert", "people.csv", "/proc/out"], 1, "/proc/out"),
        (["loader", "people.csv"], 1, "people.csv"),
        (["loader", "."], 1, "no TFRecord file"),
        (["schema", "none.csv"], 1, "none.csv"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_bad_input_gets_one_line_and_an_exit_code(
    people: Path, args: list[str], code: int, words: str
) -> None:
    (people / "empty.csv").touch()
    (people / "header.csv").write_text("a,b\n")
    (people / "open.csv").write_text('a,b\n1,2\n3,"x\n4,5\n')
    (people / "ragged.csv").write_text("a,b\n1,2\n3,4,5\n")
    (people / "twice.csv").write_text("a,b,a\n1,2,3\n")
    (people / "open_twice.csv").write_text("a,a")
    (people / "long_header.csv").write_text('sep=,\na,"b\nc",a\n1,2,3\n')
    before = sorted(people.iterdir())
    result = tfrec(*args, cwd=people)
    error = error_of(result)
    assert result.returncode == code, error
    assert words in error
    assert sorted(people.iterdir()) == before


def test_debug_shows_where(people: Path) -> None:
    result = tfrec("convert", "none.csv", "out", "--debug", cwd=people)
    assert result.returncode != 0
    assert b"Traceback" in result.stderr


def test_schema_prints_what_convert_takes(people: Path) -> None:
    schema = tfrec("schema", "people.csv", cwd=people)
    assert schema.returncode == 0
    (people / "s.yaml").write_bytes(schema.stdout)
    tfrec("convert", "people.csv", "a.tfrecord", cwd=people)
    tfrec("convert", "people.csv", "b.tfrecord", "--schema", "s.yaml", cwd=people)
    assert (people / "a.tfrecord").read_bytes() == (people / "b.tfrecord").read_bytes()


def test_json_schema_is_json(people: Path) -> None:
    result = tfrec("schema", "--json-schema", cwd=people)
    assert "features" in json.loads(result.stdout)["properties"]


def test_sources_lists_adapters_and_options(people: Path) -> None:
    text = tfrec("sources", cwd=people).stdout.decode()
    for word in ("csv", "parquet", "images", "-O delimiter=", ".parquet"):
        assert word in text
    found = json.loads(tfrec("sources", "--json", cwd=people).stdout)
    assert {"csv", "parquet", "images"} <= {source["name"] for source in found}


def test_version_names_the_kernel(people: Path) -> None:
    text = tfrec("--version", cwd=people).stdout.decode()
    assert text.startswith("tfrec 0.")
    assert "kernel" in text


@pytest.mark.parametrize("own", [None, "3"])
def test_numpy_starts_no_threads_of_its_own_unless_asked(own: str | None) -> None:
    code = (
        "import os, tfrec_cli.cli, tfrec_cli.__main__ as program\n"
        "tfrec_cli.cli.main = lambda: print(os.environ['OPENBLAS_NUM_THREADS'])\n"
        "program.main()"
    )
    given = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    given |= {} if own is None else {"OPENBLAS_NUM_THREADS": own}
    done = subprocess.run([sys.executable, "-c", code], env=given, check=True, capture_output=True)
    assert done.stdout.decode().strip() == (own or "1")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from tfrec_cli.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'pyarrow', 'numpy', 'pandas', 'PIL', 'pydantic', 'yaml', 'fsspec', 'tqdm'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("source", ["people.csv", "people.parquet", str(DIGITS)])
def test_a_local_convert_imports_neither_pandas_fsspec_nor_pillow(
    people: Path, source: str
) -> None:
    pq.write_table(pa_csv.read_csv(people / "people.csv"), people / "people.parquet")
    code = (
        "import sys\n"
        f"import tfrec_cli; tfrec_cli.convert({source!r}, 'out')\n"
        "heavy = {'PIL', 'fsspec', 'pandas', 'tensorflow', 'tfrec_cli.verification'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=people)


def test_a_plain_convert_imports_no_room_that_it_does_not_enter(people: Path) -> None:
    pq.write_table(pa_csv.read_csv(people / "people.csv"), people / "people.parquet")
    code = (
        "import sys\n"
        "import tfrec_cli; tfrec_cli.convert('people.parquet', 'out.tfrecord')\n"
        "rooms = ('ordering', 'placing', 'scanning', 'runlog', 'resumption', 'freshness',"
        " 'accounts', 'rejects', 'shuffle.merge', 'dataset.indexes', 'dataset.metadata',"
        " 'records.index', 'cluster')\n"
        "heavy = {'pyarrow.compute', *(f'tfrec_cli.{room}' for room in rooms)}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=people)


def test_names_that_are_no_text_keep_tables_aligned(people: Path) -> None:
    table = pa.table({"a\0\x1b\n": [1, 2], "": [3, 4], "long" * 30: [5, 6], "plain": [7, 8]})
    pq.write_table(table, people / "odd.parquet")
    for args in (["convert", "odd.parquet", "out"], ["export", "out", "back.parquet"]):
        lines = tfrec(*args, cwd=people).stdout.decode().splitlines()
        found = [line for line in lines if line.startswith("    ") and "int64" in line]
        assert len(found) == 4, lines
        assert len({line.index("int64") for line in found}) == 1, lines
    lines = tfrec("plan", "odd.parquet", "other", cwd=people).stdout.decode().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("where the bytes go"))
    assert len({line.rindex(" bytes") for line in lines[start + 1 : start + 6]}) == 1, lines


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["convert", "people.csv", "out", "-j", "2"], "Use fewer jobs (-j 1)"),
        (["convert", "people.csv", "out", "-j", "1"], "Give it more"),
    ],
)
def test_fewer_jobs_are_advised_where_there_are_several(
    people: Path, args: list[str], words: str
) -> None:
    code = (
        "import tfrec_cli.conversion\n"
        "from tfrec_cli.cli import main\n"
        "def spent(*_): raise MemoryError\n"
        "tfrec_cli.conversion.convert = spent\n"
        f"main({args!r})"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=people, capture_output=True, check=False)
    assert done.returncode == 1
    assert words in error_of(done)


def test_a_closed_pipe_is_quiet(people: Path) -> None:
    rows = "".join(f"{i},{'x' * 1000}\n" for i in range(5000))
    (people / "big.csv").write_text("a,b\n" + rows)
    command = f"{sys.executable} -m tfrec_cli convert big.csv - | head -c 10 > /dev/null"
    result = subprocess.run(command, shell=True, cwd=people, capture_output=True, check=False)
    assert result.stderr == b""


def test_a_bar_is_drawn_on_a_terminal_only(people: Path) -> None:
    rows = "".join(f"{i},{'x' * 100}\n" for i in range(300_000))
    (people / "big.csv").write_text("a,b\n" + rows)
    # So slowly that the bar is drawn more than once.
    command = [sys.executable, "-m", "tfrec_cli", *SEVERAL]
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(command, cwd=people, stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    seen = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(leader)
    process.communicate()
    assert b"records/s" in seen
    assert b"MB/s" in seen
    quiet = tfrec("convert", "big.csv", "out2", cwd=people)
    assert b"records/s" not in quiet.stderr


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, b"interrupted"),
        (signal.SIGTERM, 143, b"terminated"),
        (signal.SIGHUP, 129, b"hung up on"),
    ],
)
def test_signals_leave_nothing_behind(
    people: Path, number: signal.Signals, code: int, word: bytes
) -> None:
    rows = "".join(f"{i},{'x' * 100}\n" for i in range(400_000))
    (people / "big.csv").write_text("a,b\n" + rows)
    before = sorted(people.iterdir())
    command = [
        sys.executable,
        "-m",
        "tfrec_cli",
        "convert",
        "big.csv",
        "out",
        "--compression",
        "zlib:9",
    ]
    process = subprocess.Popen(
        command,
        cwd=people,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell that runs the tests in its background has Ctrl-C ignored by all below it.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    wait_for_files(people, "data/*")
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert word in error
    assert b"Traceback" not in error
    assert b"" not in error.splitlines()
    left = [p for p in sorted(people.iterdir()) if not p.name.endswith(".tfrec-lock")]
    assert left == before


def wait_for_files(folder: Path, pattern: str, least: int = 1) -> None:
    """Until the stage of a run onto `out` holds so many files."""
    deadline = time.monotonic() + 60
    while len(list(folder.glob(f".out.tfrec-*/{pattern}"))) < least:
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def test_a_run_that_its_terminal_ended_can_be_resumed(people: Path) -> None:
    (people / "big.csv").write_text("a,b\n" + "".join(f"{i},{i**7}\n" for i in range(200_000)))
    leader, follower = pty.openpty()

    def at_the_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "tfrec_cli", *SEVERAL],
        cwd=people, stdout=follower, stderr=follower, start_new_session=True,
        preexec_fn=at_the_terminal,
    )  # fmt: skip
    os.close(follower)
    wait_for_files(people, "work/receipts/shard-*.json", 2)
    os.close(leader)
    assert process.wait(60) == 129
    assert not (people / "out").exists()
    resumed = tfrec(*SEVERAL, "--resume", cwd=people)
    assert resumed.returncode == 0, resumed.stderr
    assert b"went on with an interrupted run" in resumed.stderr


def test_who_ignores_the_end_of_the_terminal_goes_on(people: Path) -> None:
    (people / "big.csv").write_text("a,b\n" + "".join(f"{i},{i**7}\n" for i in range(200_000)))
    process = subprocess.Popen(
        [sys.executable, "-m", "tfrec_cli", *SEVERAL], cwd=people, stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    wait_for_files(people, "data/*")
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0
    assert (people / "out" / "manifest.json").exists()


def test_a_bar_outlives_its_terminal(people: Path) -> None:
    (people / "big.csv").write_text("a,b\n" + "".join(f"{i},{i**7}\n" for i in range(200_000)))
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tfrec_cli", *SEVERAL], cwd=people, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    wait_for_files(people, "work/receipts/shard-*.json", 2)
    os.close(leader)
    assert process.wait(60) == 0


def test_the_program_alone_shows_its_help(people: Path) -> None:
    result = tfrec(cwd=people)
    text = (result.stdout + result.stderr).decode()
    assert "Commands:" in text
    assert "\n  convert" in text


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_is_no_fault(people: Path, closed: str) -> None:
    command = f"{sys.executable} -m tfrec_cli convert people.csv out {closed}"
    result = subprocess.run(command, shell=True, cwd=people, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    assert b"Traceback" not in result.stderr
    assert (people / "out" / "manifest.json").exists()


def test_a_signal_that_python_lost_is_raised_at_the_next_step() -> None:
    code = (
        "import os, signal, weakref\n"
        "from tfrec_cli.cli.signals import watch\n"
        "from tfrec_cli.interruption import Terminated\n"
        "from tfrec_cli.cli.progress import TerminalReporter\n"
        "watch()\n"
        "class Thing: pass\n"
        "thing = Thing()\n"
        "weakref.finalize(thing, os.kill, os.getpid(), signal.SIGTERM)\n"
        "ref = weakref.ref(thing, lambda _: [None for _ in range(1000)])\n"
        "try:\n"
        "    del thing\n"
        "    TerminalReporter(bar=False).advance(1, 1)\n"
        "except Terminated:\n"
        "    print('unwound')\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (result.stdout, result.stderr) == (b"unwound\n", b"")


@pytest.mark.parametrize(
    ("code", "exits", "error"),
    [
        ("atexit.register(send)", 0, b""),
        ("sys.argv[1:] = ['nothing']; sys.stderr = Writer(send)", 2, b"nothing"),
        ("atexit.register(lambda: setattr(sys, 'stdout', Writer(send, time.sleep, 60)))", 143, b""),
    ],
    ids=["what runs at exit", "an error is told", "the reader does not read"],
)
def test_signals_once_the_work_is_over(code: str, exits: int, error: bytes) -> None:
    """They neither break the last steps nor are told; nobody waits for a reader, though."""
    code = f"""
import atexit, functools, io, os, signal, sys, time
from tfrec_cli.cli import main

send = functools.partial(os.kill, os.getpid(), signal.SIGTERM)

class Writer(io.StringIO):
    def __init__(self, send, wait=id, *given):
        super().__init__()
        self.send, self.wait, self.given = send, wait, given

    def write(self, text):
        self.send()
        return os.write(2, text if isinstance(text, bytes) else text.encode())

    def flush(self):
        if self.given:
            self.send()
            self.wait(*self.given)

sys.argv = ["tfrec", "--version"]
{code}
main()
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=30,
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    )  # fmt: skip
    assert result.returncode == exits, result.stderr
    assert len(result.stderr.splitlines()) == bool(error)
    assert error in result.stderr


def test_a_terminal_gets_a_line_of_its_own_after_ctrl_c(people: Path) -> None:
    (people / "big.csv").write_text("a,b\n" + "".join(f"{i},{i**7}\n" for i in range(200_000)))
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tfrec_cli", *SEVERAL, "-q"], cwd=people, stdout=subprocess.DEVNULL,
        stderr=follower, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    os.close(follower)
    wait_for_files(people, "data/*")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert os.read(leader, 10_000).startswith(b"\r\ntfrec: interrupted")
    os.close(leader)


def test_shells_complete_commands_and_options(people: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = tfrec_environment(people, _TFREC_COMPLETE=f"{shell}_source")
        assert b"_TFREC_COMPLETE" in script
    words = tfrec_environment(
        people, _TFREC_COMPLETE="bash_complete", COMP_WORDS="tfrec convert --sh", COMP_CWORD="2"
    )
    assert b"--shards" in words


def tfrec_environment(cwd: Path, **variables: str) -> bytes:
    program = Path(sys.executable).with_name("tfrec")
    result = subprocess.run(
        [program], cwd=cwd, env=os.environ | variables, capture_output=True, check=False
    )
    return result.stdout


SHARED = {"jobs": "-j", "as_json": "--json", "quiet": "-q", "columns": "--columns"}


@pytest.mark.parametrize("name", SHARED)
def test_an_option_of_several_commands_is_one(name: str) -> None:
    """The same words, whatever the command; but head's JSON is a line for each record."""
    found = {
        (param.opts[0], param.metavar, param.help)  # type: ignore[attr-defined]
        for command in _COMMANDS
        for param in _options(command)
        if param.name == name and (command, name) != ("head", "as_json")
    }
    assert len(found) == 1
    assert next(iter(found))[0] == SHARED[name]


def test_numbers_are_called_n_and_have_no_default_twice() -> None:
    for command in _COMMANDS:
        for param in _options(command):
            assert not isinstance(param, click.Option) or not param.show_default
            is_number = isinstance(param.type, click.IntRange)
            assert not is_number or param.metavar == "N", f"{command} {param.name}"


def test_all_commands_that_print_notices_can_be_quiet() -> None:
    for command in set(_COMMANDS) - {"sources", "loader"}:
        assert any(param.name == "quiet" for param in _options(command)), command


def _options(command: str) -> list[click.Parameter]:
    found = cli.get_command(click.Context(cli), command)  # type: ignore[attr-defined]
    assert found is not None
    return list(found.params)
