"""What readers that evaluate a predicate over columns share: compiled conjuncts, the types they read, the file list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, Exactness
from pushdown_spark.errors import MissingPathError
from pushdown_spark.predicates.compile import all_of, compile_filter
from pushdown_spark.predicates.derive import Fold, Scope
from pushdown_spark.predicates.parse import conjuncts
from pushdown_spark.predicates.vector import VectorFilter
from pushdown_spark.readers.predicate_settings import misread
from pushdown_spark.relations.listing import InputFile, input_files
from pushdown_spark.relations.partition_directories import in_directories
from pushdown_spark.relations.request import ScanRequest, unsupported
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


@dataclass(frozen=True)
class Part:
    """One conjunct of the predicate: compiled, or the reason why it is not."""

    conjunct: exp.Expr
    compiled: VectorFilter | str

    def report(self, pushed_as: str) -> ConjunctReport:
        """What becomes of the conjunct, where a reader evaluates it as `pushed_as` says."""
        sql = self.conjunct.sql(dialect="spark", copy=False)
        if isinstance(self.compiled, str):
            return unsupported(sql, self.compiled)
        exactness = Exactness.EXACT if self.compiled.is_exact else Exactness.INEXACT
        return ConjunctReport(sql=sql, exactness=exactness, pushed_as=pushed_as)


def parts_of(spark: SparkSession, request: ScanRequest, fold: Fold) -> list[Part]:
    """The conjuncts of a predicate, each compiled by itself; none without a predicate that the parser knows."""
    if request.predicate is None:
        return []
    if (reason := misread(spark, request.where or "")) is not None:
        return [Part(conjunct, reason) for conjunct in conjuncts(request.predicate)]
    scope = Scope(
        request.schema,
        case_sensitive=conf(spark, "spark.sql.caseSensitive", "false") == "true",
        plain_strings="\\" not in (request.where or "")
        and conf(spark, "spark.sql.session.collation.default", "UTF8_BINARY") == "UTF8_BINARY",
        fold=fold,
    )
    return [Part(conjunct, compile_filter(conjunct, scope)) for conjunct in conjuncts(request.predicate)]


def combined(parts: Sequence[Part]) -> VectorFilter | None:
    """The filter of all conjuncts that compile; None where there is no conjunct at all."""
    return all_of([part.compiled for part in parts if isinstance(part.compiled, VectorFilter)]) if parts else None


def first_reason(parts: Sequence[Part]) -> str:
    """Why the first conjunct that does not compile does not."""
    return next((part.compiled for part in parts if isinstance(part.compiled, str)), "there is none")


def is_exact(parts: Sequence[Part]) -> bool:
    """Whether the combined filter keeps no row that the predicate refuses."""
    return all(isinstance(part.compiled, VectorFilter) and part.compiled.is_exact for part in parts)


def conf(spark: SparkSession, key: str, default: str) -> str:
    """A setting of the session, without blanks around it."""
    return (spark.conf.get(key, default) or default).strip()


def read_fields(request: ScanRequest) -> list[t.StructField]:
    """The table columns that must be read, in the table's order."""
    return list(request.read_schema.fields)


def unknown_type(kind: t.DataType) -> t.DataType | None:
    """A type in a column's type that only Spark reads."""
    if isinstance(kind, t.StructType):
        return next((found for f in kind.fields if (found := unknown_type(f.dataType))), None)
    if isinstance(kind, t.ArrayType):
        return unknown_type(kind.elementType)
    if isinstance(kind, t.MapType):
        return unknown_type(kind.keyType) or unknown_type(kind.valueType)
    known = type(kind) in _ATOMS or (type(kind) is t.StringType and kind.collation == "UTF8_BINARY")
    return None if known else kind


def unread_column(request: ScanRequest) -> str | None:
    """Which wanted column only Spark reads, and why; None where there is none."""
    for field in read_fields(request):
        if unknown := unknown_type(field.dataType):
            return f"column {field.name} has type {unknown.simpleString()}, which only Spark reads"
        if any("DEFAULT" in key for key in field.metadata):
            return f"column {field.name} has a default for missing values"
    return None


def listed_files(request: ScanRequest, storage: Storage) -> tuple[InputFile, ...]:
    """The source's files, but those in directories that the predicate leaves out.

    Raises MissingPathError where one vanished since Spark listed it.
    """
    try:
        return in_directories(request, input_files(request.native, storage))
    except FileNotFoundError as problem:
        raise MissingPathError(
            f"{problem.filename} vanished while the scan was planned; run the task again"
        ) from problem
