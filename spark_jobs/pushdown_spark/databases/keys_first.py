"""Has MySQL or MariaDB find the keys of few rows before it reads their other columns.

InnoDB makes all columns that a statement names of each row before the server looks at its condition: measured, 16
columns take twice the time of one. A statement that finds keys alone names few, and each key found is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from pushdown_spark.databases.model import RemoteTable
from pushdown_spark.databases.query import RemoteQuery
from pushdown_spark.databases.render import all_of, column_reference, quoted, table_reference

_SHARE_BY_COLUMN = 0.005
"""Of the rows: so many keys are looked up in the time in which one more column is made of all. Measured."""


def is_worth(share: float, columns: Sequence[str], key: Sequence[str], condition: exp.Expr) -> bool:
    """Whether the columns that neither key nor condition name are so many that looking rows up takes less."""
    named = {column.name for column in condition.find_all(exp.Column)}.union(key)
    return bool(key) and share <= _SHARE_BY_COLUMN * len(set(columns) - named)


def keys_first(query: RemoteQuery, table: RemoteTable, key: Sequence[str]) -> RemoteQuery:
    """The same rows: those with the keys that a condition leaves. `key` is the table's primary key."""
    found, rows = _free_name(table, "found"), table_reference(table)
    # Under names that no column has, so that those of the query mean the table's.
    names = [_free_name(table, f"key_{place}") for place in range(len(key))]
    pairs = list(zip(key, names, strict=True))
    keys = [exp.Alias(this=column_reference(table, each), alias=quoted(name)) for each, name in pairs]
    inner = exp.Select(expressions=keys).from_(table_reference(table), copy=False)
    inner.set("where", query.select.args["where"].copy())
    equal = [exp.EQ(this=column_reference(table, each), expression=exp.column(quoted(name))) for each, name in pairs]
    select = query.select.copy()
    select.set("where", None)
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=exp.TableAlias(this=quoted(found)))))
    # In this order whatever the server thinks: by its statistics both are the same.
    select.set("joins", [exp.Join(this=rows, kind="STRAIGHT_JOIN", on=all_of(equal))])
    return RemoteQuery(select, query.dialect, notes=query.notes)


def _free_name(table: RemoteTable, name: str) -> str:
    while table.column(name) is not None:
        name += "_"
    return name
