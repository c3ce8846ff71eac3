"""Where the pages of a Spark application are: its own while it runs, the history server's afterwards."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from airflow_pushdown.exceptions import config_error

HISTORY_EXTRA = "history-server"
"""Extra of a Spark connection that tells the history server's address."""
HISTORY_KEY = "spark.yarn.historyServer.address"
"""Spark's own key for it, which counts where the connection has no such extra."""

_STARTED = re.compile(r"^airflow_pushdown: application (?P<id>\S+), UI (?P<ui>\S+)$")
_WEB = frozenset({"http", "https"})


@dataclass(frozen=True)
class Application:
    """A Spark application: its id, and the address of its own pages, which go when it ends; None where it has none."""

    application_id: str
    ui: str | None = None


def started_application(line: str) -> Application | None:
    """The application that a line of the job's output announces, None where it announces none."""
    match = _STARTED.match(line)
    if match is None:
        return None
    return Application(match["id"], match["ui"] if is_web_address(match["ui"]) else None)


def history_server(extra: object, key: str | None) -> str | None:
    """The history server's address: the connection's extra, else the value of Spark's own key; None without either.

    Raises `ConfigError` for an address that no browser should be sent to.
    """
    for name, given in ((f"connection extra {HISTORY_EXTRA!r}", extra), (f"conf entry {HISTORY_KEY}", key)):
        if not given:
            continue
        # Spark's own key is a host and a port without a scheme.
        address = str(given) if "://" in str(given) else f"http://{given}"
        if not is_web_address(address) or "@" in urlsplit(address).netloc:
            raise config_error(f"conn_id: {name} is no address like http://spark-history:18080 (without a password)")
        return address.rstrip("/")
    return None


def history_page(server: str | None, application_id: str | None) -> str:
    """The history server's page of an application; empty where either is not known."""
    if server is None or application_id is None:
        return ""
    return f"{server}/history/{quote(application_id, safe='')}/"


def is_web_address(text: str) -> bool:
    """Whether a text is an address that a link may lead to: nothing that a browser would run."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in _WEB and bool(parts.netloc)
