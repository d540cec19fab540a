"""Datasets back as tables and pictures: Parquet, CSV, JSON lines, image files in class folders."""

from __future__ import annotations

from tfrec_cli.export.options import ExportOptions, ExportReport
from tfrec_cli.export.run import export

__all__ = ["ExportOptions", "ExportReport", "export"]
