"""Plans SQL over several sources: each gets the conditions and columns that concern it alone, Spark runs the query."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from spark_jobs.contract import JoinOptions
from spark_jobs.errors import BadSpecError
from spark_jobs.failures import typed
from spark_jobs.joins.block import Block, blocks
from spark_jobs.joins.cardinality import RelationFigures
from spark_jobs.joins.figures import SampleCache, SourceFigures, Wanted
from spark_jobs.joins.ordering import OrderedQuery, Ordering
from spark_jobs.joins.outputs import OutputNames
from spark_jobs.joins.push import Equated, reaching
from spark_jobs.joins.result import JoinedResult, NamedScan, ViewQuery
from spark_jobs.joins.text import named_tables, parsed, swapped
from spark_jobs.joins.used import Used
from spark_jobs.projection.tree import same_name
from spark_jobs.readers.protocol import AnySource
from spark_jobs.source import OpenedSource, open_source

_SPELT_ONCE = (
    *(t.BooleanType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.DecimalType),
    *(t.DateType, t.TimestampType, t.TimestampNTZType),
)
"""Types whose values are equal only if they are the same in every respect, unlike doubles with their two zeros."""


@dataclass(frozen=True)
class Place:
    """A reference to a source: its name in reports, its view in the text, its table node and the source itself."""

    key: str
    view: str
    table: exp.Table
    source: OpenedSource
    declared: AnySource


class JoinPlanner:
    """Plans queries over the declared sources, with joins of every kind, sub-queries and set operations."""

    def __init__(
        self, spark: SparkSession, sources: Mapping[str, AnySource], options: JoinOptions, cache: SampleCache
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._options = options
        self._cache = cache
        self._case_sensitive = spark.conf.get("spark.sql.caseSensitive", "false") == "true"

    def plan(self, sql: str) -> JoinedResult:
        """Raises BadSpecError where the text is no query, or reads a table that is no declared source."""
        tables = dict(enumerate(named_tables(parsed(sql))))
        if not tables:
            raise BadSpecError(f"query: it reads none of the declared sources ({', '.join(sorted(self._sources))})")
        declared = {number: self._declared(table) for number, table in tables.items()}
        token = uuid.uuid4().hex[:12]
        views = {number: f"pushdown_{token}_{number}" for number in tables}
        text = swapped(sql, tables, views.__getitem__)
        tree = parsed(text)
        opened = {source.name: open_source(self._spark, source) for source in declared.values()}
        places = _places(tree, {views[number]: source for number, source in declared.items()}, opened)
        columns = {place.view: frozenset(map(str.lower, place.source.schema.fieldNames())) for place in places}
        scans = self._scans(sql, tree, places, columns)
        self._check(ViewQuery(self._spark, text), scans)
        ordered = self._ordered(text, places, OutputNames(columns), scans)
        return JoinedResult(ViewQuery(self._spark, ordered.text), scans, ordered.joins)

    def _ordered(self, text: str, places: list[Place], names: OutputNames, scans: list[NamedScan]) -> OrderedQuery:
        """The query with its joins in order, unless there is nothing to order or to gain."""
        figures = SourceFigures(self._spark, self._cache)
        sizes = [figures.bytes(place.declared, place.source) for place in places]
        options = self._options
        if options.reorder and None not in sizes and sum(size or 0 for size in sizes) < options.min_bytes:
            return OrderedQuery(text, ())
        by_view = {place.view: place for place in places}

        def of(
            table: exp.Table, name: str, conditions: tuple[exp.Expr, ...], keys: frozenset[str]
        ) -> RelationFigures | None:
            place = by_view.get(table.name)
            if place is None:
                return None
            wanted = Wanted(name, tuple(each.transform(_unqualified, name) for each in conditions), keys)
            return figures.of(place.declared, place.source, wanted)

        def equated(block: Block) -> Equated:
            return _Types(_in_block(block, by_view), self._case_sensitive).spelt_once

        frames = {scan.view: scan.planned.native("check").frame() for scan in scans}
        ordering = Ordering(self._spark, options, names, of, equated)
        return ordering.ordered(text, lambda sql: ViewQuery(self._spark, sql).frame(frames))

    def _declared(self, table: exp.Table) -> AnySource:
        """The source that a table's name stands for."""
        name = ".".join(part.name for part in table.parts)
        found = self._sources.get(name) or next(
            (source for known, source in self._sources.items() if known.lower() == name.lower()), None
        )
        if found is None:
            there = ", ".join(sorted(self._sources)) or "none"
            raise BadSpecError(f"query: no source is named {name!r}; there are {there}")
        return found

    def _scans(
        self, sql: str, tree: exp.Expr, places: list[Place], columns: Mapping[str, frozenset[str]]
    ) -> list[NamedScan]:
        where = self._conditions(sql, tree, places, OutputNames(columns))
        aliases = [node.alias_or_name for node in tree.find_all(exp.Table, exp.Subquery, exp.CTE)]
        used = Used(tree, aliases, case_sensitive=self._case_sensitive)
        scans = []
        for place in places:
            names = place.source.schema.fieldNames()
            projection = place.source.projection(used.columns(place.table, names))
            request = place.source.request(projection, where.get(place.view))
            implicit = {*request.implicit, *used.implicit(place.table, names, columns)}
            request = replace(request, implicit=tuple(sorted(implicit)))
            planned = place.source.planned(request, projection.notes)
            scans.append(NamedScan(place.key, place.view, planned, planned.scan))
        return scans

    def _conditions(self, sql: str, tree: exp.Expr, places: list[Place], names: OutputNames) -> dict[str, str]:
        """For each view the conditions that may reach its reader, as text.

        Texts with backslashes are left to Spark because writing them anew would hide them from those who judge them,
        and double quotes are where they may hold names.
        """
        quoted = self._spark.conf.get("spark.sql.ansi.doubleQuotedIdentifiers", "false") == "true" and '"' in sql
        if "\\" in sql or quoted:
            return {}
        by_view = {place.view: place for place in places}
        found: dict[str, str] = {}
        for block in blocks(tree, names.of):
            here = _in_block(block, by_view)
            types = _Types(here, self._case_sensitive)
            reached = reaching(block.plan, block.columns, types.spelt_once)
            for name, place in here.items():
                parts = [part.transform(_unqualified, name) for part in reached[name]]
                text = " AND ".join(f"({part.sql(dialect='spark')})" for part in parts)
                if text and place.table.args.get("sample") is None:
                    found[place.view] = text
        return found

    def _check(self, query: ViewQuery, scans: list[NamedScan]) -> None:
        """Let Spark analyse the query now, so that a mistake in it is an error of its parameter."""
        try:
            query.frame({scan.view: scan.planned.native("check").frame() for scan in scans})
        except (AnalysisException, ParseException) as problem:
            raise typed(problem, about="query") from problem


