"""The README's commands run as written and print what it shows.

A console block holds commands after `$ ` and what they print. Seconds and versions may differ.
The set-up commands build environments; .ci/run runs those.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from test_floors import FLOOR

from tfrec_cli.cli import _COMMANDS

README = (REPOSITORY / "README.md").read_text("utf-8")
LANGUAGE_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUIET_TENSORFLOW = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
VARYING = [
    (re.compile(r"[\d.]+ s \([\d,]+ records/s\)"), "TIME"),
    (re.compile(r"[\d.]+ s, [\d.]+ (bytes|[kMG]B)/s"), "TIME"),
    (re.compile(r"about [\d.]+ s with"), "TIME"),
    (re.compile(r"about [\d.]+ (bytes|[kMG]B) \(\d+% of the files\)"), "PARQUET"),
    (re.compile(r"^(WARNING: All log messages before absl|[IWE]0000 ).*\n", re.MULTILINE), ""),
    (re.compile(r"\b(native|reference) kernel"), "KERNEL"),
    (re.compile(r"tfrec \d+(\.\d+)+"), "VERSION"),
]


def blocks(language: str) -> list[str]:
    return [text for found, text in LANGUAGE_BLOCK.findall(README) if found == language]


def console_commands() -> list[tuple[str, str]]:
    """(command, what it prints) of all console blocks, in order."""
    commands: list[tuple[str, str]] = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, output = re.match(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
            commands.append((command.strip(), output))
    return commands


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy of what the commands need, in which they run one after another."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(
        REPOSITORY / "examples", root / "examples", ignore=shutil.ignore_patterns("out")
    )
    return root


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    scripts = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": scripts + os.pathsep + os.environ["PATH"],
        **QUIET_TENSORFLOW,
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
    }
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


def settled(output: str) -> list[str]:
    """Lines without what changes from run to run."""
    for pattern, word in VARYING:
        output = pattern.sub(word, output)
    return [line.rstrip() for line in output.strip().splitlines()]


def test_console_and_python_blocks(checkout: Path) -> None:
    """One after another, since later ones read what earlier ones wrote; programs read it, too."""
    run_console_blocks(checkout)
    run_python_blocks(checkout)


def run_console_blocks(checkout: Path) -> None:
    commands = console_commands()
    assert commands
    for command, expected in commands:
        done = run(command, checkout)
        assert settled(done.stdout) == settled(expected), f"$ {command}\n{done.stdout}"
        fails = "Traceback" in done.stdout or (
            done.returncode and not expected.startswith("tfrec:")
        )
        assert not fails, f"$ {command}: exit {done.returncode}"


def run_python_blocks(checkout: Path) -> None:
    """Each is a program of its own, run where the examples are."""
    for number, block in enumerate(blocks("python")):
        done = subprocess.run(
            [sys.executable, "-c", block],
            cwd=checkout,
            env=os.environ | QUIET_TENSORFLOW,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"Python block {number}:\n{block}\n{done.stderr}"


def test_yaml_blocks_are_schemas(checkout: Path) -> None:
    from tfrec_cli.schema import load_schema

    for number, block in enumerate(blocks("yaml")):
        file = checkout / f"block{number}.yaml"
        file.write_text(block, "utf-8")
        load_schema(file)


def test_two_commands_set_up() -> None:
    assert len(blocks("sh")) == 2


def test_options_exist() -> None:
    """Every option that the README's text names is one of the command line's."""
    helps = "".join(run(f"tfrec {c} --help", REPOSITORY).stdout for c in ("", *_COMMANDS))
    named = set(
        re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"```sh.*?```", "", README, flags=re.DOTALL))
    )
    assert {option for option in named if option not in helps} == set()


def test_links_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    places = {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", README)
    assert links
    for target, place in links:
        assert target.startswith("http") or (REPOSITORY / target).exists(), target
        assert target or place in places, place


def test_the_contents_name_all_chapters() -> None:
    (contents,) = re.findall(r"^On this page: (.*?)\n\n", README, re.MULTILINE | re.DOTALL)
    chapters = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert re.findall(r"\[(.*?)\]", contents) == chapters


def test_all_rooms_are_told() -> None:
    told = README.split("## Developing")[1]
    assert {room for room in FLOOR if f"`{room}`" not in told} <= {"__init__", "__main__"}
