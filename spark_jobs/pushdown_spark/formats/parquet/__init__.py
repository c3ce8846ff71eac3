"""Lazy Parquet scans: DataFusion evaluates a filter first, and decodes other columns only where a row passes it."""
