"""A declared source, opened: its files are listed, its schema is known, its scans can be planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from spark_jobs.contract import ErrorCode, SourceFormat
from spark_jobs.errors import BadSpecError
from spark_jobs.failures import typed
from spark_jobs.filesystem import HadoopFiles
from spark_jobs.predicates.parse import parse_predicate
from spark_jobs.projection.catalog import BUILT_IN
from spark_jobs.projection.fill import ImplicitFill
from spark_jobs.projection.implicit import implicit_references, location, max_depth, scan_root
from spark_jobs.projection.resolve import Projection, resolve
from spark_jobs.projection.tree import same_name
from spark_jobs.readers.avro.driver import AvroBlockScan
from spark_jobs.readers.avro.plan import plan_avro
from spark_jobs.readers.avro.provider import avro_reader
from spark_jobs.readers.facts import listed_facts
from spark_jobs.readers.files import decoded, has_plain_directories, input_uris
from spark_jobs.readers.native import NativeScan
from spark_jobs.readers.orc.driver import OrcLazyScan
from spark_jobs.readers.orc.plan import SARG_TO_FILTER, NativeMode, NativePlan, plan_orc
from spark_jobs.readers.protocol import AnySource, Scan, ScanRequest, Source
from spark_jobs.readers.text import Refusal, TextScan, plan_text
from spark_jobs.result import Shape


@dataclass(frozen=True)
class PlannedScan:
    """The scan to run, and how to make Spark's own scan, given the reason for taking it."""

    scan: Scan
    native: Callable[[str], NativeScan]

    def fallback(self, shaped: Callable[[DataFrame], DataFrame]) -> Callable[[str], Shape] | None:
        """What takes over, given the reason, where our reader must give up; None where Spark's reads already."""
        if isinstance(self.scan, NativeScan):
            return None
        return lambda reason: Shape(self.native(reason), shaped)


class OpenedSource:
    """A source whose files are listed and whose schema is known."""

    def __init__(self, spark: SparkSession, source: Source) -> None:
        self._spark = spark
        self._source = source
        self.native = self._load()
        self._case_sensitive = spark.conf.get("spark.sql.caseSensitive", "false") == "true"

    def _load(self, options: Mapping[str, str] | None = None) -> DataFrame:
        source = self._source
        reader = self._reader({**source.options, **(options or {})})
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

    def _reader(self, options: Mapping[str, str]) -> DataFrameReader:
        source_format = self._source.format
        if source_format is SourceFormat.AVRO:
            return avro_reader(self._spark, options)
        return self._spark.read.format(source_format.value).options(**options)

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
        if columns is not None and any("dir" in name.lower() for name in columns):
            depth = max_depth(map(decoded, input_uris(self.native)), self.roots)
        return resolve(columns, self.schema, depth, case_sensitive=self._case_sensitive)

    def fill(self) -> ImplicitFill:
        """The values of the implicit columns, by Spark's own listing where files are not local."""
        roots = self.roots
        return ImplicitFill(BUILT_IN, roots, lambda: listed_facts(self.native, roots))

    def request(self, projection: Projection, where: str | None) -> ScanRequest:
        """What the reader must deliver for a projection and a predicate."""
        predicate = None if where is None else parse_predicate(where)
        columns, implicit = set(projection.table_columns), set(projection.implicit)
        if where is not None and predicate is None:
            columns |= set(self.schema.fieldNames())
        if predicate is not None:
            columns |= self.mentioned(predicate)
            implicit |= set(implicit_references(predicate, self.schema, case_sensitive=self._case_sensitive))
        return ScanRequest(
            self._source,
            self.native,
            self.schema if self._source.schema is None else self._declared(),
            tuple(name for name in self.schema.fieldNames() if name in columns),
            tuple(sorted(implicit)),
            where,
            predicate,
            fill=self.fill() if implicit else None,
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

    def mentioned(self, tree: exp.Expr) -> set[str]:
        """Top-level columns a predicate or query may refer to: any part of a dotted name counts."""
        parts = {part.name for column in tree.find_all(exp.Column, exp.Dot) for part in column.find_all(exp.Identifier)}
        if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
            return set(self.schema.fieldNames())
        return {
            name
            for name in self.schema.fieldNames()
            if any(same_name(name, part, case_sensitive=self._case_sensitive) for part in parts)
        }

    def planned(self, request: ScanRequest, notes: tuple[str, ...]) -> PlannedScan:
        """The scan to run, and behind it Spark's own as the fallback where it is not the first."""
        roots = self.roots if request.implicit else ()
        notes = (*notes, *self._remarks())
        if self._source.format is SourceFormat.ORC:
            return self._planned_orc(request, roots, notes)
        if self._source.format is SourceFormat.AVRO:
            return self._planned_avro(request, roots, notes)
        plan = plan_text(self._spark, request, self._fold)
        native = partial(NativeScan, request, roots, notes=notes)
        if isinstance(plan, Refusal):
            return PlannedScan(native(plan.reason), native)
        return PlannedScan(TextScan(self._spark, request, plan, roots, notes), native)

    def _planned_orc(self, request: ScanRequest, roots: tuple[str, ...], notes: tuple[str, ...]) -> PlannedScan:
        plan = plan_orc(self._spark, request, self._fold)
        if isinstance(plan, NativePlan) and plan.mode is not NativeMode.AS_CONFIGURED:
            setting = str(plan.mode is NativeMode.WITH_FILTER).lower()
            request = replace(request, native=self._load({SARG_TO_FILTER: setting}))
            notes = (*notes, f"{SARG_TO_FILTER} is {setting}")
        native = partial(NativeScan, request, roots, notes=notes)
        if isinstance(plan, NativePlan):
            return PlannedScan(native(plan.reason), native)
        return PlannedScan(OrcLazyScan(self._spark, request, plan, roots, notes), native)

    def _planned_avro(self, request: ScanRequest, roots: tuple[str, ...], notes: tuple[str, ...]) -> PlannedScan:
        plan = plan_avro(self._spark, request, self._fold)
        native = partial(NativeScan, request, roots, notes=notes)
        if isinstance(plan, str):
            return PlannedScan(native(plan), native)
        return PlannedScan(AvroBlockScan(self._spark, request, plan, roots, notes), native)

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


def open_source(spark: SparkSession, source: AnySource) -> OpenedSource:
    """A declared source of any kind, opened."""
    if isinstance(source, Source):
        return OpenedSource(spark, source)
    raise BadSpecError(f"source {source.name!r}: remote tables cannot be read yet")
