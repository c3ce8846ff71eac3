"""Plans SQL over several sources: each gets the conditions and columns that concern it alone, Spark runs the query."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from sqlglot import exp

from pushdown_spark.contract import JoinOptions
from pushdown_spark.expressions.parser import read_alike
from pushdown_spark.failures import typed
from pushdown_spark.joins.block import Block, blocks
from pushdown_spark.joins.cardinality import RelationFigures
from pushdown_spark.joins.figures import SampleCache, SourceFigures, Wanted
from pushdown_spark.joins.hints import with_hints
from pushdown_spark.joins.ordering import OrderedQuery, Ordering
from pushdown_spark.joins.outputs import OutputNames
from pushdown_spark.joins.places import (
    ColumnTypes,
    Place,
    in_block,
    no_source,
    places_of,
    source_named,
    types_of,
    unqualified,
)
from pushdown_spark.joins.prospects import Prospects
from pushdown_spark.joins.push import reaching
from pushdown_spark.joins.reduction import Reducer, Reduction
from pushdown_spark.joins.result import JoinedResult, NamedScan, ViewQuery
from pushdown_spark.joins.same import Framed, reads_alike
from pushdown_spark.joins.text import ReadQuery, UnreadError, expression_of, named_tables, parsed, swapped, written
from pushdown_spark.joins.used import Used
from pushdown_spark.joins.variables import SessionVariables
from pushdown_spark.joins.views import PrivateViews
from pushdown_spark.projection.needed import lost_words
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.readers.predicate_settings import hides_names, misread
from pushdown_spark.readers.protocol import AnySource, Source, spark_only
from pushdown_spark.source import open_sources

_OFTEN = 4
"""Places at which the code for reading a source may well differ. TPC-DS's Q88 reads its sales at eight."""
_LARGE = 32 << 20


@dataclass(frozen=True)
class _Request:
    """What a query wants of the source at a place, without conditions."""

    place: Place
    columns: tuple[str, ...]
    implicit: tuple[str, ...]
    spark_only: str | None

    def scan(self, where: str | None, reductions: Sequence[Reduction] = ()) -> NamedScan:
        """The planned scan, with the conditions that reach it."""
        place = self.place
        parts = [*([where] if where else []), *(f"({reduction.condition})" for reduction in reductions)]
        projection = place.source.projection([quote_name(name) for name in self.columns])
        request = place.source.request(projection, " AND ".join(parts) or None)
        implicit = tuple(sorted({*request.implicit, *self.implicit}))
        if implicit:
            request = replace(request, implicit=implicit, fill=place.source.fill())
        request = replace(request, spark_only=request.spark_only or self.spark_only)
        notes = tuple(reduction.note for reduction in reductions)
        planned = place.source.planned(request, (*projection.notes, *notes))
        return NamedScan(place.key, place.view, planned, planned.scan)


