"""A declared source, opened: its files are listed, its schema is known, its scans can be planned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from pyspark import inheritable_thread_target
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StringType, StructField, StructType
from sqlglot import exp

from pushdown_spark.contract import ErrorCode, OnMissingColumn, SourceFormat
from pushdown_spark.errors import BadSpecError
from pushdown_spark.evolve import Evolution, evolve
from pushdown_spark.expressions.conjuncts import nodes_of, without_relation
from pushdown_spark.expressions.names import name_key
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.failures import typed
from pushdown_spark.filesystem import HadoopFiles
from pushdown_spark.projection.evolution import Rules
from pushdown_spark.projection.fill import ImplicitFill
from pushdown_spark.projection.implicit import has_column, location, max_depth, scan_root
from pushdown_spark.projection.needed import named_by_functions, needed, takes_all
from pushdown_spark.projection.paths import ColumnPath, Member, parse_paths, quote_name
from pushdown_spark.projection.resolve import ColumnKind, Projection, resolve
from pushdown_spark.projection.scan_level import COLUMNS
from pushdown_spark.projection.tree import merge_paths
from pushdown_spark.readers.apart import ApartScan, PartScan
from pushdown_spark.readers.avro.provider import format_name
from pushdown_spark.readers.csv_width import fields_needed
from pushdown_spark.readers.facts import listed_facts
from pushdown_spark.readers.files import decoded, file_columns, input_uris, partition_columns
from pushdown_spark.readers.malformed import CORRUPT_OPTION, MalformedLines, corrupt_column, left_for_counting
from pushdown_spark.readers.parquet_schema import with_footers_schema
from pushdown_spark.readers.protocol import AnySource, Scan, ScanRequest, Source, spark_only, undivided
from pushdown_spark.readers.share import shares
from pushdown_spark.scans import PlannedScan as PlannedScan  # what planning gives, defined apart
from pushdown_spark.scans import leaner, listing_remarks, planned

_ABOUT_SCHEMAS = frozenset({"UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "UNABLE_TO_INFER_SCHEMA"})
"""Spark's conditions for a declared schema that a format cannot have, and for files without a schema of their own."""
_OPENED_AT_ONCE = 4
"""Sources of files that are opened side by side: mostly they wait for listings, footers and small jobs."""


@dataclass(frozen=True)
class WholeAnswer:
    """A scan that does all of a query; `shaped` gives, for the names of the query's columns, what makes its rows."""

    scan: Scan
    shaped: Callable[[Sequence[str]], Callable[[DataFrame], DataFrame]]


