"""Byte patterns: what raw data must contain if a row in it satisfies a predicate."""
