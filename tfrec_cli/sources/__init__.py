"""Sources: what is read, as Arrow batches with the place of each row."""
