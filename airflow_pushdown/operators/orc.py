"""The operator that scans ORC files lazily: filter columns first, the others only where a row survives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.operators.base import all_renderers, all_template_fields
from airflow_pushdown.operators.files import PushdownFilesOperator
from airflow_pushdown.operators.values import naming_parameters, shown
from airflow_pushdown.parameters import DEFAULT_MIN_SEEK_SIZE, LAZY_ORC, SOURCE_FORMATS, SPARK_USES_SELECTED
from pushdown_spark.contract import ErrorCode, OrcOptions, ReaderChoice

_AUTO = "auto"


class LazyOrcScanOperator(PushdownFilesOperator):
    """Scan ORC files and read of each stripe first what the predicate needs, and the rest only where rows match.

    All parameters are keyword-only and may be mapped with `.partial().expand()`. On top of those below, every parameter
    of `SparkSubmitOperator` is taken with its name and meaning. The task returns what was pushed down, what was left to
    Spark, and which stripes, row groups and bytes were read; it pushes the same to XCom when the job fails.

    :param path: Files, directories or globs to scan, local or on an object store. (templated)
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
    :param implicit_names: Other names for implicit columns, by their own: filename, filepath, fqn, suffix, modified,
        size, and `dir` for the prefix of the directories. (templated)
    :param implicit_columns: Further implicit columns: import paths `package.module:Class` of classes derived from
        `ImplicitColumns`. (templated)
    :param sarg_to_filter: Whether Spark's ORC reader filters rows before it reads the other columns, as ours always
        does; without it reader `auto` decides. (templated)
    :param use_selected: Whether the rows that the filter selects are taken as they are where it is exact, with no
        second look by Spark; needs reader `pushdown`. (templated)
    :param partial_reads: How many separate reads of the other columns a stripe may have before one read to its end, 0
        for one read from the first match on; `auto` decides by the gaps between matches. Our reader only. (templated)
    :param min_seek_size: Gaps of up to this many bytes between two reads are read too, since a seek costs more. Our
        reader only. (templated)
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

    @property
    def source_format(self) -> object:
        """Always orc."""
        return SOURCE_FORMATS[LAZY_ORC]

    def orc_options(self) -> OrcOptions:
        """The ORC switches; raises `ConfigError` where one is wrong, or cannot be had with the reader."""
        with naming_parameters({}):
            options = OrcOptions.model_validate(
                {
                    "sarg_to_filter": self.resolved_switch("sarg_to_filter", self.sarg_to_filter),
                    "use_selected": self.use_selected,
                    "partial_reads": _separate_reads(self.partial_reads),
                    "min_seek_size": self.min_seek_size,
                }
            )
        if options.use_selected and self.reader != ReaderChoice.PUSHDOWN:
            raise config_error(
                f"use_selected=True needs reader='pushdown', not {self.reader!r} ({SPARK_USES_SELECTED.reason})",
                ErrorCode.UNSAFE_SETTING,
            )
        return options


def _separate_reads(value: object) -> int | None:
    """The parameter `partial_reads` as a number, None where it is decided by the gaps."""
    if value == _AUTO:
        return None
    try:
        return TypeAdapter(NonNegativeInt).validate_python(value)
    except ValidationError as error:
        raise config_error(f"partial_reads: give a number of reads, 0 or more, or 'auto'{shown(value)}") from error
