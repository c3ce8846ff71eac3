"""Reads of queries: as Arrow batches or over JDBC, in partitions that estimates of the database divide."""
