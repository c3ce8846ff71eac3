"""PushdownSession: the library's front door, usable with and without Airflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import sqlglot
from py4j.java_gateway import JavaObject
from pydantic import ValidationError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_jobs.contract import ErrorCode, QuerySpec, SourceFormat, SourceReport, SourceSpec
from spark_jobs.errors import BadSpecError
from spark_jobs.failures import classify, typed
from spark_jobs.filesystem import HadoopFiles
from spark_jobs.gateway import java_rows, local_frame
from spark_jobs.predicates.parse import parse_predicate
from spark_jobs.projection.implicit import (
    canonical_name,
    implicit_references,
    location,
    max_depth,
    scan_root,
)
from spark_jobs.projection.resolve import Projection, resolve
from spark_jobs.projection.tree import same_name
from spark_jobs.readers.files import decoded, has_plain_directories, input_uris
from spark_jobs.readers.native import NativeScan
from spark_jobs.readers.protocol import Scan, ScanRequest, Source
from spark_jobs.readers.text import Refusal, TextScan, plan_text
from spark_jobs.task_metrics import StageWatch

T = TypeVar("T")

MAX_COLLECTED_LIMIT = 100_000
"""Limits up to this many rows are gathered piece by piece; larger ones are left to Spark's LIMIT."""


class PushdownSession:
    """Named sources, and queries over them that read no more than they must.

    >>> session = PushdownSession(spark)                                            # doctest: +SKIP
    >>> session.add_source("events", path="events/*.json", format="json", schema="id bigint, type string")
    >>> session.scan("events", columns=["id"], where="type = 'buy'", limit=10).df   # lazy
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._sources: dict[str, Source] = {}

    def add_source(
        self,
        name: str,
        *,
        path: str | Sequence[str],
        format: str,
        schema: str | None = None,
        options: Mapping[str, str] | None = None,
        reader: str = "auto",
        filter_pushdown: bool = True,
    ) -> None:
        """Declare a source. Raises BadSpecError for values that a source cannot have."""
        paths = (path,) if isinstance(path, str) else tuple(path)
        try:
            spec = SourceSpec.model_validate(
                {
                    "format": format,
                    "path": paths,
                    "schema": schema,
                    "options": dict(options or {}),
                    "reader": reader,
                    "filter_pushdown": filter_pushdown,
                }
            )
        except ValidationError as problem:
            first = problem.errors()[0]
            raise BadSpecError(f"source {name!r}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from problem
        self.add(name, spec)

    def add(self, name: str, source: SourceSpec) -> None:
        """Declare a source from its part of a job spec."""
        self._sources[name] = Source(
            name,
            source.format,
            source.path,
            source.schema_ddl,
            {key.lower(): value for key, value in source.options.items()},
            source.reader,
            source.filter_pushdown,
        )

    def scan(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> PushdownResult:
        """Rows of one source: `columns` (paths, None for all), `where` as Spark SQL, at most `limit` rows.

        Raises typed errors for unknown sources and columns, predicates and schemas that do not parse, missing paths.
        """
        return self.query(
            QuerySpec(source=name, columns=None if columns is None else tuple(columns), where=where, limit=limit)
        )

    def sql(self, query: str) -> PushdownResult:
        """Rows of a SQL query over one declared source; its WHERE reaches the source's reader."""
        return self.query(QuerySpec(sql=query))

    def query(self, query: QuerySpec) -> PushdownResult:
        """Rows of a query as a job spec states it."""
        if query.sql is not None:
            return _SqlPlanner(self._spark, self._sources).plan(query.sql)
        return _plan(self._spark, self._source(query.source or ""), query)

    def _source(self, name: str) -> Source:
        if name not in self._sources:
            raise BadSpecError(f"no source is named {name!r}; there are {', '.join(sorted(self._sources)) or 'none'}")
        return self._sources[name]