class OpenedSource:
    """A source whose files are listed and whose schema is known."""

    def __init__(self, spark: SparkSession, source: Source, whole: OpenedSource | None = None) -> None:
        """`whole` is the source that this one is a part of: some of its files, with a schema that was settled there."""
        self._spark = spark
        self._source = source
        self._whole = whole
        self._case_sensitive = spark.conf.get("spark.sql.caseSensitive", "false") == "true"
        self._settled: StructType | None = None
        self._native = self._load()
        self._evolution = self._evolved()

    def _evolved(self) -> Evolution:
        """How the files make one table; the frame is loaded anew where Spark has another idea of its schema."""
        if self._whole is not None:
            return Evolution(self._whole._evolution.rules)
        source = self._source
        if (reason := self._left_to_spark()) is not None:
            if source.on_missing_column is OnMissingColumn.ERROR:
                raise BadSpecError(
                    f"{source.parameter('on_missing_column')}: 'error' cannot be kept: {reason}; give 'null'"
                )
            rules = Rules(source.on_schema_conflict, self._case_sensitive, guessed=True)
            return Evolution(rules, notes=(f"the columns of single files are not known: {reason}",))
        found = evolve(
            self._spark, source, self.native, lambda: self.uris, self._files_alone, case_sensitive=self._case_sensitive
        )
        if found.table is not None and found.table != self._data_schema():
            self._settled = found.table
            self._native = self._load()
        return found

    def _files_alone(self, paths: Sequence[str]) -> DataFrame:
        """Some files by themselves, with the columns that Spark finds in them."""
        options = {key: text for key, text in self._source.options.items() if key != "basepath"}
        return self._reader(options).load(list(paths))

    @property
    def native(self) -> DataFrame:
        """Spark's own, lazy frame over the source."""
        return self._native

    @cached_property
    def uris(self) -> tuple[str, ...]:
        """URIs of the files, as Spark listed them when it loaded the frame for the first time."""
        return input_uris(self.native)

    @cached_property
    def _inside(self) -> tuple[str, ...]:
        """The columns that Spark takes from the names of directories, with whatever schema it loads the frame."""
        return partition_columns(self.native)

    @cached_property
    def _told_twice(self) -> str | None:
        """A column of CSV files that their directories tell too: whoever leaves it out mistakes those behind it."""
        if self._source.format is not SourceFormat.CSV or not self._inside:
            return None
        key = partial(name_key, case_sensitive=self._case_sensitive)
        told = set(map(key, self._inside))
        return next((name for name in file_columns(self.native) if key(name) in told), None)

    def _data_schema(self) -> StructType:
        """The table's columns without those that Spark takes from the names of directories."""
        return StructType([field for field in self.native.schema.fields if field.name not in self._inside])

    def _load(self, options: Mapping[str, str] | None = None, schema: StructType | None = None) -> DataFrame:
        source = self._source
        reader = self._reader({**source.options, **(options or {})})
        known = schema or self._settled
        try:
            if known is not None:
                reader = reader.schema(known)
            elif source.schema is not None:
                reader = reader.schema(source.schema)
            else:
                reader = with_footers_schema(self._spark, reader, source)
        except (AnalysisException, ParseException) as problem:
            raise typed(problem, about=source.parameter("schema"), text_error=ErrorCode.BAD_SCHEMA) from problem
        try:
            return reader.load(list(source.paths))
        except (AnalysisException, ParseException) as problem:
            parameter = "schema" if problem.getCondition() in _ABOUT_SCHEMAS else "path"
            raise typed(problem, about=source.parameter(parameter)) from problem

    def _reader(self, options: Mapping[str, str]) -> DataFrameReader:
        source_format = self._source.format
        name = format_name(self._spark) if source_format is SourceFormat.AVRO else source_format.value
        return self._spark.read.format(name).options(**options)

    @property
    def schema(self) -> StructType:
        """Table columns: declared or inferred, and Spark's partition columns."""
        return self.native.schema

    @property
    def roots(self) -> tuple[str, ...]:
        """Directories below which `dir0` counts."""
        if self._whole is not None:
            return self._whole.roots
        files = {location(decoded(uri)) for uri in self.uris}
        return tuple(
            scan_root(path, is_file=location(path) in files) for path in map(self._absolute, self._source.paths)
        )

    def _absolute(self, path: str) -> str:
        return HadoopFiles(self._spark).qualified(path)

    def projection(self, columns: Sequence[str] | None) -> Projection:
        """The columns asked for, resolved."""
        source = self._source
        if self._has_fields and columns is not None:
            self._widen(columns)
        projection = partial(
            resolve,
            columns,
            self.schema,
            case_sensitive=self._case_sensitive,
            catalog=source.catalog,
            origin=self._origin,
            has_fields=self._has_fields,
        )
        found = projection(sys.maxsize)
        if not any(output.kind is ColumnKind.DIRECTORY for output in found.outputs):
            return found
        return projection(max_depth(map(decoded, self.uris), self.roots))

    @property
    def _has_fields(self) -> bool:
        """Whether lines have fields without names: CSV without a header and without a declared schema."""
        source = self._source
        has_header = source.options.get("header", "false").lower() == "true"
        return source.format is SourceFormat.CSV and source.schema is None and not has_header

    def _widen(self, columns: Sequence[str]) -> None:
        """Read lines with as many fields as `columns` asks for; the files' first lines may have fewer."""
        paths = [path for path in parse_paths(columns) if not path.is_wildcard and path.head.lower() == COLUMNS]
        data = self._data_schema()
        if not paths or any(not isinstance(field.dataType, StringType) for field in data.fields):
            return
        width = fields_needed(self._spark, self._source, self.uris, paths)
        if width > len(data):
            self._settled = StructType([StructField(f"_c{place}", StringType()) for place in range(width)])
            self._evolution = Evolution(self._evolution.rules, notes=self._evolution.notes)
            self._native = self._load()

    def _origin(self, column: str) -> str:
        """Where a column's type was found, in words."""
        if self._source.schema is not None:
            return "so the declared schema says"
        file = self._evolution.origin(column) or location(decoded(min(self.uris, default="")))
        return f"so it is in {file}"

    def request(self, projection: Projection, where: str | None) -> ScanRequest:
        """What the reader must deliver for a projection and a predicate."""
        predicate = None if where is None else self._predicate(where)
        tree = None if predicate is None else predicate.tree
        columns, implicit = set(projection.table_columns), set(projection.implicit)
        if predicate is not None and tree is None:
            columns |= set(self.schema.fieldNames())
        named = set(projection.table_columns)
        if tree is not None:
            named |= self.mentioned(tree)
            columns |= named
            catalog = self._source.catalog
            implicit |= set(catalog.references(tree, self.schema, case_sensitive=self._case_sensitive))
        data = self._data_schema()
        pruned = self._pruned(data, columns, named, projection, tree)
        if self._source.on_missing_column is OnMissingColumn.ERROR:
            self._evolution.require(pruned)
        return ScanRequest(
            self._source,
            lambda: self.native,
            data,
            tuple(name for name in self.schema.fieldNames() if name in columns),
            tuple(sorted(implicit)),
            predicate,
            pruned,
            self.fill() if implicit else None,
            spark_only(where)
            or undivided(predicate)
            or self._left_to_spark()
            or left_for_counting(self._source.max_malformed),
        )

    def _left_to_spark(self) -> str | None:
        """Why none but Spark's own reader reads the files as it does, None where any may."""
        twice = self._told_twice
        return None if twice is None else f"the CSV files have column {twice}, which the names of directories tell too"

    def _predicate(self, where: str) -> Predicate:
        """Parse a predicate. It has no tree if the name of a column in it would be read as a function."""
        predicate = Predicate.parse(where)
        functions = set() if predicate.tree is None else {name.lower() for name in named_by_functions(predicate.tree)}
        return Predicate(where, None) if functions & {name.lower() for name in self.schema.fieldNames()} else predicate

    def query_request(
        self, tree: exp.Expr, where: str | None, words: frozenset[str]
    ) -> tuple[ScanRequest, tuple[str, ...]]:
        """What the reader must deliver for a query over this source alone, and remarks for the report.

        `where` is the query's predicate where a reader may apply it; `words` may be names that its tree lacks.
        """
        others = {name for name in self.schema.fieldNames() if name.lower() in words}
        found = self.projection([quote_name(name) for name in sorted(self.mentioned(tree) | others)])
        implicit = self._source.catalog.references(tree, self.schema, case_sensitive=self._case_sensitive)
        asked = needed(tree, self.schema, case_sensitive=self._case_sensitive)
        whole = merge_paths([ColumnPath((Member(name),)) for name in sorted(others)], case_sensitive=True)
        asked = asked.merged_with(whole, case_sensitive=self._case_sensitive)
        return self.request(replace(found, implicit=implicit, tree=asked), where), found.notes

    def _pruned(
        self, data: StructType, columns: set[str], named: set[str], projection: Projection, predicate: exp.Expr | None
    ) -> StructType:
        """The columns to read, without struct members that neither projection nor predicate needs.

        `named` are the columns of which it is known which of their members are needed.
        """
        wanted = StructType([field for field in data.fields if field.name in columns])
        prunes = self._spark.conf.get("spark.sql.optimizer.nestedSchemaPruning.enabled", "true") == "true"
        if not prunes or not columns.issubset(named):
            return wanted
        tree = projection.tree
        if predicate is not None:
            asked = needed(predicate, self.schema, case_sensitive=self._case_sensitive)
            tree = tree.merged_with(asked, case_sensitive=self._case_sensitive)
        return tree.pruned(wanted, case_sensitive=self._case_sensitive)

    def fill(self) -> ImplicitFill:
        """The values of the implicit columns, by Spark's own listing where files are not local."""
        whole = self._whole or self
        roots = self.roots
        return ImplicitFill(self._source.catalog, roots, cache(lambda: listed_facts(whole.native, roots)))

    def unqualified(self, node: exp.Expr, table: str) -> exp.Expr:
        """A column reference without the table's name, where that is what Spark takes its first part for."""
        if not isinstance(node, exp.Column) or len(node.parts) < 2:
            return node
        first, second, *_ = node.parts
        if first.name.lower() != table.lower() or not has_column(
            self.schema, second.name, case_sensitive=self._case_sensitive
        ):
            return node
        return without_relation(node)

    def mentioned(self, tree: exp.Expr) -> set[str]:
        """Top-level columns a predicate or query may refer to: any part of a dotted name counts."""
        parts = {
            name_key(part.name, case_sensitive=self._case_sensitive)
            for column in nodes_of(tree, exp.Column, exp.Dot)
            for part in column.find_all(exp.Identifier)
        }
        parts |= {name_key(name, case_sensitive=False) for name in named_by_functions(tree)}
        if takes_all(tree):
            return set(self.schema.fieldNames())
        return {
            name for name in self.schema.fieldNames() if name_key(name, case_sensitive=self._case_sensitive) in parts
        }

    def planned(self, request: ScanRequest, notes: tuple[str, ...]) -> PlannedScan:
        """The scan to run, and behind it Spark's own as the fallback where it is not the first."""
        notes = (*notes, *listing_remarks(self._source), *self._evolution.notes)
        if self._evolution.parts:
            return self._planned_apart(request, notes)
        if self._source.max_malformed is not None:
            request = self._counting(request)
        lean = leaner(self._spark, request)
        if lean is not None:
            inside = [self.schema[name] for name in self._inside]
            leaner_frame = self._load(schema=StructType([*lean.fields, *inside]))
            request = replace(request, loaded=lambda: leaner_frame)
        return planned(self._spark, request, notes, self._load)

    def _counting(self, request: ScanRequest) -> ScanRequest:
        """The request over a frame that parses every line whole and counts those that are malformed."""
        column = corrupt_column(self._spark, self._source.options, self.schema)
        data = StructType([*self._data_schema().fields, StructField(column, StringType())])
        if column in self.schema.fieldNames():
            data = self._data_schema()
        inside = [self.schema[name] for name in self._inside]
        loaded = self._load({CORRUPT_OPTION: column}, StructType([*data.fields, *inside]))
        malformed = MalformedLines(loaded, column, self.schema.fieldNames())
        return replace(request, loaded=lambda: malformed.frame, malformed=malformed)

    def _planned_apart(self, request: ScanRequest, notes: tuple[str, ...]) -> PlannedScan:
        """Files with different columns: a scan for each kind, together."""
        inside = StructType([self.schema[name] for name in self._inside])
        tree = None if request.predicate is None else request.predicate.tree
        mentioned = frozenset() if tree is None else frozenset(self.mentioned(tree))
        found = list(shares(self._evolution.parts, inside, self.roots, self._evolution.rules))
        scans = []
        for share in found:
            opened = OpenedSource(self._spark, share.source(self._source), self)
            asked = share.request(request, opened._source, mentioned)
            scans.append(opened.planned(replace(asked, loaded=partial(getattr, opened, "native")), notes))
        read = {field.name: field for field in (*inside.fields, *request.read_schema.fields)}
        wanted = StructType([read[name] for name in request.columns])

        def together(chosen: Iterable[Scan]) -> ApartScan:
            parts = [PartScan(scan, share.delivered(request)) for scan, share in zip(chosen, found, strict=True)]
            return ApartScan(parts, wanted, request.implicit, case_sensitive=self._case_sensitive)

        return PlannedScan(
            together(scan.scan for scan in scans),
            lambda reason: together(scan.native(reason) for scan in scans),
            problem=next((scan.problem for scan in scans if scan.problem is not None), None),
        )

    def answer(self, query: exp.Select, request: ScanRequest, notes: tuple[str, ...]) -> WholeAnswer | None:
        """What answers a query over this source alone, beyond its predicate; None where that is Spark."""
        return None


def open_source(spark: SparkSession, source: AnySource) -> OpenedSource:
    """A declared source of any kind, opened."""
    if isinstance(source, Source):
        return OpenedSource(spark, source)
    # Drivers of databases are loaded only where there is a table to read.
    from pushdown_spark.remote_source import OpenedRemote

    return OpenedRemote(spark, source)


def open_sources(spark: SparkSession, sources: Iterable[AnySource]) -> dict[str, OpenedSource]:
    """Several declared sources by name, opened side by side.

    Raises what opening a bad one raises: a table of a database before files, these in their order.
    """
    found = list(sources)
    files = [source for source in found if isinstance(source, Source)]
    if len(files) < 2:
        return {source.name: open_source(spark, source) for source in found}
    opening = inheritable_thread_target(spark)(partial(open_source, spark))
    with ThreadPoolExecutor(min(len(files), _OPENED_AT_ONCE)) as threads:
        waiting = {source.name: threads.submit(opening, source) for source in files}
        # Connections to databases stay in the thread that made them.
        others = {source.name: open_source(spark, source) for source in found if source.name not in waiting}
        return others | {name: opened.result() for name, opened in waiting.items()}
