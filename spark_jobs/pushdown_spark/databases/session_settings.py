"""What our statements take for granted of a session, whichever driver opens it."""

from __future__ import annotations

from functools import reduce

_POSTGRESQL = (
    "-c standard_conforming_strings=on -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex "
    "-c extra_float_digits=1 -c timezone=UTC -c client_connection_check_interval=2000 "
    "-c default_transaction_read_only=on"
)
"""A server asks every 2 s whether its client still lives, so that statements of killed tasks end."""
_MODES = ("PAD_CHAR_TO_FULL_LENGTH", "EMPTY_STRING_IS_NULL", "ORACLE")
"""Modes that change the values of columns and functions. Others stay: a user's own query may be written for them."""


def _without(mode: str, left_out: str) -> str:
    return f"TRIM(',' FROM REPLACE(CONCAT(',', {mode}, ','), ',{left_out},', ','))"


_MODE = reduce(_without, _MODES, "@@SESSION.sql_mode")
MYSQL_SESSION = f"SET SESSION time_zone = '+00:00', SESSION net_write_timeout = 600, SESSION sql_mode = {_MODE}"


def postgresql_options(own: str | None, statement_timeout: float | None) -> str:
    """The user's own options and ours, as the server takes them when it is connected to; the timeout in seconds."""
    options = f"{own or ''} {_POSTGRESQL}"
    if statement_timeout is not None:
        options += f" -c statement_timeout={max(1, round(statement_timeout * 1000))}"
    return options.strip()


def mysql_timeout(seconds: float, *, is_mariadb: bool) -> str:
    """The setting of a session that ends statements after some seconds."""
    return f"max_statement_time = {seconds}" if is_mariadb else f"max_execution_time = {max(1, round(seconds * 1000))}"
