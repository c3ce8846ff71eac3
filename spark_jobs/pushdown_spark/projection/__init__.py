"""Projection: the columns a query asks for, parsed, merged into a tree and resolved against a schema."""
