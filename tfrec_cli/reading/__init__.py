"""Reading datasets: what a path names, what its records hold, and their values as Arrow batches."""
