"""Services of a running job: the JVM, file systems, errors, workers and metrics. This module imports nothing."""
