"""How columns cross Spark's JDBC source with the values that they have over Arrow.

Where Spark or a driver would make another value of a column, it crosses as text or as a number of a plainer type, and
Spark makes the wanted one of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.model import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.render import call, cast, column_reference
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.projection.paths import sql_text, sql_type

_LONG_DIGITS, _MOST_DIGITS = 18, 38
_DATE_LENGTH = 10
_SAME_IN_MYSQL = ("smallint", "mediumint", "int", "bigint", "double", "decimal")
"""Types of MySQL and MariaDB that Spark and the drivers read as they are, unless they are unsigned."""
_TEXT_IN_MYSQL = ("varchar", "text", "tinytext", "mediumtext", "longtext")
_SHOWN = 60


@dataclass(frozen=True)
class Crossing:
    """How a column crosses: what is selected for it (None: the column alone), and whether as text to be checked."""

    rendering: exp.Expr | None
    as_text: bool = False


def crossings(table: RemoteTable) -> dict[str, Crossing]:
    """How the columns cross that can, by name."""
    found = ((column.name, _crossing(column, table)) for column in table.columns)
    return {name: way for name, way in found if way is not None}


def crossed(table: RemoteTable, ways: Mapping[str, Crossing]) -> RemoteTable:
    """The table with its columns selected as they cross; those that do not are as they were."""
    columns = [
        replace(column, rendering=ways[column.name].rendering) if column.name in ways else column
        for column in table.columns
    ]
    return replace(table, columns=tuple(columns))


def decoded(crossed: str, column: RemoteColumn, way: Crossing) -> str:
    """Spark's SQL for the wanted value of what crossed under a plain name.

    As SQL, because a Column takes ten calls to the JVM. The cast also takes away what Spark noted of the length.
    """
    value = _checked(crossed, column) if way.as_text else crossed
    return f"CAST({value} AS {sql_type(column.spark_type)})"


def _crossing(column: RemoteColumn, table: RemoteTable) -> Crossing | None:
    reference = column_reference(table, column.name)
    if table.dialect is Dialect.POSTGRES:
        return _from_postgresql(column, reference)
    return _from_mysql(column, reference, table) if table.dialect.is_mysql else None


def _from_postgresql(column: RemoteColumn, reference: exp.Column) -> Crossing | None:
    kind = column.spark_type
    if isinstance(kind, t.ArrayType):
        return None
    if isinstance(kind, t.DecimalType):
        if column.remote_type.startswith("numeric(") and kind.precision <= _LONG_DIGITS:
            return Crossing(None)
        return Crossing(_text(reference), as_text=True)
    if isinstance(kind, t.DateType | t.TimestampNTZType):
        return Crossing(_text(reference), as_text=True)
    if isinstance(kind, t.TimestampType):
        there = exp.AtTimeZone(this=reference, zone=exp.Literal.string("UTC"))
        return Crossing(_text(there), as_text=True)
    return Crossing(column.rendering)


def _text(node: exp.Expr) -> exp.Expr:
    return cast(node, "text", Dialect.POSTGRES)


def _from_mysql(column: RemoteColumn, reference: exp.Column, table: RemoteTable) -> Crossing:
    kind, word = column.spark_type, column.remote_type.partition("(")[0].partition(" ")[0]
    plain = "unsigned" not in column.remote_type
    selected = reference if column.rendering is None else column.rendering
    if word in _SAME_IN_MYSQL and plain:
        wide = word == "decimal" and _digits(column) > _MOST_DIGITS
        return Crossing(call("CONCAT", reference), as_text=True) if wide else Crossing(column.rendering)
    if isinstance(kind, t.DecimalType | t.DateType | t.TimestampNTZType | t.TimestampType):
        return Crossing(call("CONCAT", selected), as_text=True)
    if isinstance(kind, t.ByteType | t.ShortType | t.IntegerType | t.LongType):
        # tinyint(1) would be a boolean, a year a date.
        return Crossing(cast(selected, "SIGNED", Dialect.MYSQL))
    if isinstance(kind, t.StringType) and (word not in _TEXT_IN_MYSQL or table.subquery is not None):
        # Spark would pad what a driver calls CHAR: enums too, and a query's columns are not told from those.
        return Crossing(call("CONCAT", selected))
    return Crossing(column.rendering)


def _digits(column: RemoteColumn) -> int:
    return int(column.remote_type.partition("(")[2].partition(",")[0] or 0)


def _checked(text: str, column: RemoteColumn) -> str:
    """The value of a text; Spark raises, naming the column, for what its type has no room for."""
    kind = column.spark_type
    moment = f"concat({text}, 'Z')" if isinstance(kind, t.TimestampType) else text
    found = f"CASE WHEN {_is_plain(text, kind)} THEN try_cast({moment} AS {sql_type(kind)}) END"
    return f"coalesce({found}, CASE WHEN {text} IS NOT NULL THEN {_refused(text, column)} END)"


def _is_plain(text: str, kind: t.DataType) -> str:
    """Whether a text is one that Spark's cast reads as it is meant: it passes over what follows a date."""
    if isinstance(kind, t.DateType):
        return f"length({text}) = {_DATE_LENGTH} AND {text} >= '0001'"
    if isinstance(kind, t.TimestampNTZType | t.TimestampType):
        return f"substring({text}, 5, 1) = '-' AND {text} >= '0001' AND NOT endswith({text}, 'C')"
    return f"{text} IS NOT NULL"


def _refused(text: str, column: RemoteColumn) -> str:
    """Raises as a Python worker does, a line with the class of the error, which is read back as that."""
    name = f"{SchemaConflictError.__module__}.{SchemaConflictError.__name__}"
    before = f"\n{name}: column {column.name} ({column.remote_type}) holds '"
    behind = (
        f"' that is no {column.spark_type.simpleString()} to Spark; leave the column out, or give a `query` that "
        "converts it\n"
    )
    return f"raise_error(concat({sql_text(before)}, substring({text}, 1, {_SHOWN}), {sql_text(behind)}))"
