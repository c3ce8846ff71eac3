"""Access to Spark and the machine: the JVM, file systems, errors, workers and metrics. This module imports nothing."""
