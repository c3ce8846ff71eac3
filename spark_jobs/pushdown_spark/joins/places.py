"""The places of a query where it reads a source, and the types of the columns there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.expressions.conjuncts import without_relation
from pushdown_spark.expressions.scope import DECLARED_TYPE
from pushdown_spark.joins.block import Block
from pushdown_spark.joins.text import named_tables
from pushdown_spark.readers.protocol import AnySource
from pushdown_spark.source import OpenedSource

_SPELT_ONCE = (
    *(t.BooleanType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.DecimalType),
    *(t.DateType, t.TimestampType, t.TimestampNTZType),
)
"""Types whose values are equal only if they are the same in every respect, unlike doubles with their two zeros."""
_ANY = ""
"""Stands for the relation of a column that is given without one."""


@dataclass(frozen=True)
class Place:
    """A reference to a source: its name in reports, its view in the text, its table node and the source itself."""

    key: str
    view: str
    table: exp.Table
    source: OpenedSource
    declared: AnySource


def places_of(tree: exp.Expr, declared: Mapping[str, AnySource], opened: Mapping[str, OpenedSource]) -> list[Place]:
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


def in_block(block: Block, by_view: Mapping[str, Place]) -> dict[str, Place]:
    """The sources among a block's relations, by their names in it, whose columns have their own names there."""
    return {
        name: by_view[node.name]
        for name, node in block.relations.items()
        if isinstance(node, exp.Table) and node.name in by_view and not node.alias_column_names
    }


def source_named(sources: Mapping[str, AnySource], name: str) -> AnySource | None:
    """The declared source that a table's name stands for, None where there is none."""
    return sources.get(name) or next((found for known, found in sources.items() if known.lower() == name.lower()), None)


def no_source(sources: Mapping[str, AnySource], name: str) -> str:
    """What to say where there is none."""
    return f"query: no source is named {name!r}; there are {', '.join(sorted(sources)) or 'none'}"


def types_of(here: Mapping[str, Place], *, case_sensitive: bool) -> ColumnTypes:
    """The types of the columns of sources, by the sources' names in a block."""
    return ColumnTypes({name: place.source.schema for name, place in here.items()}, case_sensitive=case_sensitive)


def unqualified(node: exp.Expr, relation: str) -> exp.Expr:
    """A column reference without the name of its relation."""
    if not isinstance(node, exp.Column) or len(node.parts) < 2 or node.parts[0].name.lower() != relation:
        return node
    return without_relation(node)


class ColumnTypes:
    """Types of the columns of those relations of a block whose schemas are known, by their names in it."""

    def __init__(self, schemas: Mapping[str, t.StructType], *, case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive
        self._kinds: dict[tuple[str, str], list[t.DataType]] = {}
        for relation, schema in schemas.items():
            for field in schema.fields:
                # Spark pads what a catalogue has as char(n) when it is compared.
                kind = t.NullType() if DECLARED_TYPE in field.metadata else field.dataType
                for holder in (relation, _ANY):
                    self._kinds.setdefault((holder, self._spelt(field.name)), []).append(kind)

    def spelt_once(self, left: exp.Column, right: exp.Column) -> bool:
        """Whether two columns have one type, whose values are equal only if they are the same."""
        one, two = self._types(left), self._types(right)
        return len(one) == 1 and one == two and _is_spelt_once(one[0])

    def is_date(self, column: exp.Column) -> bool:
        """Whether a column is a date."""
        found = self._types(column)
        return bool(found) and all(isinstance(kind, t.DateType) for kind in found)

    def _types(self, column: exp.Column) -> list[t.DataType]:
        """The types that `column` or `relation.column` may have."""
        if len(column.parts) > 2:
            return []
        return self._kinds.get((column.table.lower() or _ANY, self._spelt(column.name)), [])

    def _spelt(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()


def _is_spelt_once(kind: t.DataType) -> bool:
    if isinstance(kind, t.StringType):
        return type(kind) is t.StringType and kind.collation == "UTF8_BINARY"
    return isinstance(kind, _SPELT_ONCE)
