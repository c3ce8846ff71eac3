"""Avro container files: blocks are skipped by their bytes, and only what survives is decoded."""
