"""Tables of PostgreSQL, MySQL, MariaDB and SQLite, of which only what a query needs is read."""
