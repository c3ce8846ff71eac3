"""Quoted identifiers. Workers import this module, so it imports nothing."""

POSTGRESQL_NAME_BYTES = 63
"""The length at which PostgreSQL cuts off names, and values of the type name."""


def quote_ansi(name: str) -> str:
    """Return an identifier in double quotes, for PostgreSQL and SQLite."""
    return '"' + name.replace('"', '""') + '"'


def quote_mysql(name: str) -> str:
    """Return an identifier in backticks, for MySQL and MariaDB."""
    return "`" + name.replace("`", "``") + "`"


def with_suffix(name: str, suffix: str) -> str:
    """Return a quoted identifier with a suffix, in the same quotes.

    >>> with_suffix('"shop"."t"', "_p")
    '"shop"."t_p"'
    """
    return f"{name[:-1]}{suffix}{name[-1]}"
