"""The code that reads a dataset back, generated from its manifest: complete scripts.

Each is a program and a module, with `load(split)` as its main function. Those for PyTorch and Grain
read through `tfrec_cli.open_dataset`, which needs no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tfrec_cli.dataset.manifest import Manifest
from tfrec_cli.loaders.grain import grain_script
from tfrec_cli.loaders.tensorflow import tensorflow_script
from tfrec_cli.loaders.torch import torch_script

__all__ = ["FRAMEWORKS", "Framework", "grain_script", "tensorflow_script", "torch_script"]

Framework = Literal["tf", "torch", "grain"]

FRAMEWORKS: dict[Framework, Callable[[Manifest, str], str]] = {
    "tf": tensorflow_script, "torch": torch_script, "grain": grain_script,
}  # fmt: skip
"""What makes the script of each framework, from the manifest and the dataset's path."""
