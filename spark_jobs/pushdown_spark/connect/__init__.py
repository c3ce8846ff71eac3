"""Jobs in a session of a Spark Connect server: planning, scans and outputs over Spark's public API."""
