"""A conversion on the workers of a cluster: its tasks, and the driver that hands them out."""
