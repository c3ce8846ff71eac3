"""Quoted identifiers. Workers import this module, so it imports nothing."""


def quote_ansi(name: str) -> str:
    """Return an identifier in double quotes, for PostgreSQL and SQLite."""
    return '"' + name.replace('"', '""') + '"'


def quote_mysql(name: str) -> str:
    """Return an identifier in backticks, for MySQL and MariaDB."""
    return "`" + name.replace("`", "``") + "`"
