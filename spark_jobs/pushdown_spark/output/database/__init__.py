"""Tables of databases as outputs: rows are loaded into staging tables, and one transaction moves them."""
