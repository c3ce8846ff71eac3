"""The operator for scans of a database table, with as much of the query as possible evaluated by the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_pushdown.connections.credentials import airflow_connection
from airflow_pushdown.connections.database_connections import database_connection
from airflow_pushdown.operators.base_operator import (
    JobRequest,
    PushdownBaseOperator,
    all_renderers,
    all_template_fields,
    query_of_rows,
)
from airflow_pushdown.operators.values import naming_parameters
from airflow_pushdown.parameters import DEFAULT_FETCH_SIZE, REMOTE
from pushdown_spark.contract import ONLY_SOURCE, RemoteSourceSpec, SecretValues


class RemoteScanOperator(PushdownBaseOperator):
    """Scan a table of PostgreSQL, MySQL, MariaDB or SQLite, with as much of the query as possible in the database.

    All parameters are keyword-only and can be mapped with `.partial().expand()`. The operator also accepts every
    parameter of `SparkSubmitOperator` except `application`, `application_args` and `java_class`. The task returns a
    report of the SQL that was sent, the residual predicate, and the rows and bytes that were read. If the job fails,
    the task pushes the report to XCom before it raises the error.

    :param source_conn_id: Airflow connection of type postgres, mysql or sqlite, with the usual extras. The credentials
        reach the job in a private file. (templated)
    :param where: Predicate in Spark SQL. The scan returns the rows for which it is true. (templated)
    :param data_interval: Timestamp or date column. Adds the predicate for the run's data interval, start included and
        end excluded. Fails if the interval is empty, as it is with Airflow's default timetable for `@daily` and cron
        strings. (templated)
    :param limit: Maximum number of rows. The scan stops when it has enough rows. (templated)
    :param table: Table to read, as `schema.table` or `table`. Quote parts with dots in double quotes. Give either
        `table` or `query`. (templated)
    :param query: Query to read instead of a table, in the SQL of the database. (templated)
    :param columns: Columns to return, each with an optional alias (`AS name`), or `*` for all. By default, all columns
        of the table. (templated)
    :param filter_pushdown: Whether the database evaluates the conjuncts that have identical semantics there. Otherwise
        only Spark filters. (templated)
    :param partition_column: Numeric or date column whose value ranges divide the table into partitions. By default,
        PostgreSQL tables are divided by pages and other tables are read in one partition. (templated)
    :param num_partitions: Number of partitions, at most 1,000, each with its own connection. By default, the planner
        estimates it from the size of the result. (templated)
    :param lower_bound: Start of the value ranges of `partition_column`. By default, it comes from the database's
        statistics or the smallest value. Rows outside the bounds are still read. (templated)
    :param upper_bound: End of the value ranges of `partition_column`, like `lower_bound`. (templated)
    :param consistent: Whether all partitions read the same snapshot of the table. PostgreSQL exports a snapshot. Other
        databases read the table in one partition. (templated)
    :param transport: Transport of the rows: `jdbc` for Spark's JDBC source, which needs the driver's jar on the class
        path, `arrow` for Python workers without a jar, or `auto` for the faster one that is available. (templated)
    :param fetch_size: Number of rows that a connection fetches at a time. (templated)
    :param statement_timeout: Seconds after which the database statement is canceled and the task fails. (templated)
    :param wide_numbers: Action for numeric columns that may have more than 38 digits: `error` fails on the first number
        that does not fit, `text` returns strings. (templated)
    :param zero_dates_as_null: Whether MySQL's zero dates (2024-00-00) become NULL. By default, they are an error.
        (templated)
    :param kwargs: Parameters of `PushdownBaseOperator` and of Airflow's operators.
    """

    operator_name: ClassVar[str] = REMOTE
    template_fields: Sequence[str] = all_template_fields(REMOTE)
    template_fields_renderers: ClassVar[dict[str, str]] = all_renderers(REMOTE)
    ui_color = "#e0d5ec"

    def __init__(
        self,
        *,
        source_conn_id: str,
        table: str | None = None,
        query: str | None = None,
        columns: list[str] | None = None,
        where: str | None = None,
        data_interval: str | None = None,
        limit: int | None = None,
        filter_pushdown: bool = True,
        partition_column: str | None = None,
        num_partitions: int | None = None,
        lower_bound: int | str | None = None,
        upper_bound: int | str | None = None,
        consistent: bool = True,
        transport: str = "auto",
        fetch_size: int = DEFAULT_FETCH_SIZE,
        statement_timeout: float | None = None,
        wide_numbers: str = "error",
        zero_dates_as_null: bool = False,
        **kwargs: Any,  # noqa: ANN401 - the parameters of the base operators, under their own names
    ) -> None:
        super().__init__(source_conn_id=source_conn_id, **kwargs)
        self.table = table
        self.query = query
        self.columns = columns
        self.where = where
        self.data_interval = data_interval
        self.limit = limit
        self.filter_pushdown = filter_pushdown
        self.partition_column = partition_column
        self.num_partitions = num_partitions
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.consistent = consistent
        self.transport = transport
        self.fetch_size = fetch_size
        self.statement_timeout = statement_timeout
        self.wide_numbers = wide_numbers
        self.zero_dates_as_null = zero_dates_as_null
        self._declare_assets(())
        self._check_literals(RemoteScanOperator)

    def job_request(self) -> JobRequest:
        """Return one database source, and columns, predicate and limit over it."""
        with naming_parameters({}):
            query = query_of_rows(self.columns, self.where, self._interval, self.limit)
            fields = RemoteSourceSpec.model_fields.keys() - {"format"}
            source = RemoteSourceSpec.model_validate({name: getattr(self, name) for name in fields})
        return JobRequest(sources={ONLY_SOURCE: source}, query=query)

    def _source_secrets(self) -> SecretValues:
        """Return the connection to the database, which is never part of the job spec."""
        connection = airflow_connection("source_conn_id", str(self.source_conn_id))
        return SecretValues(remote={ONLY_SOURCE: database_connection(connection)})
