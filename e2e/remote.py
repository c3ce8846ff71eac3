"""The PostgreSQL table that the remote scans of the example DAGs read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import psycopg2  # type: ignore[import-untyped]

from e2e.expected import flights

TABLE = "flights"
_STRING_COLUMNS = frozenset(("carrier", "tailnum", "origin", "dest", "time_hour"))


def load_flights(connection: Mapping[str, object], data: Path) -> None:
    """Replace the table with the flights below `data`. `connection` has the arguments of `psycopg2.connect`."""
    rows = flights(data)
    first = next(rows)
    columns = ", ".join(f"{name} {'text' if name in _STRING_COLUMNS else 'integer'}" for name in first)
    with closing(psycopg2.connect(**connection)) as database, database, database.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        cursor.execute(f"CREATE TABLE {TABLE} ({columns})")
        cursor.copy_expert(f"COPY {TABLE} FROM STDIN WITH (FORMAT csv)", _csv([first, *rows]))
        cursor.execute(f"CREATE INDEX ON {TABLE} (tailnum)")
        cursor.execute(f"ANALYZE {TABLE}")


def _csv(rows: Iterable[Mapping[str, str]]) -> io.StringIO:
    file = io.StringIO()
    csv.writer(file).writerows(row.values() for row in rows)
    file.seek(0)
    return file
