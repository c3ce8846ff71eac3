"""Tables of Spark's catalogs as outputs: tables of files, and tables of connectors."""
