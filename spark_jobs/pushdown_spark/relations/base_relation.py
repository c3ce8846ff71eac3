"""The interface of relations: declared sources whose schema is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from pushdown_spark.errors import UnknownColumnError
from pushdown_spark.expressions.conjuncts import nodes_of, without_relation
from pushdown_spark.expressions.constant_folding import cached_fold
from pushdown_spark.expressions.names import ANY_CASE, EXACT_NAMES
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.projection.implicit_columns import has_column
from pushdown_spark.projection.implicit_values import ImplicitValues
from pushdown_spark.projection.path_expressions import PathContext
from pushdown_spark.projection.path_tree import merge_paths
from pushdown_spark.projection.paths import ColumnPath, Member, quote_name
from pushdown_spark.projection.required_columns import function_names, required_columns, selects_all
from pushdown_spark.projection.resolver import Projection, resolve
from pushdown_spark.scan.base_scan import ProjectedScan
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.request import ScanRequest
from pushdown_spark.sources.stores.listing import Listing
from pushdown_spark.sources.table_statistics import TableStatistics


class Relation(ABC):
    """A declared source whose schema is known."""

    def __init__(self, spark: SparkSession, source: Source) -> None:
        """`source` is the declaration; its catalog has the implicit columns that a query may ask for."""
        self._spark = spark
        self.source = source
        self._name_rule = session_name_rule(spark)

    @property
    @abstractmethod
    def spark_frame(self) -> DataFrame:
        """A lazy DataFrame that Spark can analyze a query over."""

    @property
    @abstractmethod
    def schema(self) -> StructType:
        """The columns of the table, partition columns included."""

    @abstractmethod
    def projection(self, columns: Sequence[str] | None) -> Projection:
        """Resolve the columns of a query. None stands for all. Raises UnknownColumnError and KindMismatchError."""

    def with_unnamed_fields(self, columns: Sequence[str] | None) -> Relation:
        """Return a relation that has all fields which `columns` needs, for lines whose fields have no names."""
        return self

    @abstractmethod
    def request(self, projection: Projection, predicate: Predicate | None) -> ScanRequest:
        """Return the scan request for a projection and a predicate."""

    @property
    def uris(self) -> tuple[str, ...]:
        """URIs of the files, or none for a database."""
        return ()

    def implicit_values(self) -> ImplicitValues | None:
        """Return the values of the implicit columns, or None if the relation has no files."""
        return None

    def statistics(self, predicate: Predicate | None, columns: Sequence[str]) -> TableStatistics | None:
        """Return the source's own statistics for a predicate and some columns, or None if it has none. Reads no row."""
        return None

    def full_pushdown(self, query: exp.Select, request: ScanRequest, columns: Sequence[str]) -> ProjectedScan | None:
        """Return the scan of a whole query that the source runs, or None if Spark runs it.

        `columns` are the names of the query's columns.
        """
        return None

    def query_request(self, tree: exp.Expr, predicate: Predicate | None, words: frozenset[str]) -> ScanRequest:
        """Return the scan request of a query over this relation alone.

        `predicate` is the WHERE of the query if a reader may apply it. `words` may be names that the tree lacks.
        """
        others = {name for name in self.schema.fieldNames() if name.lower() in words}
        projection = self.projection([quote_name(name) for name in sorted(self.referenced_columns(tree) | others)])
        implicit_columns = self.source.implicit_catalog.references(tree, self.schema, name_rule=self._name_rule)
        tree_columns = required_columns(tree, self.schema, name_rule=self._name_rule)
        complete = merge_paths([ColumnPath((Member(name),)) for name in sorted(others)], name_rule=EXACT_NAMES)
        return self.request(
            replace(projection, implicit_columns=implicit_columns, tree=tree_columns.merge(complete)), predicate
        )

    def without_ambiguous_tree(self, predicate: Predicate | None) -> Predicate | None:
        """Return a predicate without its tree if that takes a column for a function, or else the same predicate."""
        if predicate is None or predicate.tree is None:
            return predicate
        functions = {name.lower() for name in function_names(predicate.tree)}
        is_ambiguous = functions & {name.lower() for name in self.schema.fieldNames()}
        return Predicate(predicate.sql, None) if is_ambiguous else predicate

    def unqualify(self, node: exp.Expr, table: str) -> exp.Expr:
        """Return a column reference without the table's name, if Spark takes its first part for the table."""
        if not isinstance(node, exp.Column) or len(node.parts) < 2:
            return node
        first, second, *_ = node.parts
        if first.name.lower() != table.lower() or not has_column(self.schema, second.name, name_rule=self._name_rule):
            return node
        return without_relation(node)

    def referenced_columns(self, tree: exp.Expr) -> set[str]:
        """Return the top-level columns that an expression may refer to. Any part of a dotted name counts."""
        parts = {
            self._name_rule.key(part.name)
            for column in nodes_of(tree, exp.Column, exp.Dot)
            for part in column.find_all(exp.Identifier)
        }
        parts |= {ANY_CASE.key(name) for name in function_names(tree)}
        if selects_all(tree):
            return set(self.schema.fieldNames())
        return {name for name in self.schema.fieldNames() if self._name_rule.key(name) in parts}


class RelationWithoutFiles(Relation):
    """A relation without known files: a table of a database, or a table or view that only Spark reads."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of the source with its article, for error messages."""

    @abstractmethod
    def origin(self, column: str) -> str:
        """Return where a column's type comes from, for error messages."""

    def projection(self, columns: Sequence[str] | None) -> Projection:
        """Resolve the columns of a query. None stands for all. Raises UnknownColumnError, also for columns of files."""
        projection = resolve(columns, PathContext(self.schema, self._name_rule, self.origin))
        if projection.implicit_columns:
            raise UnknownColumnError(
                f"source {self.source.name!r} is {self.kind} and has no implicit columns such as "
                f"{', '.join(projection.implicit_columns)}; leave them out"
            )
        return projection

    def request(self, projection: Projection, predicate: Predicate | None) -> ScanRequest:
        """Return the scan request for a projection and a predicate."""
        columns = set(projection.table_columns)
        if predicate is not None:
            tree = predicate.tree
            columns |= self.columns_of_text(predicate.sql) if tree is None else self.referenced_columns(tree)
        column_names = tuple(name for name in self.schema.fieldNames() if name in columns)
        return ScanRequest(
            source=self.source,
            load_listing=lambda: Listing(self.spark_frame),
            schema=self.schema,
            columns=column_names,
            implicit_columns=(),
            predicate=predicate,
            fold=cached_fold(self._spark),
            notes=projection.notes,
        )

    def columns_of_text(self, sql: str) -> set[str]:
        """Return the columns that a predicate may refer to, if only Spark can parse it."""
        return set(self.schema.fieldNames())
