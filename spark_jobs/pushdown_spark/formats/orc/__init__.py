"""The lazy ORC reader: filter columns first, select columns only where a row survives."""
