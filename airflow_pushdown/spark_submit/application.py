"""Web pages of a Spark application: its own UI while it runs, and the history server afterward."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from airflow_pushdown.exceptions import config_error

HISTORY_EXTRA = "history-server"
"""The extra of a Spark connection with the address of the history server."""
HISTORY_KEY = "spark.yarn.historyServer.address"
"""Spark's own setting of this address, which is used without the extra."""

_STARTED = re.compile(r"^airflow_pushdown: application (?P<id>\S+), UI (?P<ui>\S+)$")
_TRACKED = re.compile(r"^\s*tracking URL: (?P<ui>\S+/(?P<id>application_\d+_\d+)/?)$")
"""The line in which spark-submit names the page of an application on YARN's proxy, which leads to the driver's UI."""
_SUBMITTED = re.compile(r"application ID \S+ and submission ID (?P<namespace>[^\s:]+):(?P<pod>\S+)")
"""The line in which spark-submit names the driver pod that it has created on Kubernetes."""
_WEB = frozenset({"http", "https"})


@dataclass(frozen=True)
class Application:
    """A Spark application: its id and the address of its UI while it runs, or None without a UI."""

    application_id: str
    ui: str | None = None


def started_application(line: str) -> Application | None:
    """Return the application that a line of the job or of spark-submit reports, or None for other lines."""
    match = _STARTED.match(line) or _TRACKED.match(line)
    if match is None:
        return None
    return Application(match["id"], match["ui"] if is_web_address(match["ui"]) else None)


def submitted_pod(line: str) -> str | None:
    """Return the driver pod that a line of spark-submit reports, or None for other lines.

    >>> submitted_pod("Deployed Spark application a with application ID b and submission ID etl:a-1-driver")
    'a-1-driver'
    """
    match = _SUBMITTED.search(line)
    return None if match is None else match["pod"]


def history_server(extra: object, key: str | None) -> str | None:
    """Return the address of the history server: the extra of the connection, else Spark's setting, else None.

    Raises `ConfigError` for an invalid or unsafe address.
    """
    for name, value in ((f"connection extra {HISTORY_EXTRA!r}", extra), (f"conf entry {HISTORY_KEY}", key)):
        if not value:
            continue
        # Spark's own setting is a host and a port without a scheme.
        address = str(value) if "://" in str(value) else f"http://{value}"
        if not is_web_address(address) or "@" in urlsplit(address).netloc:
            raise config_error(
                f"conn_id: {name} must be an address such as http://spark-history:18080 without a password"
            )
        return address.rstrip("/")
    return None


def history_page(server: str | None, application_id: str | None) -> str:
    """Return the page of an application on the history server, or an empty string if one of them is unknown."""
    if server is None or application_id is None:
        return ""
    return f"{server}/history/{quote(application_id, safe='')}/"


def is_web_address(text: str) -> bool:
    """Return whether a text is a web address, and not for example a `javascript:` URL."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in _WEB and bool(parts.netloc)
