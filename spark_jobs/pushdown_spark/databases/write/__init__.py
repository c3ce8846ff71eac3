"""Writes to tables: connections that write, the columns and values of the target, and the load of partitions."""
