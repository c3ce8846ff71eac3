"""`spark.read.format("pushdown_orc")`: the lazy ORC reader as a data source of Spark's.

Spark tells such a source neither the columns that a query needs nor its LIMIT nor most predicates, so the columns are
those of the schema that is given, and the predicate is an option. PushdownSession knows all of them by itself.

Conjuncts of an ordinary `.where(...)` reach the source with the option `push_filters=true`, which is off because of
Spark 4.3: it keeps the filters of one query with the frame that was loaded, and another query over the same frame that
has no filter to push is answered with those of the first, so that rows are missing. With the option on, load a frame
anew for each query.
"""

from __future__ import annotations

import glob
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from sqlglot import exp

from spark_jobs.errors import BadSpecError, MissingPathError, UnsafeInputError
from spark_jobs.predicates.compile import all_of, compile_filter
from spark_jobs.predicates.derive import Scope
from spark_jobs.predicates.parse import parse_predicate
from spark_jobs.predicates.vector import VectorFilter
from spark_jobs.readers.columnar import unknown_type
from spark_jobs.readers.files import InputFile, Packing, Task, pack
from spark_jobs.readers.orc.counts import OrcCount
from spark_jobs.readers.orc.plan import UTC_ZONES, has_times, wanted_schema
from spark_jobs.readers.orc.scan import OrcQuery, OrcScan, opened
from spark_jobs.readers.orc.types import spark_schema
from spark_jobs.readers.storage import LOCAL

FORMAT = "pushdown_orc"

_COMPARISONS: dict[type[Filter], type[exp.Binary]] = {
    EqualTo: exp.EQ,
    EqualNullSafe: exp.NullSafeEQ,
    GreaterThan: exp.GT,
    GreaterThanOrEqual: exp.GTE,
    LessThan: exp.LT,
    LessThanOrEqual: exp.LTE,
}
_TEXT_TESTS: dict[type[Filter], type[exp.Func]] = {
    StringStartsWith: exp.StartsWith,
    StringEndsWith: exp.EndsWith,
    StringContains: exp.Contains,
}


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(PushdownOrcSource)


class PushdownOrcSource(DataSource):
    """Local ORC files, read lazily.

    Options: `path` (a file, a directory or a glob); `where`, a predicate that all rows pass; `partial_reads` and
    `min_seek_size` as in `OrcOptions`; `push_filters` (true or false), for which
    `spark.sql.python.filterPushdown.enabled` must be on as well. Give a schema with the columns that are needed: others
    are not read.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> t.StructType:
        """The schema of the first file that has rows, as Spark would infer it."""
        files = _files(self.options)
        query = OrcQuery(pa.schema([]), (), None, None, 0, False)
        for file in files:
            with opened(file.path, LOCAL, query, OrcCount()) as source:
                found = spark_schema(source.tail.types)
                if source.tail.footer.number_of_rows or file is files[-1]:
                    return found
        raise MissingPathError(f"path {self.options.get('path')!r} has no ORC files to take a schema from")

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """A reader of all columns of a schema. Raises BadSpecError for options that are not possible."""
        pushes = self.options.get("push_filters", "false").lower() == "true"
        return (FilterablePushdownOrcReader if pushes else PushdownOrcReader)(schema, self.options)


@dataclass
class _TaskPartition(InputPartition):
    number: int

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class PushdownOrcReader(DataSourceReader):
    """Reads the files of one scan."""

    def __init__(self, schema: t.StructType, options: Mapping[str, str]) -> None:
        for field in schema.fields:
            if unknown := unknown_type(field.dataType):
                raise BadSpecError(f"column {field.name} has type {unknown.simpleString()}, which only Spark reads")
        _check_zone(schema)
        self._schema = schema
        self._files = _files(options)
        self._partial_reads = _number(options, "partial_reads")
        self._min_seek = _number(options, "min_seek_size") or 16 << 10
        where = options.get("where")
        self._filters = [] if where is None else [_exact_filter(where, schema)]

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task."""
        return [_TaskPartition(number) for number in range(len(self._tasks()))]

    def _tasks(self) -> tuple[Task, ...]:
        return pack(self._files, Packing(128 << 20, 4 << 20, 2))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        assert isinstance(partition, _TaskPartition)
        query = OrcQuery(
            wanted_schema(self._schema.fields),
            tuple(range(len(self._schema.fields))),
            all_of(self._filters) if self._filters else None,
            self._partial_reads,
            self._min_seek,
            False,
        )
        scan = OrcScan(self._tasks(), query, _unreported)
        yield from scan(iter([pa.RecordBatch.from_pydict({"task": [partition.number]})]))


