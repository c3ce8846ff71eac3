"""The file systems of outputs: one interface, for local files and for Hadoop."""