def _places(tree: exp.Expr, declared: Mapping[str, AnySource], opened: Mapping[str, OpenedSource]) -> list[Place]:
    """The references to sources, which are given by view as declared and by name as opened."""
    times = Counter(source.name for source in declared.values())
    keys: Counter[str] = Counter()
    places = []
    for table in named_tables(tree):
        name = declared[table.name].name
        key = name if times[name] == 1 else f"{name} as {table.alias}"
        keys[key] += 1
        key = key if keys[key] == 1 else f"{key} ({keys[key]})"
        places.append(Place(key, table.name, table, opened[name], declared[table.name]))
    return places


def _in_block(block: Block, by_view: Mapping[str, Place]) -> dict[str, Place]:
    """The sources among a block's relations, by their names in it."""
    return {
        name: by_view[node.name]
        for name, node in block.relations.items()
        if isinstance(node, exp.Table) and node.name in by_view
    }


def _unqualified(node: exp.Expr, relation: str) -> exp.Expr:
    """A column reference without the name of its relation."""
    if not isinstance(node, exp.Column) or len(node.parts) < 2 or node.parts[0].name.lower() != relation:
        return node
    rest = [part.copy() for part in reversed(node.parts[1:])]
    return exp.Column(**dict(zip(("this", "table", "db"), rest, strict=False)))


class _Types:
    """Types of the columns of a block's sources."""

    def __init__(self, places: Mapping[str, Place], case_sensitive: bool) -> None:
        self._places = places
        self._case_sensitive = case_sensitive

    def spelt_once(self, left: exp.Column, right: exp.Column) -> bool:
        """Whether two columns have one type, whose values are equal only if they are the same."""
        kinds = [kind for column in (left, right) for kind in self._kinds(column)]
        return len(kinds) == 2 and kinds[0] == kinds[1] and _is_spelt_once(kinds[0])

    def _kinds(self, column: exp.Column) -> Iterator[t.DataType]:
        """The type of `column` or `relation.column`."""
        if len(column.parts) > 2:
            return
        holders = [self._places[column.table.lower()]] if column.table.lower() in self._places else []
        for place in holders if column.table else self._places.values():
            for field in place.source.schema.fields:
                if same_name(field.name, column.name, case_sensitive=self._case_sensitive):
                    yield field.dataType


def _is_spelt_once(kind: t.DataType) -> bool:
    if isinstance(kind, t.StringType):
        return type(kind) is t.StringType and kind.collation == "UTF8_BINARY"
    return isinstance(kind, _SPELT_ONCE)
