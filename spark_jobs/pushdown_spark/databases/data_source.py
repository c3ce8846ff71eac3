"""The data source `spark.read.format("pushdown_remote")` for tables of databases.

Plans and pages show the options of a data source, so credentials are not options: `register` receives the connections
once, and the option `connection` names one of them.

>>> register(spark, {"shop": {"kind": "sqlite", "database": "shop.db"}})                          # doctest: +SKIP
>>> spark.read.format("pushdown_remote").option("connection", "shop").load("orders")              # doctest: +SKIP

Spark does not pass the required columns, the LIMIT and most predicates to a Python data source. The source therefore
reads the columns of the given schema, and takes a predicate as an option. PushdownSession derives all of them from the
query. Only PushdownSession shares one snapshot among partitions. Here, several partitions need `consistent=false`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import ClassVar

import pyarrow as pa
from pydantic import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from sqlglot import exp

from pushdown_spark.contract import DatabaseKind, RemoteConnection, RemoteSourceSpec
from pushdown_spark.contract.message import problems_of
from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, address_of, connect, describe_table
from pushdown_spark.databases.read.partition_reader import PartitionReader
from pushdown_spark.databases.read.partition_splits import (
    PartitionSplits,
    indivisible_scan,
    plan_splits,
    single_partition,
)
from pushdown_spark.databases.read.transport import arrow_fields
from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate, SparkRules, push_predicate
from pushdown_spark.databases.sql.remote_query import row_query
from pushdown_spark.databases.sql.remote_table import RemoteTable
from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.expressions.names import EXACT_NAMES
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.formats.data_source_options import TaskPartition, parse_option_where

FORMAT = "pushdown_remote"
_PARALLELISM = 4
"""The default number of partitions. Spark does not pass its own default to a data source."""
_OTHER_OPTIONS = frozenset({"connection", "path", "where"})


def register(spark: SparkSession, connections: Mapping[str, Mapping[str, object]]) -> None:
    """Register the format with a session. The option `connection` takes the names of `connections`.

    A connection has the fields of `RemoteConnection`. Raises BadSpecError, without its values, if it is invalid.
    """
    by_name = {name: address_of(_connection(name, fields)) for name, fields in connections.items()}

    class RegisteredRemoteSource(PushdownRemoteSource):
        """The format with the connections of this session. Spark sends the class to its workers only."""

        addresses: ClassVar[Mapping[str, DatabaseAddress]] = by_name

    spark.dataSource.register(RegisteredRemoteSource)


class PushdownRemoteSource(DataSource):
    """A table of a database.

    Options, in addition to the other fields of `RemoteSourceSpec`:

    - `connection`: the name of a registered connection.
    - `table` (or the argument of `load`), or `query`.
    - `where`: a predicate that the database evaluates as Spark does. Other rows are not returned.

    Only the columns of the given schema are read.
    """

    addresses: ClassVar[Mapping[str, DatabaseAddress]] = {}

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> t.StructType:
        """The table's columns."""
        return self._table().spark_schema

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """Return a reader of all columns of a schema. Raises BadSpecError for invalid options."""
        return RemoteTableReader(self._table(), schema, _spec(self.options), self._address(), self.options.get("where"))

    def _table(self) -> RemoteTable:
        address, spec = self._address(), _spec(self.options)
        with closing(connect(address, ConnectionSettings.of(spec))) as client:
            return describe_table(client, DatabaseKind(address.kind), spec)

    def _address(self) -> DatabaseAddress:
        name = self.options.get("connection", "")
        if name not in self.addresses:
            names = ", ".join(sorted(self.addresses)) or "none"
            raise BadSpecError(f"option connection: {name!r} is not registered; the registered connections are {names}")
        return self.addresses[name]


