"""Readers: from a source and a request to a lazy frame, and what really happened when it ran."""
