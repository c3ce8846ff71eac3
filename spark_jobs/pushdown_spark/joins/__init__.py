"""Joins of several sources: flattened, estimated, ordered, and written as SQL again."""
