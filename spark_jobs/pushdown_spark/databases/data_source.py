"""`spark.read.format("pushdown_remote")`: tables of databases as a data source of Spark's.

Options of a source are seen in plans and pages, so none of them is a credential: connections are given once, to
`register`, and named by the option `connection`.

>>> register(spark, {"shop": {"kind": "sqlite", "database": "shop.db"}})                          # doctest: +SKIP
>>> spark.read.format("pushdown_remote").option("connection", "shop").load("orders")              # doctest: +SKIP

Spark tells such a source neither the columns that a query needs nor its LIMIT nor most predicates, so the columns are
those of the schema that is given, and a predicate may be given as option. PushdownSession knows all of them by itself,
and it alone shares one snapshot among partitions: here several partitions take `consistent=false`.

Conjuncts of an ordinary `.where(...)` reach the source with the option `push_filters=true`, which is off because of
Spark 4.3: it keeps the filters of one query with the frame that was loaded. With the option on, load a frame anew for
each query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import ClassVar

import pyarrow as pa
from pydantic import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from sqlglot import exp

from pushdown_spark.contract import DatabaseKind, Exactness, RemoteConnection, RemoteSourceSpec
from pushdown_spark.databases.address import Address, Settings, address_of
from pushdown_spark.databases.catalog import described
from pushdown_spark.databases.classify import Classified, Conjunct, classify
from pushdown_spark.databases.client import connect
from pushdown_spark.databases.model import RemoteTable
from pushdown_spark.databases.query import remote_query
from pushdown_spark.databases.rules import SparkRules
from pushdown_spark.databases.run import wanted_field
from pushdown_spark.databases.slices import Slices, may_be_sliced, slices, whole
from pushdown_spark.databases.tasks import RemoteCount, RemoteReader
from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.predicates.parse import parse_predicate
from pushdown_spark.readers.data_source import TaskPartition, expression

FORMAT = "pushdown_remote"
_PARALLELISM = 4
"""Partitions where nothing says how many: such a source is not told of Spark's own default."""
_OTHER_OPTIONS = frozenset({"connection", "path", "where", "push_filters"})


def register(spark: SparkSession, connections: Mapping[str, Mapping[str, object]]) -> None:
    """Make the format known to a session, with connections by the names that the option `connection` will have.

    `connections` have fields of `RemoteConnection`. Raises BadSpecError, without their values, for what is none.
    """
    reached = {name: address_of(_connection(name, given)) for name, given in connections.items()}

    class RegisteredRemoteSource(PushdownRemoteSource):
        """The format with the connections of this session, which Spark sends to its workers and shows nowhere."""

        addresses: ClassVar[Mapping[str, Address]] = reached

    spark.dataSource.register(RegisteredRemoteSource)


class PushdownRemoteSource(DataSource):
    """A table of a database.

    Options: `connection`, the name of a registered one; `table` (or what is given to `load`) or `query`; `where`, a
    predicate that all rows pass and that the database can answer as Spark would; `push_filters` (true or false), for
    which `spark.sql.python.filterPushdown.enabled` must be on as well; and the other fields of `RemoteSourceSpec`.
    Give a schema with the columns that are needed: others are not read.
    """

    addresses: ClassVar[Mapping[str, Address]] = {}

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> t.StructType:
        """The table's columns."""
        return self._table().spark_schema

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """A reader of all columns of a schema. Raises BadSpecError for options that are not possible."""
        pushes = self.options.get("push_filters", "false").lower() == "true"
        kind = FilterableRemoteReader if pushes else RemoteTableReader
        return kind(self._table(), schema, _spec(self.options), self._address(), self.options.get("where"))

    def _table(self) -> RemoteTable:
        address, spec = self._address(), _spec(self.options)
        with closing(connect(address, Settings(statement_timeout=spec.statement_timeout))) as client:
            return described(client, DatabaseKind(address.kind), spec)

    def _address(self) -> Address:
        name = self.options.get("connection", "")
        if name not in self.addresses:
            known = ", ".join(sorted(self.addresses)) or "none"
            raise BadSpecError(f"option connection: no connection {name!r} was registered; there are {known}")
        return self.addresses[name]


