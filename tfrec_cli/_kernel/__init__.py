"""The kernel: Arrow columns to framed Example bytes, and the scans of raw bytes.

One door, two bodies: `_native` (C) where it was built, else `_reference` (Python). Both give the
same bytes. `TFREC_KERNEL=native|reference` forces one.
"""
