"""Access to Spark and the machine: the JVM, file systems, errors, workers and metrics.

The package's `__init__` imports nothing, so that workers load it quickly.
"""
