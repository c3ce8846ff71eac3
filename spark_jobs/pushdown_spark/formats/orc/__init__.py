"""The lazy ORC reader: it reads filter columns first, and select columns only where a row passes the filter."""
