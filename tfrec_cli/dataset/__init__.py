"""Datasets on the disk: their names, their manifest, and how they get into place."""
