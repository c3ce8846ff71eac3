"""Directories of files as outputs: rows are staged, moved and recorded, and a journal can undo the moves."""
