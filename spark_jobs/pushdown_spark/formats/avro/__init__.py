"""The Avro reader: it skips blocks by their bytes, and decodes filter columns first."""
