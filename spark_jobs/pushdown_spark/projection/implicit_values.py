"""Values of implicit columns in DataFrames. A value is the same in all rows of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from pyspark.sql import types as t

from pushdown_spark.projection.file_locations import location, with_slash
from pushdown_spark.projection.implicit_columns import (
    FileMetadata,
    ImplicitCatalog,
    ImplicitColumn,
    ImplicitValue,
    directory_level,
)
from pushdown_spark.projection.paths import quote_name, sql_text, sql_type

MetadataLookup = Callable[[], Mapping[str, FileMetadata]]
"""Returns the metadata of each file of a source by its location."""


@dataclass(frozen=True)
class ImplicitValues:
    """The values of the implicit columns of one source.

    `roots` are the directories that contain `dir0`. `metadata` is only called for values that Spark does not offer.
    """

    implicit_catalog: ImplicitCatalog
    roots: tuple[str, ...]
    metadata: MetadataLookup

    def by_file(self, names: Sequence[str], files: Sequence[str]) -> list[str]:
        """Return select items for a DataFrame of Spark's file readers, which know the file of each row.

        `files` are all files of the DataFrame, without percent-encoding. Built-in columns are computed from Spark's
        `_metadata`, so that Spark can prune files by them. Columns of plug-ins are looked up by the location.
        """
        items = []
        for column in map(self._column, names):
            sql = (
                self._lookup(column, files, _SPARK_LOCATION)
                if column.builtin is None
                else spark_expression(column.builtin, self.roots)
            )
            items.append(f"{sql} AS {quote_name(column.name)}")
        return items

    def by_task(self, names: Sequence[str], files: Sequence[str]) -> list[str]:
        """Return select items for a DataFrame whose partition k has only rows of `files[k]`."""
        items = []
        for column in map(self._column, names):
            values = [self._value(column, file) for file in files]
            literal = _literal(values, "array<{}>", column.data_type)
            items.append(f"get({literal}, spark_partition_id()) AS {quote_name(column.name)}")
        return items

    def by_line(self, names: Sequence[str], files: Sequence[str]) -> list[str]:
        """Return select items for rows that Spark has just parsed from lines of `files`.

        Spark then knows the path of the file that it reads, and nothing else about the file.
        """
        return [f"{self._of_line(column, files)} AS {quote_name(column.name)}" for column in map(self._column, names)]

    def _of_line(self, column: ImplicitColumn, files: Sequence[str]) -> str:
        if column.builtin is None or column.builtin in _LISTING_COLUMNS:
            return self._lookup(column, files, LINE_LOCATION)
        return spark_expression(column.builtin, self.roots, LINE_LOCATION)

    def _lookup(self, column: ImplicitColumn, files: Sequence[str], file: str) -> str:
        values = {location(file): self._value(column, file) for file in files}
        return f"{_literal(values, 'map<string,{}>', column.data_type)}[{file}]"

    def _value(self, column: ImplicitColumn, file: str) -> ImplicitValue:
        return self.implicit_catalog.value(column, self.metadata()[location(file)])

    def _column(self, name: str) -> ImplicitColumn:
        column = self.implicit_catalog.find(name)
        assert column is not None
        return column


def _literal(values: object, collection: str, data_type: t.AtomicType) -> str:
    """Return a collection of values as an expression that Spark folds to a constant, so that it can prune files."""
    text = sql_text(json.dumps(values, default=_isoformat, ensure_ascii=False))
    if isinstance(data_type, t.DateType | t.TimestampType | t.TimestampNTZType):
        # Spark's JSON parser reads times by settings such as `spark.sql.legacy.timeParserPolicy`. A cast does not.
        return f"CAST(from_json({text}, '{collection.format('string')}') AS {collection.format(sql_type(data_type))})"
    return f"from_json({text}, {sql_text(collection.format(sql_type(data_type)))})"


def _isoformat(value: object) -> str:
    assert isinstance(value, date | datetime)
    return value.isoformat()


# `url_decode` decodes a plus sign as a space, so plus signs are encoded first.
_LOCATION = "regexp_replace(url_decode(replace({}, '+', '%2B')), '^file:/+', '/')"
_SPARK_LOCATION = _LOCATION.format("_metadata.file_path")
"""SQL for the location of a row's file, from the `_metadata` of Spark's file readers."""
LINE_LOCATION = _LOCATION.format("input_file_name()")
"""SQL for the location of the file that a task is reading."""
_LISTING_COLUMNS = frozenset({"modified", "size"})
"""Built-in columns that do not follow from the path of a file."""


def spark_expression(builtin: str, roots: Iterable[str], file: str = _SPARK_LOCATION) -> str:
    """Return Spark SQL for a built-in implicit column, from the location of a file and from `_metadata`.

    `roots` are the scan roots, absolute, with a scheme unless they are local. The expression returns what
    `BuiltInColumns.value` returns for the same file.
    """
    level = directory_level(builtin)
    if level is not None:
        return _directory_expression(
            level, sorted(set(map(location, roots)), key=lambda root: (-len(root), root)), file
        )
    last_slash = f"length({file}) - locate('/', reverse({file}))"
    filename = f"substring_index({file}, '/', -1)"
    return {
        "fqn": file,
        "filename": filename,
        "filepath": f"if({last_slash} = 0, '/', left({file}, {last_slash}))",
        "modified": "_metadata.file_modification_time",
        "size": "_metadata.file_size",
        "suffix": f"if(contains({filename}, '.'), substring_index({filename}, '.', -1), NULL)",
    }[builtin]


def _directory_expression(level: int, roots: Sequence[str], file: str) -> str:
    """Return Spark SQL for a directory below the deepest root that contains the file. The longest root is first."""
    if not roots:
        return "CAST(NULL AS STRING)"
    cases = []
    for prefix in map(with_slash, roots):
        names = f"filter(split(substring({file}, {len(prefix) + 1}), '/', -1), part -> part <> '')"
        value = f"if(size({names}) - 1 > {level}, get({names}, {level}), NULL)"
        cases.append(f"WHEN startswith({file}, {sql_text(prefix)}) THEN {value}")
    return f"CASE {' '.join(cases)} END"
