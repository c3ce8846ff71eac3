"""Puts the flights into the PostgreSQL table that the remote scans of the example DAGs read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import psycopg2  # type: ignore[import-untyped]

from e2e.expected import flights

TABLE = "flights"
_TEXTS = frozenset(("carrier", "tailnum", "origin", "dest", "time_hour"))


def load_flights(connection: Mapping[str, object], data: Path) -> None:
    """Make the table anew from the CSV files below `data`; `connection` is what psycopg2 connects with."""
    rows = flights(data)
    first = next(rows)
    columns = ", ".join(f"{name} {'text' if name in _TEXTS else 'integer'}" for name in first)
    with closing(psycopg2.connect(**connection)) as database, database, database.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        cursor.execute(f"CREATE TABLE {TABLE} ({columns})")
        cursor.copy_expert(f"COPY {TABLE} FROM STDIN WITH (FORMAT csv)", _csv([first, *rows]))
        cursor.execute(f"CREATE INDEX ON {TABLE} (tailnum)")
        cursor.execute(f"ANALYZE {TABLE}")


def _csv(rows: Iterable[Mapping[str, str]]) -> io.StringIO:
    text = io.StringIO()
    csv.writer(text).writerows(row.values() for row in rows)
    text.seek(0)
    return text