class PushdownResult:
    """A planned query: a lazy frame, its explanation, and after a run the report of what happened."""

    def __init__(
        self, spark: SparkSession, name: str, shapes: Sequence[_Shape], limit: int | None, *, every_row: bool = False
    ) -> None:
        self._every_row = every_row
        self._spark = spark
        self._name = name
        self._shapes = list(shapes)
        self._limit = limit
        self._executed: SourceReport | None = None
        self.rows: int | None = None
        """Rows of the result after run(), None before."""

    @property
    def df(self) -> DataFrame:
        """The result as a lazy frame."""
        frame = self._shapes[0].frame()
        return frame if self._limit is None else frame.limit(self._limit)

    def run(self, action: Callable[[DataFrame], T]) -> T:
        """Run an action over the result, counting on the executors what it read and returned.

        If a reader meets input that it must not judge by its bytes, the action is run again over Spark's own reader;
        the action must therefore leave nothing behind when it fails.
        """
        try:
            return self._run_once(action)
        except Exception as problem:
            if len(self._shapes) == 1 or classify(problem).code is not ErrorCode.UNSAFE_INPUT:
                raise
            reason = classify(problem).message
        self._shapes = [self._shapes[1].because(f"byte search gave up: {reason}")]
        return self._run_once(action)

    def _run_once(self, action: Callable[[DataFrame], T]) -> T:
        if self._every_row:
            return self._run_uncounted(action)
        observation = Observation()
        with StageWatch(self._spark) as watch:
            frame = self._bounded()
            outcome = action(frame.observe(observation, f.count(f.lit(1)).alias("rows")))
            self.rows = int(observation.get["rows"])
        planned = self._shapes[0].scan.report()
        executed = planned if planned.bytes_read is not None else watch.completed(planned)
        self._executed = executed.model_copy(update={"rows_returned": self.rows})
        return outcome

    def _run_uncounted(self, action: Callable[[DataFrame], T]) -> T:
        """Run an action over every row of the source: the scan's own count is the result's.

        Counting the rows once more would cost a tenth of a scan that does nothing else.
        """
        with StageWatch(self._spark) as watch:
            outcome = action(self.df)
        executed = watch.completed(self._shapes[0].scan.report())
        self.rows = executed.rows_decoded
        self._executed = executed.model_copy(update={"rows_returned": self.rows})
        return outcome

    def _bounded(self) -> DataFrame:
        """The frame to act on: with a small limit, the rows themselves, gathered until there are enough."""
        shape = self._shapes[0]
        if self._limit is None or self._limit > MAX_COLLECTED_LIMIT:
            return self.df
        rows = _gathered(self._spark, shape, self._limit)
        return local_frame(self._spark, rows, shape.frame())

    def report(self) -> dict[str, SourceReport]:
        """Per source what was planned, and after run() what happened."""
        return {self._name: self._executed or self._shapes[0].scan.report()}

    def explain(self) -> str:
        """The plan in words: reader and reason, each conjunct and what becomes of it. Runs nothing."""
        report = self._shapes[0].scan.report()
        lines = [f"{self._name}: {report.reader} reader, because {report.reason}"]
        lines.append(f"  columns read: {', '.join(report.columns) or 'none'}")
        for conjunct in report.conjuncts:
            fate = f"pushed as {conjunct.pushed_as}" if conjunct.pushed_as else f"left to Spark: {conjunct.reason}"
            lines.append(f"  {conjunct.sql}: {conjunct.exactness}, {fate}")
        if self._limit is not None:
            lines.append(f"  limit {self._limit}: the scan stops early")
        lines.extend(f"  note: {note}" for note in report.notes)
        return "\n".join(lines)


def _gathered(spark: SparkSession, shape: _Shape, limit: int) -> JavaObject:
    """A Java list of at most `limit` rows, gathered front to back."""
    pieces = shape.scan.limited(limit)
    if pieces is None:
        return shape.frame().limit(limit)._jdf.collectAsList()
    rows = java_rows(spark)
    while rows.size() < limit and (piece := pieces.next_frame()) is not None:
        rows.addAll(shape.shaped(piece)._jdf.collectAsList())
    return rows.subList(0, min(limit, rows.size()))


@dataclass(frozen=True)
class _Shape:
    """A scan and what turns its rows into the query's rows."""

    scan: Scan
    shaped: Callable[[DataFrame], DataFrame]

    def frame(self) -> DataFrame:
        return self.shaped(self.scan.frame())

    def because(self, reason: str) -> _Shape:
        return _Shape(_Renamed(self.scan, reason), self.shaped)


@dataclass(frozen=True)
class _Renamed:
    """A scan with another reason in its report."""

    scan: Scan
    reason: str

    def frame(self) -> DataFrame:
        return self.scan.frame()

    def report(self) -> SourceReport:
        return self.scan.report().model_copy(update={"reason": self.reason})

    def limited(self, limit: int) -> None:
        return None


def _plan(spark: SparkSession, source: Source, query: QuerySpec) -> PushdownResult:
    """Resolve columns, choose a reader, and shape its rows."""
    opened = _Opened(spark, source)
    projection = opened.projection(query.columns)

    def shaped(frame: DataFrame) -> DataFrame:
        kept = frame if query.where is None else frame.where(query.where)
        return kept.selectExpr(*(output.select_item for output in projection.outputs))

    request = opened.request(projection, query.where)
    shapes = [_Shape(scan, shaped) for scan in opened.scans(request, projection.notes)]
    _check(shapes[-1], "where")
    every_row = query.where is None and query.limit is None
    return PushdownResult(spark, source.name, shapes, query.limit, every_row=every_row)


