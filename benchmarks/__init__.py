"""Comparisons with other readers and engines, as ratios within one run. They are not part of the tests."""
