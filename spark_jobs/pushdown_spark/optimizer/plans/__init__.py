"""SQL queries as syntax trees, and their SELECTs as logical plans."""