def _check(shape: _Shape, parameter: str) -> None:
    """Let Spark analyse the query now, so that a mistake in it is an error of its parameter."""
    try:
        shape.frame()
    except (AnalysisException, ParseException) as problem:
        raise typed(problem, about=parameter) from problem


class _Opened:
    """A source whose files are listed and whose schema is known."""

    def __init__(self, spark: SparkSession, source: Source) -> None:
        self._spark = spark
        self._source = source
        self.native = self._load()
        self._case_sensitive = spark.conf.get("spark.sql.caseSensitive", "false") == "true"

    def _load(self) -> DataFrame:
        source = self._source
        reader = self._spark.read.format(source.format.value).options(**source.options)
        try:
            if source.schema is not None:
                reader = reader.schema(source.schema)
        except (AnalysisException, ParseException) as problem:
            about = f"schema of source {source.name!r}"
            raise typed(problem, about=about, text_error=ErrorCode.BAD_SCHEMA) from problem
        try:
            return reader.load(list(source.paths))
        except (AnalysisException, ParseException) as problem:
            raise typed(problem, about=f"source {source.name!r}") from problem

    @property
    def schema(self) -> StructType:
        """Table columns: declared or inferred, and Spark's partition columns."""
        return self.native.schema

    @property
    def roots(self) -> tuple[str, ...]:
        """Directories below which `dir0` counts."""
        files = {location(decoded(uri)) for uri in input_uris(self.native)}
        return tuple(
            scan_root(path, is_file=location(path) in files) for path in map(self._absolute, self._source.paths)
        )

    def _absolute(self, path: str) -> str:
        return HadoopFiles(self._spark).qualified(path)

    def projection(self, columns: Sequence[str] | None) -> Projection:
        """The columns asked for, resolved."""
        depth = 0
        if columns is not None and any((canonical_name(name) or "").startswith("dir") for name in columns):
            depth = max_depth(map(decoded, input_uris(self.native)), self.roots)
        return resolve(columns, self.schema, depth, case_sensitive=self._case_sensitive)

    def request(self, projection: Projection, where: str | None) -> ScanRequest:
        """What the reader must deliver for a projection and a predicate."""
        predicate = None if where is None else parse_predicate(where)
        columns, implicit = set(projection.table_columns), set(projection.implicit)
        if where is not None and predicate is None:
            columns |= set(self.schema.fieldNames())
        if predicate is not None:
            columns |= self._mentioned(predicate)
            implicit |= set(implicit_references(predicate, self.schema, case_sensitive=self._case_sensitive))
        return ScanRequest(
            self._source,
            self.native,
            self.schema if self._source.schema is None else self._declared(),
            tuple(name for name in self.schema.fieldNames() if name in columns),
            tuple(sorted(implicit)),
            where,
            predicate,
        )

    def _declared(self) -> StructType:
        """The schema without partition columns that Spark found in directory names."""
        empty = self._spark.createDataFrame([], self._source.schema or "")
        names = {name.lower() for name in empty.columns}
        return StructType([field for field in self.schema.fields if field.name.lower() in names])

    def unqualified(self, node: exp.Expr, table: str) -> exp.Expr:
        """A column reference without the table's name, where that is what Spark takes its first part for."""
        if not isinstance(node, exp.Column) or len(node.parts) < 2:
            return node
        first, second, *_ = node.parts
        known = any(
            same_name(second.name, name, case_sensitive=self._case_sensitive) for name in self.schema.fieldNames()
        )
        if not known or first.name.lower() != table.lower():
            return node
        rest = [part.copy() for part in reversed(node.parts[1:])]
        return exp.Column(**dict(zip(("this", "table", "db"), rest, strict=False)))

    def _mentioned(self, tree: exp.Expr) -> set[str]:
        """Top-level columns a predicate or query may refer to: any part of a dotted name counts."""
        parts = {part.name for column in tree.find_all(exp.Column, exp.Dot) for part in column.find_all(exp.Identifier)}
        if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
            return set(self.schema.fieldNames())
        return {
            name
            for name in self.schema.fieldNames()
            if any(same_name(name, part, case_sensitive=self._case_sensitive) for part in parts)
        }

    def scans(self, request: ScanRequest, notes: tuple[str, ...]) -> list[Scan]:
        """The scan to run, and behind it Spark's own as the fallback where it is not the first."""
        plan = plan_text(self._spark, request, self._fold)
        roots = self.roots if request.implicit else ()
        notes = (*notes, *self._remarks())
        if isinstance(plan, Refusal):
            return [NativeScan(request, roots, plan.reason, notes)]
        return [TextScan(self._spark, request, plan, roots, notes), NativeScan(request, roots, "fallback", notes)]

    def _remarks(self) -> tuple[str, ...]:
        """What a user might not expect of the way Spark lists and types files."""
        remarks = []
        source = self._source
        infers = source.format is SourceFormat.JSON or source.options.get("inferschema", "").lower() == "true"
        if source.schema is None and infers:
            remarks.append("no schema is declared, so Spark read every file once more to infer it")
        if source.options.get("recursivefilelookup", "").lower() != "true":
            skipped = [path for path in source.paths if has_plain_directories(path)]
            remarks += [f"Spark skips sub-directories of {path}; set recursiveFileLookup=true" for path in skipped]
        return tuple(remarks)

    def _fold(self, sql: str) -> object:
        """The value of a constant expression, by Spark; None where Spark finds an error in it."""
        try:
            row = self._spark.sql(f"SELECT {sql}").head()
        except (PySparkException, ValueError, OverflowError):
            # An overflow in ANSI mode, or a date that Python's calendar has not.
            return None
        return None if row is None else row[0]


