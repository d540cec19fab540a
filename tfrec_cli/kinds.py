"""Kinds of Arrow types that pyarrow asks for one form at a time."""

from __future__ import annotations

import pyarrow as pa


def is_list(kind: pa.DataType) -> bool:
    """Whether arrays of this type hold lists, of any form (maps are not lists here)."""
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    return is_view or is_viewless_list(kind)


def is_viewless_list(kind: pa.DataType) -> bool:
    """Whether arrays of this type hold lists that lie one behind the other."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether arrays of this type hold text with offsets (no views)."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether arrays of this type hold bytes of any length with offsets (no views)."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def is_packed(kind: pa.DataType) -> bool:
    """Whether arrays of this type hold a value once for many slots: dictionaries, runs."""
    return bool(pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind))
