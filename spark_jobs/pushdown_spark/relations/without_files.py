"""The base class of relations without known files: tables of databases, views, and tables that only Spark can read."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Sequence

from pushdown_spark.errors import UnknownColumnError
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.projection.resolver import Projection, resolve
from pushdown_spark.relations.base import Relation
from pushdown_spark.relations.listing import Listing
from pushdown_spark.relations.request import ScanRequest


class RelationWithoutFiles(Relation):
    """A relation whose files are unknown, so that it has no file columns."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of the source with its article, for error messages."""

    @abstractmethod
    def origin(self, column: str) -> str:
        """Return where a column's type comes from, for error messages."""

    def projection(self, columns: Sequence[str] | None) -> Projection:
        """Resolve the columns of a query, all with None. Raises UnknownColumnError, also for columns of files."""
        projection = resolve(columns, self.schema, sys.maxsize, case_sensitive=self._case_sensitive, origin=self.origin)
        if projection.implicit:
            raise UnknownColumnError(
                f"source {self.source.name!r} is {self.kind} and has no file columns such as "
                f"{', '.join(projection.implicit)}; leave them out"
            )
        return projection

    def request(self, projection: Projection, where: str | None) -> ScanRequest:
        """Return what must be read for a projection and a predicate."""
        predicate = None if where is None else Predicate.parse(where)
        columns = set(projection.table_columns)
        if predicate is not None:
            tree = predicate.tree
            columns |= set(self.schema.fieldNames()) if tree is None else self.referenced_columns(tree)
        selected = tuple(name for name in self.schema.fieldNames() if name in columns)
        return ScanRequest(self.source, lambda: Listing(self.native), self.schema, selected, (), predicate)
