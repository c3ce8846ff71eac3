"""Writes the rows of a job all or nothing."""
