"""Session settings that the SQL depends on. The clients and the JDBC transport share them."""

from __future__ import annotations

from functools import reduce

_POSTGRESQL = (
    "-c standard_conforming_strings=on -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex "
    "-c extra_float_digits=1 -c timezone=UTC -c client_connection_check_interval=2000 "
    "-c default_transaction_read_only=on"
)
"""The server checks every 2 s whether the client is alive, so that the statements of killed tasks end."""
_REMOVED_MODES = ("PAD_CHAR_TO_FULL_LENGTH", "EMPTY_STRING_IS_NULL", "ORACLE")
"""SQL modes that change values. The other modes stay, because a user's query may depend on them."""


def _without(sql_mode: str, removed: str) -> str:
    return f"TRIM(',' FROM REPLACE(CONCAT(',', {sql_mode}, ','), ',{removed},', ','))"


_SQL_MODE = reduce(_without, _REMOVED_MODES, "@@SESSION.sql_mode")
MYSQL_SESSION = f"SET SESSION time_zone = '+00:00', SESSION net_write_timeout = 600, SESSION sql_mode = {_SQL_MODE}"


def postgresql_options(user_options: str | None, statement_timeout: float | None) -> str:
    """Return the user's options and ours in the syntax of libpq. The timeout is in seconds."""
    options = f"{user_options or ''} {_POSTGRESQL}"
    if statement_timeout is not None:
        options += f" -c statement_timeout={max(1, round(statement_timeout * 1000))}"
    return options.strip()


def mysql_timeout(seconds: float, *, is_mariadb: bool) -> str:
    """Return the assignment that limits the duration of statements."""
    return f"max_statement_time = {seconds}" if is_mariadb else f"max_execution_time = {max(1, round(seconds * 1000))}"
