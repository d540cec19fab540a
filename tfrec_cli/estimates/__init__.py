"""What a conversion would do, told from a sample of the rows, without writing anything."""
