"""The operator that reads a table of a database, which answers of the question what means the same there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_pushdown.hooks.credentials import airflow_connection
from airflow_pushdown.hooks.databases import database_connection
from airflow_pushdown.operators.base import PushdownBaseOperator, Question, all_renderers, all_template_fields
from airflow_pushdown.operators.values import listed, naming_parameters, switch
from airflow_pushdown.parameters import DEFAULT_FETCH_SIZE, REMOTE
from pushdown_spark.contract import ONLY_SOURCE, QuerySpec, RemoteSourceSpec, SecretValues


class RemoteScanOperator(PushdownBaseOperator):
    """Read a table of PostgreSQL, MySQL, MariaDB or SQLite, and have the database do what it does as Spark would.

    All parameters are keyword-only and may be mapped with `.partial().expand()`. On top of those below, every parameter
    of `SparkSubmitOperator` is taken with its name and meaning. The task returns the SQL that was sent, what was left
    to Spark, and the rows and bytes that came; it pushes the same to XCom when the job fails.

    :param source_conn_id: Airflow connection of type postgres, mysql or sqlite to the database, with its usual extras;
        it reaches the job in a private file. (templated)
    :param where: Predicate in Spark SQL; only rows it keeps are returned. (templated)
    :param limit: Return at most this many rows and stop reading once they are found. (templated)
    :param table: The table to read, `schema.table` or `table`; parts with dots stand in double quotes. Give this or
        `query`. (templated)
    :param query: A query in the database's own SQL to read in place of a table. (templated)
    :param columns: Columns to return, each with `AS name` if wanted, `*` for all; without it all columns of the table.
        (templated)
    :param filter_pushdown: Whether the database gets the part of the predicate that means the same there; else Spark
        alone filters. (templated)
    :param partition_column: Number or date by whose ranges the table is read in partitions; without it PostgreSQL's
        tables are cut by pages and others read in one piece. (templated)
    :param num_partitions: How many partitions, each a connection; without it the size of the answer decides.
        (templated)
    :param lower_bound: From where on the ranges of `partition_column` are cut; without it the database's statistics or
        its smallest value tell. No row is left out. (templated)
    :param upper_bound: Up to where the ranges of `partition_column` are cut, like `lower_bound`. (templated)
    :param consistent: Whether all partitions see the table at one moment: through an exported snapshot in PostgreSQL,
        elsewhere by reading it in one piece. (templated)
    :param transport: What carries the rows: `jdbc`, Spark's own source with the driver's jar on its class path,
        `arrow`, Python workers without a jar, or `auto`, the faster of them that is possible. (templated)
    :param fetch_size: Rows that a connection holds at a time. (templated)
    :param statement_timeout: Seconds after which a statement is ended and the task fails. (templated)
    :param wide_numbers: What numbers become that may have more than 38 digits: an `error` where one has, or `text`.
        (templated)
    :param zero_dates_as_null: Whether dates that only MySQL has (2024-00-00) are NULL; else they are an error.
        (templated)
    :param output: Where to write the rows; without it they are only counted. (templated)
    :param output_format: Format to write: parquet, orc, avro, json, csv, text or xml. (templated)
    :param output_mode: What to do when the output exists: `overwrite` replaces all of it, `overwrite_partitions` the
        partitions that the run produces, `append` adds to it; `ignore` and `errorifexists` leave it. (templated)
    :param output_options: Writer options under Spark's names (compression and so on). (templated)
    :param partition_by: Columns that become directories of the output. (templated)
    :param checks: What must hold for the rows before they are committed: `min_rows`, `max_rows`, `not_null` (columns)
        and `unique` (columns, or lists of columns that are a key together). Otherwise the task fails and leaves the
        output as it was. (templated)
    :param nested_pruning: Whether only the struct members that are asked for are read, and predicates on them are
        pushed. (templated)
    :param spark_home: Spark installation whose bin/spark-submit starts the job; else it is looked for beside
        spark_python, in SPARK_HOME and on PATH. (templated)
    :param spark_python: Python of the Spark environment; else AIRFLOW_PUSHDOWN_SPARK_PYTHON or PYSPARK_PYTHON of the
        worker. (templated)
    :param exchange_dir: Directory for the job's description and result that worker and driver both see, for deploy mode
        cluster. (templated)
    :param class_archives: Directory on the worker for archives of Spark's classes, with which jobs start a third
        sooner; the first task makes one, in up to a minute. Else AIRFLOW_PUSHDOWN_CLASS_ARCHIVES of the worker; not for
        deploy mode cluster. (templated)
    :param assets: Whether the files that are read become inlets of the task and the output an outlet, whose asset
        events tell rows and bytes; not for mapped tasks.
    :param name: Name of the Spark application. (templated)
    """

    table_name: ClassVar[str] = REMOTE
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

    def question(self) -> Question:
        """One table, and columns, predicate and limit over it."""
        with naming_parameters({}):
            query = QuerySpec.model_validate(
                {"source": ONLY_SOURCE, "columns": listed(self.columns), "where": self.where, "limit": self.limit}
            )
            source = RemoteSourceSpec.model_validate(
                {
                    "table": self.table,
                    "query": self.query,
                    "filter_pushdown": switch("filter_pushdown", self.filter_pushdown),
                    "partition_column": self.partition_column,
                    "num_partitions": self.num_partitions,
                    "lower_bound": self.lower_bound,
                    "upper_bound": self.upper_bound,
                    "consistent": switch("consistent", self.consistent),
                    "transport": self.transport,
                    "fetch_size": self.fetch_size,
                    "statement_timeout": self.statement_timeout,
                    "wide_numbers": self.wide_numbers,
                    "zero_dates_as_null": switch("zero_dates_as_null", self.zero_dates_as_null),
                }
            )
        return Question(sources={ONLY_SOURCE: source}, query=query)

    def _source_secrets(self) -> SecretValues:
        """How to reach the database, which no part of the job's description tells."""
        connection = airflow_connection("source_conn_id", str(self.source_conn_id))
        return SecretValues(remote={ONLY_SOURCE: database_connection(connection)})
