"""Putting records in order: identities and keys, sorted runs, and merging them."""
