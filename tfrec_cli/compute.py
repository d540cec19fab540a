"""Arrow's compute functions under their own names, imported at the first call of one.

    from tfrec_cli import compute as pc

pyarrow makes some 280 Python functions when its module is imported, which takes a good part of the
time that a short run lasts; many runs call none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow.compute import *  # noqa: F403


def __getattr__(name: str) -> Any:
    import pyarrow.compute

    found = getattr(pyarrow.compute, name)
    globals()[name] = found
    return found