class JoinPlanner:
    """Plans queries over the declared sources, with joins of every kind, sub-queries and set operations."""

    def __init__(
        self,
        spark: SparkSession,
        sources: Mapping[str, AnySource],
        options: JoinOptions,
        samples: SampleCache,
        private: PrivateViews,
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._options = options
        self._samples = samples
        self._private = private
        self._case_sensitive = spark.conf.get("spark.sql.caseSensitive", "false") == "true"

    def plan(self, sql: str) -> JoinedResult:
        """Raises UnreadError where the text is no query to us, or reads a table that is no declared source."""
        original = parsed(sql)
        tables = dict(enumerate(named_tables(original)))
        if not tables:
            raise UnreadError(f"query: it reads none of the declared sources ({', '.join(sorted(self._sources))})")
        if (problem := _misread(original, case_sensitive=self._case_sensitive)) is not None:
            raise UnreadError(f"query: {problem}")
        declared = {number: self._declared(table) for number, table in tables.items()}
        token = uuid.uuid4().hex[:12]
        views = {number: f"pushdown_{token}_{number}" for number in tables}
        query = ReadQuery.of(swapped(sql, tables, views.__getitem__))
        tree = query.tree
        # Once for each source, however often the query names it.
        opened = open_sources(self._spark, {source.name: source for source in declared.values()}.values())
        places = places_of(tree, {views[number]: source for number, source in declared.items()}, opened)
        columns = {place.view: frozenset(map(str.lower, place.source.schema.fieldNames())) for place in places}
        names = OutputNames(columns)
        where = self._conditions(sql, tree, places, names)
        requests = self._requests(sql, tree, places, columns)
        scans = [request.scan(where.get(request.place.view)) for request in requests]
        frames = {scan.view: scan.planned.native("check").frame() for scan in scans}
        with self._private.over(frames):
            analysed = cache(self._spark.sql)
            if not _means_what_it_says(query, analysed):
                where, scans = {}, [request.scan(None) for request in requests]
            is_plain = _is_plain(sql)
            figures = SourceFigures(self._spark, self._samples)
            prospects = Prospects(self._spark, self._options, self._samples.clock, figures, places)
            started = time.perf_counter()
            found = {} if prospects.obstacle else self._reductions(figures, scans, tree, places, names, where)
            read = {request.place.view: frozenset(request.columns) for request in requests}
            ordered = self._ordered(query, places, names, analysed, figures, read, prospects.obstacle, is_plain)
            frame = with_hints(analysed(ordered.text), ordered.broadcast)
            prospects.learn(time.perf_counter() - started, ordered.joins)
            held = ViewQuery(self._spark, self._private, ordered.text, ordered.broadcast, frames, frame)
        scans = [
            request.scan(where.get(scan.view), found[scan.view]) if scan.view in found else scan
            for request, scan in zip(requests, scans, strict=True)
        ]
        return JoinedResult(held, scans, ordered.joins)

    def _reductions(
        self,
        figures: SourceFigures,
        scans: list[NamedScan],
        tree: exp.Expr,
        places: list[Place],
        names: OutputNames,
        where: Mapping[str, str],
    ) -> dict[str, list[Reduction]]:
        """What reductions there are, by the views of the sources that they reduce."""
        if not where or not self._options.reorder:
            return {}
        reducer = Reducer(figures, {scan.view: scan for scan in scans}, self._options.min_bytes)
        by_view = {place.view: place for place in places}
        found: dict[str, list[Reduction]] = {}
        for block in blocks(tree, names.of):
            types = types_of(in_block(block, by_view), case_sensitive=self._case_sensitive)
            for reduction in reducer.reductions(block, by_view, types, where):
                found.setdefault(reduction.view, []).append(reduction)
        return found

    def _ordered(
        self,
        query: ReadQuery,
        places: list[Place],
        names: OutputNames,
        analysed: Framed,
        figures: SourceFigures,
        read: Mapping[str, frozenset[str]],
        idle: str | None,
        is_plain: bool,
    ) -> OrderedQuery:
        """The query with its joins in order, unless there is nothing to order, or a reason to leave it.

        `is_plain` tells that its constants are what they seem.
        """
        by_view = {place.view: place for place in places}

        def of(
            table: exp.Table, name: str, conditions: tuple[exp.Expr, ...], keys: frozenset[str]
        ) -> RelationFigures | None:
            place = by_view.get(table.name)
            if place is None or table.alias_column_names:
                return None
            parts = tuple(each.transform(unqualified, name) for each in conditions)
            wanted = Wanted(name, parts, keys, read[place.view])
            return figures.of(place.declared, place.source, wanted)

        def types(block: Block) -> ColumnTypes:
            return types_of(in_block(block, by_view), case_sensitive=self._case_sensitive)

        lists_keys = is_plain and not _is_read_often(places, figures)
        ordering = Ordering(self._spark, self._options, names, of, types, idle, hints_joins=True, lists_keys=lists_keys)
        return ordering.ordered(query, analysed)

    def _declared(self, table: exp.Table) -> AnySource:
        """The source that a table's name stands for."""
        name = ".".join(part.name for part in table.parts)
        found = source_named(self._sources, name)
        if found is None:
            raise UnreadError(no_source(self._sources, name))
        return found

    def _requests(
        self, sql: str, tree: exp.Expr, places: list[Place], columns: Mapping[str, frozenset[str]]
    ) -> list[_Request]:
        only = spark_only(sql)
        hidden, words = hides_names(self._spark, sql), lost_words(sql, tree)
        variables = SessionVariables(self._spark)
        used = Used(tree, variables.has, case_sensitive=self._case_sensitive, hides_names=hidden, words=words)
        requests = []
        for place in places:
            names = place.source.schema.fieldNames()
            implicit: tuple[str, ...] = ()
            if isinstance(place.declared, Source):
                implicit = used.implicit(place.table, names, columns, place.declared.catalog)
            requests.append(_Request(place, used.columns(place.table, names), implicit, only))
        return requests

    def _conditions(self, sql: str, tree: exp.Expr, places: list[Place], names: OutputNames) -> dict[str, str]:
        """For each view the conditions that may reach its reader, as text.

        Texts with backslashes are left to Spark because writing them anew would hide them from those who judge them.
        Where names differ by case alone, none is certain.
        """
        if not _is_plain(sql) or misread(self._spark, sql) is not None or self._case_sensitive:
            return {}
        by_view = {place.view: place for place in places}
        found: dict[str, str] = {}
        for block in blocks(tree, names.of):
            here = in_block(block, by_view)
            types = types_of(here, case_sensitive=self._case_sensitive)
            reached = reaching(block.plan, block.columns, types.spelt_once)
            for name, place in here.items():
                parts = [part.transform(unqualified, name) for part in reached[name]]
                text = " AND ".join(f"({written(part)})" for part in parts)
                if text and place.table.args.get("sample") is None:
                    found[place.view] = text
        return found


def _misread(tree: exp.Expr, *, case_sensitive: bool) -> str | None:
    """What in a query our parser takes for something else than Spark, None where nothing is known of that."""
    if any(join.kind == "OUTER" and not join.side for join in tree.find_all(exp.Join)):
        return "OUTER is the name of a relation"
    expressions = ((table, expression_of(table)) for table in tree.find_all(exp.Table) if case_sensitive)
    if any(found is not None and found.alias != table.name for table, found in expressions):
        return "a table has the name of a common table expression but for its case"
    return None


def _is_read_often(places: Sequence[Place], figures: SourceFigures) -> bool:
    """Whether a query reads a large source at many places.

    Spark compiles the same code for all of them, unless conditions on keys make their constants differ.
    """
    times = Counter(place.declared.name for place in places)
    often = {place.declared.name: place for place in places if times[place.declared.name] > _OFTEN}
    return any((figures.bytes(each.declared, each.source) or 0) > _LARGE for each in often.values())


def _is_plain(sql: str) -> bool:
    """Whether constants in a text are what they seem, to those who do not ask Spark."""
    return "\\" not in sql and read_alike(sql)


def _means_what_it_says(query: ReadQuery, analysed: Framed) -> bool:
    """Let Spark analyse the query now, so that a mistake in it is an error of its parameter.

    Whether our parser reads the text as Spark does: conditions taken from it mean something else otherwise.
    """
    try:
        original = analysed(query.text)
    except (AnalysisException, ParseException) as problem:
        raise typed(problem, about="query") from problem
    return reads_alike(original, query.again, analysed)
