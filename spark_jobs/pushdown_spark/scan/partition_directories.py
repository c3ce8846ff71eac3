"""Partition pruning for the pushdown readers: Spark selects `key=value` directories, the readers add their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, Exactness, ReaderChoice, SourceFormat
from pushdown_spark.errors import MissingPathError, UnsupportedError
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.projection.file_locations import location
from pushdown_spark.projection.implicit_values import LINE_LOCATION
from pushdown_spark.projection.paths import quote_name, sql_text, sql_type
from pushdown_spark.runtime.spark_internals import physical_plan
from pushdown_spark.sources.request import Directories, ScanRequest
from pushdown_spark.sources.stores.listing import InputFile, decode_uri
from pushdown_spark.sources.stores.storage import Storage

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_MAX_DIRECTORIES = 1_000
"""Maximum number of directories for the pushdown readers, because reading their values takes time."""
_NULL = "null"
_PUSHDOWN_FORMATS = frozenset(
    {SourceFormat.JSON, SourceFormat.CSV, SourceFormat.ORC, SourceFormat.AVRO, SourceFormat.PARQUET}
)

_ToSql = Callable[[str], str]
"""Converts a value that the JVM prints to an SQL constant."""

_PRUNING_NODES = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Neg,
    exp.Paren,
    exp.Not,
    exp.And,
    exp.Or,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.Cast,
    exp.DataType,
)
"""Spark prunes partitions by a whole conjunct if the conjunct has only these nodes and partition columns."""


def with_directories(request: ScanRequest, frame: Callable[[], DataFrame], *, name_rule: NameRule) -> ScanRequest:
    """Return the request with pruned partitions and without the conjuncts that pruned them.

    `frame` returns the DataFrame of a scan by Spark's reader, whose plan has the directories. If the pushdown readers
    cannot know the values of partition columns, the request is for Spark's reader only.
    """
    names = () if _is_spark_only(request) else request.listing.partition_columns
    if not names:
        return request
    fields = t.StructType([field for field in request.spark_frame.schema.fields if field.name in names])
    try:
        values = _directory_values(request, fields, [_converter(field) for field in fields], frame())
    except UnsupportedError as problem:
        return replace(request, spark_only_reason=str(problem))
    except (PySparkException, Py4JJavaError):
        # Spark's reader raises the error of the query.
        return replace(request, spark_only_reason="Spark cannot plan the query")
    return _without_pruning_conjuncts(request, fields, values, name_rule=name_rule)


def _is_spark_only(request: ScanRequest) -> bool:
    """Return whether Spark's reader reads the source in any case. It prunes partitions itself."""
    source = request.source
    is_unfiltered = request.predicate is None and (
        source.format in (SourceFormat.JSON, SourceFormat.CSV)
        or (source.format in (SourceFormat.ORC, SourceFormat.PARQUET) and source.reader is ReaderChoice.AUTO)
    )
    is_unparsed = request.predicate is not None and request.predicate.tree is None
    return (
        source.format not in _PUSHDOWN_FORMATS
        or source.reader is ReaderChoice.SPARK
        or not source.filter_pushdown
        or is_unfiltered
        or is_unparsed
        or request.spark_only_reason is not None
    )


def _directory_values(
    request: ScanRequest, fields: t.StructType, converters: Sequence[_ToSql], frame: DataFrame
) -> dict[str, tuple[str, ...]]:
    """Return the values of each directory that Spark would read, as SQL constants.

    Raises UnsupportedError if they are unknown.
    """
    matching_rows = frame if request.predicate is None else frame.where(request.predicate.sql)
    leaf = physical_plan(matching_rows).collectLeaves().head()
    if not str(leaf.nodeName()).startswith("Scan "):
        raise UnsupportedError("Spark does not report which directories it reads")
    values: dict[str, tuple[str, ...]] = {}
    for directory, value_strings in _list_directories(leaf):
        if len(values) == _MAX_DIRECTORIES:
            raise UnsupportedError(f"rows come from more than {_MAX_DIRECTORIES:,} directories")
        if directory in values:
            raise UnsupportedError(f"directory {directory} has several partitions")
        if len(value_strings) != len(converters):
            raise UnsupportedError(f"the values of directory {directory} are ambiguous")
        values[directory] = tuple(
            f"CAST(NULL AS {sql_type(field.dataType)})" if text is None else to_sql(text)
            for field, to_sql, text in zip(fields, converters, value_strings, strict=True)
        )
    return values