class FilterablePushdownOrcReader(PushdownOrcReader):
    """Reads the files of one query, whose conjuncts come through `pushFilters`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- the name is Spark's
        """Take what can be evaluated over columns; give back what Spark must evaluate (again)."""
        scope = Scope(self._schema, case_sensitive=True)
        for pushed in filters:
            node = _expression(pushed)
            compiled = "" if node is None else compile_filter(node, scope)
            if isinstance(compiled, VectorFilter):
                self._filters.append(compiled)
            if not isinstance(compiled, VectorFilter) or not compiled.is_exact:
                yield pushed


def _exact_filter(where: str, schema: t.StructType) -> VectorFilter:
    """Raises BadSpecError unless the filter is all there is to the predicate: Spark does not evaluate it again."""
    predicate = parse_predicate(where)
    compiled = "it does not parse" if predicate is None else compile_filter(predicate, Scope(schema))
    if isinstance(compiled, VectorFilter) and compiled.is_exact:
        return compiled
    reason = compiled if isinstance(compiled, str) else "; ".join(compiled.left_out)
    raise BadSpecError(f"option where: {where!r} cannot be evaluated over columns: {reason}; use .where(...) for it")


def _unreported(number: int, count: OrcCount) -> None:
    """Spark has no place for the figures of such a source's tasks."""


def _check_zone(schema: t.StructType) -> None:
    """Raises UnsafeInputError for timestamps in a worker whose time zone is not UTC."""
    if any(has_times(field.dataType) for field in schema.fields) and time.tzname[0] not in UTC_ZONES:
        raise UnsafeInputError(
            f"timestamps are read lazily only in UTC, here it is {time.tzname[0]}; use format('orc')"
        )


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "auto")
    if text == "auto":
        return None
    if not text.isdecimal():
        raise BadSpecError(f"option {name}: {text!r} is neither 'auto' nor a number")
    return int(text)


def _files(options: Mapping[str, str]) -> tuple[InputFile, ...]:
    """Files below the path that are not hidden, in the order of their names."""
    path = options.get("path")
    if not path:
        raise BadSpecError(f"format {FORMAT!r} needs a path")
    if "://" in path and not path.startswith("file://"):
        raise BadSpecError(f"{path} is not local; format {FORMAT!r} reads local files, PushdownSession any others")
    found: list[Path] = []
    for match in sorted(glob.glob(path.removeprefix("file://").removeprefix("file:"))):  # noqa: PTH207
        place = Path(match)
        found += sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
    shown = [place.absolute() for place in found if place.name[0] not in "._"]
    if not shown:
        raise MissingPathError(f"path {path!r} matches no file; check it and run again")
    return tuple(InputFile(place.as_uri(), str(place), place.stat().st_size) for place in shown)


def _expression(pushed: Filter) -> exp.Expr | None:
    """Spark's filter as a predicate's AST; None for values that have no certain literal."""
    if isinstance(pushed, Not):
        inner = _expression(pushed.child)
        return None if inner is None else exp.Not(this=exp.paren(inner))
    column = _column(getattr(pushed, "attribute", ()))
    if isinstance(pushed, IsNull | IsNotNull):
        test = exp.Is(this=column, expression=exp.Null())
        return test if isinstance(pushed, IsNull) else exp.Not(this=test)
    if isinstance(pushed, In):
        literals = [_literal(value) for value in pushed.value]
        known = [literal for literal in literals if literal is not None]
        return exp.In(this=column, expressions=known) if len(known) == len(literals) else None
    literal = _literal(getattr(pushed, "value", None))
    if literal is None:
        return None
    if type(pushed) in _COMPARISONS:
        return _COMPARISONS[type(pushed)](this=column, expression=literal)
    if type(pushed) in _TEXT_TESTS:
        return _TEXT_TESTS[type(pushed)](this=column, expression=literal)
    return None


def _column(path: Sequence[str]) -> exp.Expr:
    names = [exp.to_identifier(name, quoted=True) for name in path]
    return exp.Dot.build([exp.Column(this=names[0]), *names[1:]]) if len(names) > 1 else exp.Column(this=names[0])


def _literal(value: object) -> exp.Expr | None:
    """The literal that Spark reads as just this value."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | Decimal):
        number = exp.Literal.number(format(abs(value), "f") if isinstance(value, Decimal) else str(abs(value)))
        return exp.Neg(this=number) if value < 0 else number
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    if isinstance(value, date) and not isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DataType.Type.DATE)
    return None


def _double(value: float) -> exp.Expr | None:
    """A number with an exponent is a double, and 17 digits tell any two of them apart."""
    if not math.isfinite(value):
        return None
    number = exp.Literal.number(f"{abs(value):.17e}")
    return exp.Neg(this=number) if value < 0 else number
