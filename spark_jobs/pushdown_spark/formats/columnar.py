"""Common parts of the columnar readers: bound conjuncts, supported types, and the file list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.errors import MissingPathError, UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.arrow_types import utc_arrow_type
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import Node, conjunction
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Fold, Scope
from pushdown_spark.expressions.session_settings import check_meaning, is_case_sensitive, setting
from pushdown_spark.relations.listing import InputFile, input_files
from pushdown_spark.relations.partition_directories import in_directories
from pushdown_spark.relations.request import ScanRequest
from pushdown_spark.relations.storage import Storage

_ATOMS = (
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.BinaryType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
)


def scope_of(spark: SparkSession, request: ScanRequest, fold: Fold) -> Scope:
    """Return the scope to which the request's predicate is bound. `fold` evaluates constants that need Spark."""
    return Scope(
        request.schema,
        case_sensitive=is_case_sensitive(spark),
        plain_strings=not (request.predicate is not None and request.predicate.has_backslashes)
        and setting(spark, "spark.sql.session.collation.default", "UTF8_BINARY") == "UTF8_BINARY",
        fold=fold,
    )


def bound_conjuncts(spark: SparkSession, request: ScanRequest, fold: Fold) -> list[Pushdown[Node]]:
    """Bind each conjunct of the predicate. Empty without a predicate that the parser can read."""
    predicate = request.predicate
    if predicate is None:
        return []
    try:
        check_meaning(spark, predicate.sql)
    except UnsupportedError as problem:
        return [Pushdown.unsupported(conjunct, str(problem)) for conjunct in predicate.conjuncts]
    scope = scope_of(spark, request, fold)
    return [bind(conjunct, scope) for conjunct in predicate.conjuncts]


def combined(conjuncts: Sequence[Pushdown[Node]]) -> ArrowFilter | None:
    """Return the filter of all supported conjuncts, None without conjuncts."""
    roots = [conjunct.artifact for conjunct in conjuncts if conjunct.artifact is not None]
    return ArrowFilter(conjunction(roots)) if conjuncts else None


def first_reason(conjuncts: Sequence[Pushdown[Node]]) -> str:
    """Return why the first unsupported conjunct is unsupported."""
    return next((conjunct.reason or "" for conjunct in conjuncts if conjunct.artifact is None), "there is none")


def is_exact(conjuncts: Sequence[Pushdown[Node]]) -> bool:
    """Return whether the combined filter keeps exactly the rows that pass the predicate."""
    return all(conjunct.is_exact for conjunct in conjuncts)


def arrow_schema(fields: Sequence[t.StructField]) -> pa.Schema:
    """Return the Arrow schema in which Spark expects some columns."""
    return pa.schema([pa.field(field.name, utc_arrow_type(field.dataType)) for field in fields])


def types_in(data_type: t.DataType) -> Iterator[t.DataType]:
    """Yield a type and all types in it, depth first."""
    yield data_type
    for part in _parts(data_type):
        yield from types_in(part)


def first_type(data_type: t.DataType, test: Callable[[t.DataType], bool]) -> t.DataType | None:
    """Return the first type that passes a test: the type itself, or a type in it, depth first."""
    return next(filter(test, types_in(data_type)), None)


def count_leaves(data_type: t.DataType) -> int:
    """Return the number of types in a type that contain no others."""
    parts = _parts(data_type)
    return sum(map(count_leaves, parts)) if parts else 1


def has_map(data_type: t.DataType) -> bool:
    """Return whether a type is or contains a map."""
    return first_type(data_type, lambda part: isinstance(part, t.MapType)) is not None


def unknown_type(data_type: t.DataType) -> t.DataType | None:
    """Return a type, or a type in it, that only Spark reads, or None."""
    return first_type(data_type, _is_unknown)


def _parts(data_type: t.DataType) -> list[t.DataType]:
    """Return the types of which a type is made."""
    if isinstance(data_type, t.StructType):
        return [field.dataType for field in data_type.fields]
    if isinstance(data_type, t.MapType):
        return [data_type.keyType, data_type.valueType]
    return [data_type.elementType] if isinstance(data_type, t.ArrayType) else []


def _is_unknown(data_type: t.DataType) -> bool:
    """Return whether only Spark reads values of a type that contains no others."""
    if isinstance(data_type, t.StructType | t.ArrayType | t.MapType):
        return False
    is_plain_string = type(data_type) is t.StringType and data_type.collation == "UTF8_BINARY"
    return type(data_type) not in _ATOMS and not is_plain_string


def check_columns(request: ScanRequest) -> None:
    """Raise UnsupportedError if only Spark reads a required column."""
    for field in request.read_schema.fields:
        if unknown := unknown_type(field.dataType):
            raise UnsupportedError(f"column {field.name} has type {unknown.simpleString()}, which only Spark reads")
        if any("DEFAULT" in key for key in field.metadata):
            raise UnsupportedError(f"column {field.name} has a default for missing values")


def listed_files(request: ScanRequest, storage: Storage) -> tuple[InputFile, ...]:
    """Return the source's files without those in pruned directories.

    Raises MissingPathError if a file vanished after Spark listed it.
    """
    try:
        return in_directories(request, input_files(request.native, storage, request.uris))
    except FileNotFoundError as problem:
        raise MissingPathError(
            f"{problem.filename} vanished while the scan was planned; run the task again"
        ) from problem