def _without_pruning_conjuncts(
    request: ScanRequest, fields: t.StructType, values: Mapping[str, tuple[str, ...]], *, name_rule: NameRule
) -> ScanRequest:
    """Return the request without the conjuncts that every row of the remaining directories satisfies."""
    predicate = request.predicate
    conjuncts = () if predicate is None else predicate.conjuncts
    names = fields.fieldNames()
    pruning_conjuncts = [c for c in conjuncts if _has_only_columns(c, names, name_rule=name_rule)]
    other_conjuncts = [c for c in conjuncts if all(c is not other for other in pruning_conjuncts)]
    reports = tuple(
        ConjunctReport(sql=conjunct.sql(dialect="spark"), exactness=Exactness.EXACT, pushed_as="partition pruning")
        for conjunct in pruning_conjuncts
    )
    return replace(
        request,
        predicate=None if predicate is None else predicate.keep_conjuncts(other_conjuncts),
        directories=Directories(fields, values, reports),
    )


def _has_only_columns(conjunct: exp.Expr, names: Sequence[str], *, name_rule: NameRule) -> bool:
    columns = list(conjunct.find_all(exp.Column))
    return (
        bool(columns)
        and all(isinstance(node, _PRUNING_NODES) for node in conjunct.walk())
        and all(len(column.parts) == 1 for column in columns)
        and all(any(name_rule.same(c.name, n) for n in names) for c in columns)
    )


def listed_files(request: ScanRequest, storage: Storage) -> tuple[InputFile, ...]:
    """Return the source's files without those in pruned directories.

    Raises MissingPathError if a file vanished after Spark listed it.
    """
    try:
        files = request.listing.files(storage)
    except FileNotFoundError as problem:
        raise MissingPathError(
            f"{problem.filename} vanished while the scan was planned; run the task again"
        ) from problem
    if request.directories is None:
        return files
    return tuple(file for file in files if directory_of(file.uri) in request.directories.values)


def directory_of(uri: str) -> str:
    """Return the directory of a file, as a key."""
    return location(decode_uri(uri)).rpartition("/")[0]


def constants_by_task(request: ScanRequest, uris: Sequence[str]) -> dict[str, str]:
    """Return select items of the requested partition columns. Partition k of the DataFrame reads the file `uris[k]`."""
    directories = request.directories
    if directories is None:
        return {}
    items = {}
    for position, field in enumerate(directories.fields.fields):
        if field.name in request.columns:
            values = [directories.values[directory_of(uri)][position] for uri in uris]
            distinct = list(dict.fromkeys(values)) or [f"CAST(NULL AS {sql_type(field.dataType)})"]
            indexes = ", ".join(str(distinct.index(value)) for value in values)
            index = "0" if len(distinct) == 1 else f"get(array({indexes}), spark_partition_id())"
            items[field.name] = f"get(array({', '.join(distinct)}), {index}) AS {quote_name(field.name)}"
    return items


def constants_by_line(request: ScanRequest) -> dict[str, str]:
    """Return select items of the requested partition columns, for rows that Spark has just parsed from lines."""
    directories = request.directories
    if directories is None:
        return {}
    # A map numbers the directories. The number of a line's directory selects its values.
    numbers = ", ".join(f"{sql_text(path)}, {number}" for number, path in enumerate(directories.values))
    number = f"map({numbers})[regexp_replace({LINE_LOCATION}, '/[^/]*$', '')]"
    items = {}
    for position, field in enumerate(directories.fields.fields):
        if field.name not in request.columns:
            continue
        values = ", ".join(constants[position] for constants in directories.values.values())
        # No directory remains if the predicate excludes all of them.
        value = f"get(array({values}), {number})" if values else f"CAST(NULL AS {sql_type(field.dataType)})"
        items[field.name] = f"{value} AS {quote_name(field.name)}"
    return items


def _list_directories(leaf: JavaObject) -> Iterator[tuple[str, list[str | None]]]:
    """Yield the directories that Spark would read, with their values as the JVM prints them, or None for NULL."""
    schema = leaf.relation().partitionSchema()
    partitions = leaf.selectedPartitions().filePartitionIterator()
    while partitions.hasNext():
        partition = partitions.next()
        files, row = partition.files(), partition.values()
        if files.hasNext():
            directory = location(str(files.next().getPath().getParent().toString()))
            value_strings = str(row.toSeq(schema).mkString("\0")).split("\0")
            yield (
                directory,
                [None if text == _NULL and row.isNullAt(n) else text for n, text in enumerate(value_strings)],
            )


def _converter(field: t.StructField) -> _ToSql:
    """Return the converter of a column's values.

    Raises UnsupportedError for types whose printed values are ambiguous, and for declared lengths, because Spark pads
    their values.
    """
    ddl = field.dataType.simpleString()
    match None if field.metadata.keys() - {"comment"} else field.dataType:
        case t.ByteType() | t.ShortType() | t.IntegerType() | t.LongType() | t.DecimalType() | t.DoubleType():
            return lambda text: f"CAST('{text}' AS {ddl})"
        case t.BooleanType():
            return str
        case t.DateType():
            return lambda text: f"date_from_unix_date({text})"
        case t.TimestampType():
            return lambda text: f"timestamp_micros({text})"
        case t.StringType() if ddl == "string":
            return sql_text
        case _:
            raise UnsupportedError(f"a partition column is of type {ddl}")
