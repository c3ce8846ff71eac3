"""The whole product end to end: services of its own, every example DAG, and what they must have left."""
