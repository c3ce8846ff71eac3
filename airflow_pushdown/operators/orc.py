"""The operator for lazy ORC scans: filter columns first, other columns only for row groups with a match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.operators.base import all_renderers, all_template_fields
from airflow_pushdown.operators.files import PushdownFilesOperator
from airflow_pushdown.operators.values import naming_parameters, shown
from airflow_pushdown.parameters import DEFAULT_MIN_SEEK_SIZE, LAZY_ORC, SOURCE_FORMATS
from airflow_pushdown.spark_settings import SPARK_USES_SELECTED
from pushdown_spark.contract import ErrorCode, OrcOptions, ReaderChoice

_AUTO = "auto"


class LazyOrcScanOperator(PushdownFilesOperator):
    """Scan ORC files: read the filter columns first, and the other columns only for row groups with a match.

    All parameters are keyword-only and can be mapped with `.partial().expand()`. The operator also accepts every
    parameter of `SparkSubmitOperator`. The task returns a report of the pushed conjuncts, the residual
    predicate, and the stripes, row groups and bytes that were read. If the job fails, the task pushes the report to
    XCom before it raises the error.

    :param path: Files, directories or globs to scan, on a local file system or an object store. Give either `path` or
        `table`. (templated)
    :param table: Table or view of Spark's catalog to scan, as `table`, `database.table` or `catalog.database.table`.
        The catalog knows its format and schema. (templated)
    :param schema: Schema of the files as Spark DDL. By default, the schema is inferred from the files. (templated)
    :param options: Reader options with Spark's names (header, sep, mode, dateFormat, mergeSchema and so on).
        (templated)
    :param columns: Columns to return: names, struct members (a.b, a(b, c)), array elements (a[0]), map entries
        (a['k']), `*`, and the implicit columns filename, filepath, fqn, suffix, modified, size and dir0 to dirN. Each
        may have an alias (`AS name`). By default, all columns of the schema. (templated)
    :param where: Predicate in Spark SQL. The scan returns the rows for which it is true. (templated)
    :param data_interval: Timestamp or date column. Adds the predicate for the run's data interval, start included and
        end excluded. Fails if the interval is empty, as it is with Airflow's default timetable for `@daily` and cron
        strings. (templated)
    :param limit: Maximum number of rows. The scan stops when it has enough rows. (templated)
    :param filter_pushdown: Whether the reader evaluates the predicate before it builds rows. Applies to Spark's readers
        and to the pushdown readers. (templated)
    :param reader: Reader to use: `spark` for Spark's own reader, `pushdown` for the pushdown reader, `auto` to choose
        by estimated cost. (templated)
    :param on_schema_conflict: Action if two files have types for one column that no common type holds without loss.
        `error` fails. `widen` applies Spark's type coercion. `null` keeps the type of the most files and returns NULL
        for the others. (templated)
    :param on_missing_column: Action if a file lacks a column that the schema or another file has: `null` returns NULL,
        `error` fails. (templated)
    :param implicit_names: New names of implicit columns, by their original names: filename, filepath, fqn, suffix,
        modified, size, and `dir` for the prefix of the directory columns. (templated)
    :param implicit_columns: Additional implicit columns, as import paths `package.module:Class` of subclasses of
        `ImplicitColumns`. (templated)
    :param sarg_to_filter: Whether Spark's ORC reader filters rows before it reads the other columns. The pushdown
        reader always does. By default, reader `auto` decides. (templated)
    :param use_selected: Whether Spark skips its own evaluation of an exact filter. Needs reader `pushdown`. (templated)
    :param partial_reads: Maximum number of separate reads of the other columns in a stripe, after which one read
        continues to its end. 0 means one read from the first match on. `auto` decides by the gaps between matches.
        Pushdown reader only. (templated)
    :param min_seek_size: Gaps of up to this many bytes between two reads are read, because a seek costs more. Pushdown
        reader only. (templated)
    :param output: Directory for the rows. Without it, the rows are only counted. (templated)
    :param output_conn_id: Airflow connection of type postgres, mysql or sqlite, whose database has `output_table`. The
        credentials reach the job in a private file. Without it, `output_table` is a table of Spark's catalog.
        (templated)
    :param output_table: Table for the rows instead of `output`, as `schema.table` or `table`. It is created if it is
        missing. It is in the database of `output_conn_id`, or in Spark's catalog. (templated)
    :param replace_where: Predicate in Spark SQL. In mode `overwrite_partitions`, the rows of `output_table` for which
        it is true are replaced, and every new row must satisfy it. (templated)
    :param merge_keys: Columns that identify a row of `output_table` in mode `merge`. (templated)
    :param output_format: Format of the output: parquet, orc, avro, json, csv, text or xml. For a new table in Spark's
        catalog also iceberg or delta. (templated)
    :param output_mode: Action if the output exists: `overwrite` replaces it, `overwrite_partitions` replaces the
        partitions that the run writes or the rows of `replace_where`, `merge` replaces the rows of a table with the
        same key, `append` adds rows, `ignore` writes nothing, `errorifexists` fails. (templated)
    :param output_options: Writer options with Spark's names (compression and so on). (templated)
    :param partition_by: Partition columns of the output. (templated)
    :param checks: Conditions on the rows before they are committed: `min_rows`, `max_rows`, `not_null` (columns) and
        `unique` (columns, or lists of columns that form a key). If a check fails, the task fails and the output stays
        as it was. (templated)
    :param nested_pruning: Whether to read only the required struct members and to push predicates on struct members.
        (templated)
    :param source_conn_id: Airflow connection of type aws, wasb, adls or google_cloud_platform with the credentials of
        the object store. They reach the job in a private file. (templated)
    :param spark_home: Spark installation whose bin/spark-submit starts the job. By default, it is located next to
        spark_python, then in SPARK_HOME, then on PATH. (templated)
    :param spark_python: Python interpreter of the Spark environment. By default, AIRFLOW_PUSHDOWN_SPARK_PYTHON or
        PYSPARK_PYTHON of the worker. (templated)
    :param exchange_dir: Directory or URI (s3a, hdfs, gs, abfss) that both the worker and the driver can access, for the
        job spec and the result in deploy mode cluster. By default, the extra exchange-dir of the Spark connection.
        (templated)
    :param exchange_conn_id: Airflow connection with which the worker accesses exchange_dir, by default the extra
        exchange-conn-id of the Spark connection. The driver uses the credentials of the cluster. (templated)
    :param deferrable: Whether the task gives back its worker slot while its driver runs on a cluster. Needs deploy mode
        cluster and a triggerer. By default, Airflow's setting [operators] default_deferrable, in deploy mode cluster.
    :param class_archives: Directory on the worker for class data sharing archives, which shorten the start of Spark's
        JVM, or `off`. The first task creates the archive. By default, AIRFLOW_PUSHDOWN_CLASS_ARCHIVES of the worker,
        otherwise a private directory where the first task records its own classes. Not for deploy mode cluster.
        (templated)
    :param assets: Whether the source files become inlets of the task and the output an outlet. The asset events contain
        rows and bytes. Not for mapped tasks.
    :param name: Name of the Spark application. (templated)
    """

    table_name: ClassVar[str] = LAZY_ORC
    template_fields: Sequence[str] = all_template_fields(LAZY_ORC)
    template_fields_renderers: ClassVar[dict[str, str]] = all_renderers(LAZY_ORC)
    ui_color = "#cfdde8"

    def __init__(
        self,
        *,
        sarg_to_filter: bool | None = None,
        use_selected: bool = False,
        partial_reads: int | str = _AUTO,
        min_seek_size: int = DEFAULT_MIN_SEEK_SIZE,
        **kwargs: Any,  # noqa: ANN401 - the parameters of the base operators, under their own names
    ) -> None:
        super().__init__(**kwargs)
        self.sarg_to_filter = sarg_to_filter
        self.use_selected = use_selected
        self.partial_reads = partial_reads
        self.min_seek_size = min_seek_size
        self._check_literals(LazyOrcScanOperator)

    @property
    def source_format(self) -> object:
        """The format `orc`."""
        return SOURCE_FORMATS[LAZY_ORC]

    def orc_options(self) -> OrcOptions:
        """Return the ORC options. Raises `ConfigError` if one is invalid or does not fit the reader."""
        with naming_parameters({}):
            options = OrcOptions.model_validate(
                {
                    "sarg_to_filter": self.resolved_switch("sarg_to_filter", self.sarg_to_filter),
                    "use_selected": self.use_selected,
                    "partial_reads": _partial_reads(self.partial_reads),
                    "min_seek_size": self.min_seek_size,
                }
            )
        if options.use_selected and self.reader != ReaderChoice.PUSHDOWN:
            raise config_error(
                f"use_selected=True needs reader='pushdown', not {self.reader!r} ({SPARK_USES_SELECTED.reason})",
                ErrorCode.UNSAFE_SETTING,
            )
        return options


def _partial_reads(value: object) -> int | None:
    """Return the parameter `partial_reads` as a number, or None for `auto`."""
    if value == _AUTO:
        return None
    try:
        return TypeAdapter(NonNegativeInt).validate_python(value)
    except ValidationError as error:
        raise config_error(f"partial_reads: give a number of reads, 0 or more, or 'auto'{shown(value)}") from error
