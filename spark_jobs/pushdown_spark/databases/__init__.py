"""Sources and targets in PostgreSQL, MySQL, MariaDB and SQLite."""
