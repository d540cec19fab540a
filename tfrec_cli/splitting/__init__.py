"""Which split a row belongs to."""
