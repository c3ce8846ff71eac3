"""Spark's own readers, for every format."""
