"""Writes the values of implicit columns into frames: one value for all rows of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from pyspark.sql import types as t

from pushdown_spark.projection.catalog import FileFacts, ImplicitCatalog, ImplicitColumn, ImplicitValue
from pushdown_spark.projection.implicit import (
    location,
    max_depth,
    native_implicit_expressions,
    native_location,
)
from pushdown_spark.projection.paths import quote_name, sql_text, sql_type

Facts = Callable[[], Mapping[str, FileFacts]]
"""Gives what is known of each file of a source, by its location."""


@dataclass(frozen=True)
class ImplicitFill:
    """The implicit columns of one source's frames.

    `roots` are the directories below which `dir0` counts; `facts` is asked only where Spark
    does not know the values by itself.
    """

    catalog: ImplicitCatalog
    roots: tuple[str, ...]
    facts: Facts

    def by_metadata(self, names: Sequence[str], files: Sequence[str]) -> list[str]:
        """Select items for a frame of Spark's own file readers, which know the file of each row.

        `files` are all files of the frame, without percent-encoding. The values of built-in columns are computed from
        what Spark offers, so that it can leave out files by them; those of plug-ins are looked up by location.
        """
        builtin = native_implicit_expressions(self.roots, max_depth(files, [location(root) for root in self.roots]))
        items = []
        for column in map(self._column, names):
            sql = self._looked_up(column, files) if column.builtin is None else builtin[column.builtin]
            items.append(f"{sql} AS {quote_name(column.name)}")
        return items

    def by_partition(self, names: Sequence[str], files: Sequence[str]) -> list[str]:
        """Select items for a frame whose partition number k holds rows of `files[k]` alone."""
        items = []
        for column in map(self._column, names):
            values = [self._value(column, file) for file in files]
            literal = _literal(values, "array<{}>", column.data_type)
            items.append(f"get({literal}, spark_partition_id()) AS {quote_name(column.name)}")
        return items

    def _looked_up(self, column: ImplicitColumn, files: Sequence[str]) -> str:
        values = {location(file): self._value(column, file) for file in files}
        return f"{_literal(values, 'map<string,{}>', column.data_type)}[{native_location()}]"

    def _value(self, column: ImplicitColumn, file: str) -> ImplicitValue:
        return self.catalog.value(column, self.facts()[location(file)])

    def _column(self, name: str) -> ImplicitColumn:
        column = self.catalog.find(name)
        assert column is not None
        return column


def _literal(values: object, collection: str, kind: t.AtomicType) -> str:
    """A collection of values of a type as one constant: Spark folds it, and files can still be left out by it."""
    text = sql_text(json.dumps(values, default=_plain, ensure_ascii=False))
    if isinstance(kind, t.DatetimeType):
        # Spark's JSON parser reads times by settings (`spark.sql.legacy.timeParserPolicy`), a cast does not.
        return f"CAST(from_json({text}, '{collection.format('string')}') AS {collection.format(sql_type(kind))})"
    return f"from_json({text}, {sql_text(collection.format(sql_type(kind)))})"


def _plain(value: object) -> str:
    assert isinstance(value, date | datetime)
    return value.isoformat()
