"""The Makefile builds what changed and no more; the CI job's steps run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

SCRIPTS = Path(sys.executable).parent


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def converted(folder: Path) -> list[str]:
    """What `make` makes anew: the last word of each of its convert commands."""
    lines = run(["make"], folder).splitlines()
    return [line.split()[-1] for line in lines if line.startswith("tfrec convert")]


def test_make_builds_everything_once_and_then_what_changed(examples: Path) -> None:
    everything = ["out/penguins.tfrecord", "out/digits.tfrecord", "out/digit-images"]
    assert converted(examples) == everything
    assert len(list((examples / "out" / "digit-images").glob("*.tfrecord-*"))) == 4
    assert converted(examples) == []
    for source, dataset in zip(
        ["penguins.csv", "digits.yaml", "digits/7/0007.png"], everything, strict=True
    ):
        (examples / source).touch()
        assert converted(examples) == [dataset]
    assert converted(examples) == []


def test_the_ci_job_builds_the_datasets(examples: Path) -> None:
    job = yaml.safe_load((examples / "ci.yml").read_text("utf-8"))["jobs"]["build"]
    steps = [step for step in job["steps"] if "run" in step and "pip install" not in step["run"]]
    assert steps
    for step in steps:
        run(["bash", "-e", "-c", step["run"]], examples.parent / step["working-directory"])
    assert (examples / "out" / "penguins-gzip" / "manifest.json").exists()
    assert (examples / "out" / "penguins.tfrecord").exists()
