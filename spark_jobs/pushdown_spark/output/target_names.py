"""Names of columns: those of the rows must be those of the table."""

from __future__ import annotations

from pyspark.sql import types as t

from pushdown_spark.errors import SchemaConflictError


def check_column_names(rows: t.StructType, table: t.StructType, *, case_sensitive: bool) -> None:
    """Raise SchemaConflictError if only the rows or only the table have a column."""
    fold = str if case_sensitive else str.lower
    names, columns = ({fold(name): name for name in schema.names} for schema in (rows, table))
    if extra := [name for key, name in names.items() if key not in columns]:
        raise SchemaConflictError(
            f"output_table: the table has no column {extra[0]!r}; it has {', '.join(columns.values())}"
        )
    if missing := [name for key, name in columns.items() if key not in names]:
        raise SchemaConflictError(
            f"output_table: the rows have no column {missing[0]!r} of the table; select it, for example as NULL"
        )
