"""The schemas of files: of each file, and the common one of many."""
