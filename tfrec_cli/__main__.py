"""The process `tfrec`, which `python -m tfrec_cli` is too."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line. Ctrl-C while it is still being imported ends in one line as well."""
    # Looking for them takes longer than making all models: it reads what every package provides.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # The threads that NumPy's BLAS starts spin for a while, and nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from tfrec_cli.cli import main as run
    except KeyboardInterrupt:
        os.write(2, b"tfrec: interrupted; nothing half-written was left behind.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
