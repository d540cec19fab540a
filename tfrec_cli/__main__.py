"""`python -m tfrec_cli` is `tfrec`."""

from tfrec_cli.cli import main

if __name__ == "__main__":
    main()