class RemoteTableReader(DataSourceReader):
    """A reader of the table for one scan."""

    def __init__(
        self,
        table: RemoteTable,
        schema: t.StructType,
        spec: RemoteSourceSpec,
        address: DatabaseAddress,
        where: str | None,
    ) -> None:
        _check_columns(table, schema)
        self._table = table
        self._schema = schema
        self._spec = spec
        self._address = address
        self._conjuncts: tuple[Pushdown[exp.Expr], ...] = () if where is None else _exact(where, table).conjuncts

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each statement."""
        conditions = self._splits().conditions
        return [_StatementPartition(number, self._statement(bounds)) for number, bounds in enumerate(conditions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        assert isinstance(partition, _StatementPartition)
        settings, fields = ConnectionSettings.of(self._spec), tuple(arrow_fields(self._schema, self._table))
        # Spark has no use for metrics of a Python data source.
        reader = PartitionReader(self._address, (partition.statement,), fields, settings, lambda number, metrics: None)
        yield from reader(iter([pa.RecordBatch.from_pydict({"task": [0]})]))

    def _splits(self) -> PartitionSplits:
        spec = self._spec
        if spec.consistent:
            return single_partition("a consistent read needs one partition")
        splits = indivisible_scan(self._table, spec)
        if splits is not None:
            return splits
        with closing(connect(self._address, ConnectionSettings.of(spec))) as client:
            return plan_splits(client, self._table, spec, self._statement(None), _PARALLELISM)

    def _statement(self, bounds: exp.Expr | None) -> str:
        # Without columns, the batches of a statement would have no rows.
        names = self._schema.fieldNames() or [self._table.columns[0].name]
        predicate = PushedPredicate(self._table.dialect, self._conjuncts)
        return row_query(self._table, names, predicate, bounds=bounds).sql


class _StatementPartition(TaskPartition):
    """A partition with its statement."""

    def __init__(self, number: int, statement: str) -> None:
        super().__init__(number)
        self.statement = statement


def _connection(name: str, fields: Mapping[str, object]) -> RemoteConnection:
    try:
        return RemoteConnection.model_validate(dict(fields))
    except ValidationError as problem:
        raise BadSpecError(f"connection {name!r}: {problems_of(problem)[0]}") from None


def _spec(options: Mapping[str, str]) -> RemoteSourceSpec:
    fields: dict[str, object] = {key.lower(): value for key, value in options.items()}
    if fields.get("path") and "table" not in fields and "query" not in fields:
        fields["table"] = fields["path"]
    try:
        return RemoteSourceSpec.model_validate({key: fields[key] for key in fields if key not in _OTHER_OPTIONS})
    except ValidationError as problem:
        raise BadSpecError(f"option {problems_of(problem)[0]}") from None


def _check_columns(table: RemoteTable, schema: t.StructType) -> None:
    """Raise UnknownColumnError or BadSpecError unless the table has all fields of the schema."""
    types = {field.name: field.dataType for field in table.spark_schema.fields}
    for field in schema.fields:
        if field.name not in types:
            raise UnknownColumnError(f"the table has no column {field.name!r}; its columns are {', '.join(types)}")
        if field.dataType != types[field.name]:
            raise BadSpecError(
                f"column {field.name} has type {types[field.name].simpleString()}, not "
                f"{field.dataType.simpleString()}; cast it after reading"
            )


def _exact(where: str, table: RemoteTable) -> PushedPredicate:
    """Push a predicate. Raises BadSpecError if it is not exact, because Spark does not evaluate it again."""
    predicate, rules = parse_option_where(where), SparkRules(is_trusted=True, name_rule=EXACT_NAMES)
    pushdown = None if predicate is None else push_predicate(conjuncts(predicate), table, rules)
    if pushdown is not None and pushdown.conjuncts and pushdown.is_exact:
        return pushdown
    reports = () if pushdown is None else pushdown.reports
    reasons = [f"{conjunct.sql}: {conjunct.reason}" for conjunct in reports if conjunct.reason]
    reason = "; ".join(reasons) or "it does not parse"
    raise BadSpecError(f"option where: the database cannot evaluate {where!r}: {reason}; use .where(...) instead")
