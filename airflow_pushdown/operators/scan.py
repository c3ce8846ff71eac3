"""The operator that scans files of one format: columns, a predicate and a limit over one source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_pushdown.operators.base import all_renderers, all_template_fields
from airflow_pushdown.operators.files import PushdownFilesOperator
from airflow_pushdown.parameters import SCAN


class PushdownScanOperator(PushdownFilesOperator):
    """Scan JSON, CSV, Avro, ORC, Parquet or text files and read as little of them as the question allows.

    All parameters are keyword-only and may be mapped with `.partial().expand()`. On top of those below, every parameter
    of `SparkSubmitOperator` is taken with its name and meaning. The task returns what was pushed down, what was left to
    Spark, and what was read and skipped; it pushes the same to XCom when the job fails.

    :param path: Files, directories or globs to scan, local or on an object store. (templated)
    :param format: Format of the files: json, csv, avro, orc, parquet or text. (templated)
    :param schema: Schema of the files as Spark DDL; without it Spark infers one. (templated)
    :param options: Reader options under Spark's names (header, sep, mode, dateFormat, mergeSchema and so on).
        (templated)
    :param columns: Columns to return: names, struct members (a.b, a(b, c)), array elements (a[0]), map entries
        (a['k']), `*`, and the implicit columns filename, filepath, fqn, suffix, modified, size and dir0 to dirN, each
        with `AS name` if wanted; without it all columns of the schema. (templated)
    :param where: Predicate in Spark SQL; only rows it keeps are returned. (templated)
    :param limit: Return at most this many rows and stop reading once they are found. (templated)
    :param filter_pushdown: Whether the predicate reaches the files before rows are built, in Spark's readers and in
        ours. (templated)
    :param reader: Which reader to use: `spark` for Spark's own, `pushdown` for ours, `auto` to decide from a sample.
        (templated)
    :param on_schema_conflict: What to do where files hold a column in types that no type holds without loss: `error`,
        `widen` as far as Spark's coercion goes, or `null` for the files whose type fewer files have. (templated)
    :param on_missing_column: What a column is in a file that lacks it though the schema or another file has it: `null`,
        or an `error`. (templated)
    :param max_malformed: How many malformed lines of JSON or CSV the task may meet before it fails; every line is then
        parsed by Spark's reader, and the report has their number. (templated)
    :param implicit_names: Other names for implicit columns, by their own: filename, filepath, fqn, suffix, modified,
        size, and `dir` for the prefix of the directories. (templated)
    :param implicit_columns: Further implicit columns: import paths `package.module:Class` of classes derived from
        `ImplicitColumns`. (templated)
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
    :param source_conn_id: Airflow connection of type aws with credentials for the object store; they reach the job in a
        private file. (templated)
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

    table_name: ClassVar[str] = SCAN
    template_fields: Sequence[str] = all_template_fields(SCAN)
    template_fields_renderers: ClassVar[dict[str, str]] = all_renderers(SCAN)
    ui_color = "#cfe8d5"

    def __init__(
        self,
        *,
        format: str,
        max_malformed: int | None = None,
        **kwargs: Any,  # noqa: ANN401 - the parameters of the base operators, under their own names
    ) -> None:
        super().__init__(**kwargs)
        self.format = format
        self.max_malformed = max_malformed

    def source_fields(self) -> dict[str, object]:
        """The fields of the `SourceSpec`, with those that only lines have."""
        return {**super().source_fields(), "max_malformed": self.max_malformed}

    @property
    def source_format(self) -> object:
        """The parameter `format`."""
        return self.format
