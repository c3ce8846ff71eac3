"""Projections: the requested columns, parsed, merged into a tree and resolved against the schema of a relation."""
