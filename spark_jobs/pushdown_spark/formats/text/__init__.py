"""JSON lines and CSV: the raw bytes are searched, and Spark parses only the lines that can match."""