class RemoteTableReader(DataSourceReader):
    """Reads the table for one scan."""

    def __init__(
        self, table: RemoteTable, schema: t.StructType, spec: RemoteSourceSpec, address: Address, where: str | None
    ) -> None:
        _check_columns(table, schema)
        self._table = table
        self._schema = schema
        self._spec = spec
        self._address = address
        self._conjuncts: tuple[Conjunct, ...] = () if where is None else _exact(where, table).conjuncts

    def partitions(self) -> Sequence[InputPartition]:
        """One for each statement."""
        cut = self._cut()
        return [_StatementPartition(number, self._statement(part)) for number, part in enumerate(cut.conditions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        assert isinstance(partition, _StatementPartition)
        spec = self._spec
        settings = Settings(fetch_size=spec.fetch_size, statement_timeout=spec.statement_timeout)
        fields = tuple(wanted_field(field, self._table) for field in self._schema.fields)
        reader = RemoteReader(self._address, (partition.statement,), fields, settings, _unreported)
        yield from reader(iter([pa.RecordBatch.from_pydict({"task": [0]})]))

    def _cut(self) -> Slices:
        spec = self._spec
        if spec.consistent:
            return whole("one moment takes one partition")
        reason = may_be_sliced(self._table, spec)
        if reason is not None:
            return whole(reason)
        with closing(connect(self._address, Settings(statement_timeout=spec.statement_timeout))) as client:
            return slices(client, self._table, spec, self._statement(None), _PARALLELISM)

    def _statement(self, bounds: exp.Expr | None) -> str:
        # A statement without columns would leave its rows with no batch to count them in.
        names = self._schema.fieldNames() or [self._table.columns[0].name]
        classified = Classified(self._table.dialect, self._conjuncts)
        return remote_query(self._table, names, classified, partition_bounds=bounds).sql


class FilterableRemoteReader(RemoteTableReader):
    """Reads the table for one query, whose conjuncts come through `pushFilters`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- the name is Spark's
        """Take what the database can answer; give back what Spark must evaluate (again)."""
        left = []
        for pushed in filters:
            node = expression(pushed)
            found = () if node is None else _classified(node, self._table).conjuncts
            self._conjuncts += found
            if not found or any(conjunct.exactness is not Exactness.EXACT for conjunct in found):
                left.append(pushed)
        return left


class _StatementPartition(TaskPartition):
    """A task with its statement."""

    def __init__(self, number: int, statement: str) -> None:
        super().__init__(number)
        self.statement = statement


def _connection(name: str, given: Mapping[str, object]) -> RemoteConnection:
    try:
        return RemoteConnection.model_validate(dict(given))
    except ValidationError as problem:
        first = problem.errors(include_input=False)[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
        raise BadSpecError(f"connection {name!r}: {what}") from None


def _spec(options: Mapping[str, str]) -> RemoteSourceSpec:
    """What the options say of the table."""
    given: dict[str, object] = {key.lower(): value for key, value in options.items()}
    if given.get("path") and "table" not in given and "query" not in given:
        given["table"] = given["path"]
    try:
        return RemoteSourceSpec.model_validate({key: given[key] for key in given if key not in _OTHER_OPTIONS})
    except ValidationError as problem:
        first = problem.errors(include_input=False)[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
        raise BadSpecError(f"option {what}") from None


def _check_columns(table: RemoteTable, schema: t.StructType) -> None:
    """Raises UnknownColumnError or BadSpecError unless the schema is a part of the table's."""
    kinds = {field.name: field.dataType for field in table.spark_schema.fields}
    for field in schema.fields:
        if field.name not in kinds:
            raise UnknownColumnError(f"there is no column {field.name!r} in the table; there are {', '.join(kinds)}")
        if field.dataType != kinds[field.name]:
            raise BadSpecError(
                f"column {field.name} arrives as {kinds[field.name].simpleString()}, not as "
                f"{field.dataType.simpleString()}; cast it behind the source"
            )


def _classified(node: exp.Expr, table: RemoteTable) -> Classified:
    return classify(node, table, SparkRules(case_sensitive=True))


def _exact(where: str, table: RemoteTable) -> Classified:
    """Raises BadSpecError unless the database answers all of the predicate: Spark does not evaluate it again."""
    predicate = parse_predicate(where)
    found = None if predicate is None else _classified(predicate, table)
    if found is not None and found.conjuncts and found.is_exact:
        return found
    reasons = [] if found is None else [f"{each.sql}: {each.reason}" for each in found.conjuncts if each.reason]
    reason = "; ".join(reasons) or "it does not parse"
    raise BadSpecError(f"option where: {where!r} cannot be left to the database: {reason}; use .where(...) for it")


def _unreported(number: int, count: RemoteCount) -> None:
    """Spark has no place for the figures of such a source's tasks."""
