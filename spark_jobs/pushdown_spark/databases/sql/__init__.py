"""Remote SQL: tables and queries, and the conditions and expressions that mean the same in Spark."""