class _SqlPlanner:
    """Plans SQL text over one source: Spark runs the query, its WHERE also reaches the source's reader."""

    def __init__(self, spark: SparkSession, sources: Mapping[str, Source]) -> None:
        self._spark = spark
        self._sources = sources

    def plan(self, sql: str) -> PushdownResult:
        """Raises BadSpecError where the text is no query over exactly one declared source."""
        tree = self._parsed(sql)
        source = self._only_source(tree)
        opened = _Opened(self._spark, source)
        where = self._where(sql, tree, opened)
        names = tuple(sorted(opened._mentioned(tree)))
        projection = opened.projection(names)
        implicit = implicit_references(tree, opened.schema)
        request = opened.request(projection, where)
        request = ScanRequest(
            request.source,
            request.native,
            request.schema,
            request.columns,
            tuple(sorted({*request.implicit, *implicit})),
            request.where,
            request.predicate,
        )

        def shaped(frame: DataFrame) -> DataFrame:
            frame.createOrReplaceTempView(source.name)
            return self._spark.sql(sql)

        shapes = [_Shape(scan, shaped) for scan in opened.scans(request, projection.notes)]
        _check(shapes[-1], "query")
        return PushdownResult(self._spark, source.name, shapes, None)

    def _parsed(self, sql: str) -> exp.Select:
        try:
            tree = sqlglot.parse_one(sql, dialect="spark")
        except SqlglotError as problem:
            raise BadSpecError(f"query: {str(problem).splitlines()[0]}") from problem
        if not isinstance(tree, exp.Select):
            raise BadSpecError("query: only SELECT is possible")
        return tree

    def _only_source(self, tree: exp.Select) -> Source:
        names = {table.name for table in tree.find_all(exp.Table)}
        known = [self._sources[name] for name in names if name in self._sources]
        if len(names) != 1 or not known:
            there = ", ".join(sorted(self._sources)) or "none"
            raise BadSpecError(
                f"query: it must read exactly one declared source (there are {there}), not {sorted(names)}"
            )
        return known[0]

    def _where(self, sql: str, tree: exp.Select, opened: _Opened) -> str | None:
        """The WHERE over the source's own columns, or None where Spark alone must apply it.

        Backslashes are left to Spark because writing the predicate anew would hide them from those who judge it, and
        double quotes are where they may hold names.
        """
        found = tree.args.get("where")
        names = self._spark.conf.get("spark.sql.ansi.doubleQuotedIdentifiers", "false") == "true" and '"' in sql
        if found is None or not self._simple(tree) or "\\" in sql or names:
            return None
        (table,) = tree.find_all(exp.Table)
        predicate = found.this.transform(opened.unqualified, table.alias_or_name)
        return str(predicate.sql(dialect="spark"))

    def _simple(self, tree: exp.Select) -> bool:
        """Whether the query's WHERE applies to every row read: one table reference, nothing between it and WHERE."""
        between = tree.find(exp.TableSample, exp.Pivot, exp.Lateral, exp.Join)
        return between is None and len(list(tree.find_all(exp.Table))) == len(list(tree.find_all(exp.Select))) == 1
