"""The clients of PostgreSQL, MySQL, MariaDB and SQLite, and the types of the columns in their tables."""
