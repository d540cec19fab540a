"""The code that reads a dataset back, generated from its manifest: complete scripts.

Each is a program and a module, with `load(split)` as its main function. Those for PyTorch and Grain
read through `tfrec_cli.open_dataset`, which needs no TensorFlow.
"""

from __future__ import annotations

from tfrec_cli.loaders.parts import Framework
from tfrec_cli.loaders.scripts import FRAMEWORKS, Script, loader_script
from tfrec_cli.loaders.tensorflow import tensorflow_script

__all__ = ["FRAMEWORKS", "Framework", "Script", "loader_script", "tensorflow_script"]
