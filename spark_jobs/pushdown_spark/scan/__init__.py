"""The interface of scans, and their tasks, limits, metrics and advice."""
