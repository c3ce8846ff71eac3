"""The parameter table: every operator parameter with its type, default, documentation and Spark keys.

Tests compare the signatures, the docstrings and the generated pages of the operators with this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pushdown_spark.contract import JoinOptions, OrcOptions, RemoteSourceSpec

SCAN = "PushdownScanOperator"
LAZY_ORC = "LazyOrcScanOperator"
MULTI_SCAN = "PushdownMultiScanOperator"
JOIN = "PushdownJoinOperator"
REMOTE = "RemoteScanOperator"
FILES = (SCAN, LAZY_ORC)
OPERATORS = (*FILES, MULTI_SCAN, REMOTE, JOIN)

SOURCE_FORMATS: Mapping[str, str] = {LAZY_ORC: "orc", REMOTE: "remote"}
"""The source format of operators that have only one."""

DEFAULT_MIN_SEEK_SIZE = OrcOptions().min_seek_size
DEFAULT_DP_THRESHOLD = JoinOptions().dp_threshold
DEFAULT_FETCH_SIZE: int = RemoteSourceSpec.model_fields["fetch_size"].default


@dataclass(frozen=True)
class Parameter:
    """One operator parameter.

    `default` is the effective default. A mapped parameter with the default None sets no key. `keys` are the Spark keys
    that the parameter sets for every format, `format_keys` those that it sets for one source format only.
    `switch_values` maps a key that is not boolean to its values for False and True. `replaced_keys` are keys that the
    parameter replaces and never sets. `secret` marks a parameter that refers to credentials. `attribute` is the
    operator's attribute if it cannot have the parameter's name. `renderer` is the renderer of the templated value in
    Airflow's web pages.
    """

    name: str
    type: str
    default: object
    doc: str
    operators: tuple[str, ...] = OPERATORS
    keys: tuple[str, ...] = ()
    format_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    switch_values: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    replaced_keys: tuple[str, ...] = ()
    required: bool = False
    templated: bool = True
    secret: bool = False
    attribute: str = ""
    renderer: str | None = None

    @property
    def field(self) -> str:
        """The operator's attribute, which is also the name of the template field."""
        return self.attribute or self.name

    @property
    def mapped(self) -> bool:
        """Whether the parameter sets Spark keys."""
        return bool(self.keys or self.format_keys)

    @property
    def signature_default(self) -> object:
        """The default in the operator's signature. It is None for mapped parameters, to recognize explicit values."""
        return None if self.mapped else self.default

    def spark_keys(self, source_format: str | None = None) -> tuple[str, ...]:
        """Return the Spark keys that are set for a source format, or for any format if it is None."""
        if source_format is not None:
            return self.keys + self.format_keys.get(source_format, ())
        return self.keys + tuple(key for keys in self.format_keys.values() for key in keys)


PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "source_conn_id",
        "str",
        None,
        "Airflow connection of type postgres, mysql or sqlite, with the usual extras. The credentials reach the job "
        "in a private file.",
        operators=(REMOTE,),
        required=True,
        secret=True,
    ),
    Parameter(
        "sources",
        "dict[str, dict[str, object]]",
        None,
        "Sources by the names that the query uses. A file source has `path` and `format`, and optionally `schema`, "
        "`options`, `reader`, `filter_pushdown`, `orc`, `on_schema_conflict`, `on_missing_column`, `max_malformed`, "
        "`implicit_names` and `implicit_columns`. A table of Spark's catalog has `table`, and optionally `options`, "
        "`reader`, `filter_pushdown`, `orc`, `implicit_names` and `implicit_columns`. A database source has "
        "`source_conn_id` and `table` or `query`, and optionally the read parameters of RemoteScanOperator.",
        operators=(JOIN,),
        required=True,
        renderer="json",
    ),
    Parameter(
        "scans",
        "dict[str, dict[str, object]]",
        None,
        "Scans by name. Each has a source, declared like those of PushdownJoinOperator: `path` and `format` with "
        "`schema`, `options`, `reader`, `filter_pushdown`, `orc`, `on_schema_conflict`, `on_missing_column`, "
        "`max_malformed`, `implicit_names` and `implicit_columns`; or `table`; or `source_conn_id` and `table` or "
        "`query`. Each may have `columns`, `where`, `data_interval`, `limit`, and the output parameters of this "
        "operator, whose values are the defaults.",
        operators=(MULTI_SCAN,),
        required=True,
        renderer="json",
    ),
    Parameter(
        "query",
        "str",
        None,
        "The query over the sources, in Spark SQL.",
        operators=(JOIN,),
        required=True,
        renderer="sql",
    ),
    Parameter(
        "join_reorder",
        "bool",
        True,
        "Whether to reorder inner joins by estimated cost and to broadcast small relations.",
        operators=(JOIN,),
    ),
    Parameter(
        "join_reorder_dp_threshold",
        "int",
        DEFAULT_DP_THRESHOLD,
        "Maximum number of relations for exhaustive enumeration of join orders. Larger joins use a greedy search.",
        operators=(JOIN,),
    ),
    Parameter(
        "join_reorder_min_bytes",
        "int | None",
        None,
        "Minimum total size of the sources in bytes for join reordering. 0 always reorders if that is cheaper. By "
        "default, joins keep the written order if collecting statistics would take more than a twentieth of the "
        "estimated query time.",
        operators=(JOIN,),
    ),
    Parameter(
        "star_schema_detection",
        "bool",
        False,
        "Whether to detect a fact table and its dimensions and to join them first.",
        operators=(JOIN,),
    ),
    Parameter(
        "path",
        "str | list[str] | None",
        None,
        "Files, directories or globs to scan, on a local file system or an object store. Give either `path` or "
        "`table`.",
        renderer="json",
        operators=FILES,
    ),
    Parameter(
        "table",
        "str | None",
        None,
        "Table or view of Spark's catalog to scan, as `table`, `database.table` or `catalog.database.table`. The "
        "catalog knows its format and schema.",
        operators=FILES,
    ),
    Parameter(
        "format",
        "str | None",
        None,
        "Format of the files: json, csv, avro, orc, parquet, text, iceberg or delta.",
        operators=(SCAN,),
    ),
    Parameter(
        "schema",
        "str | None",
        None,
        "Schema of the files as Spark DDL. By default, the schema is inferred from the files.",
        renderer="sql",
        operators=FILES,
    ),
    Parameter(
        "options",
        "dict[str, object] | None",
        None,
        "Reader options with Spark's names (header, sep, mode, dateFormat, mergeSchema and so on).",
        renderer="json",
        operators=FILES,
    ),
    Parameter(
        "columns",
        "list[str] | None",
        None,
        "Columns to return: names, struct members (a.b, a(b, c)), array elements (a[0]), map entries (a['k']), `*`, "
        "and the implicit columns filename, filepath, fqn, suffix, modified, size and dir0 to dirN. Each may have an "
        "alias (`AS name`). By default, all columns of the schema.",
        renderer="json",
        operators=FILES,
    ),
    Parameter(
        "where",
        "str | None",
        None,
        "Predicate in Spark SQL. The scan returns the rows for which it is true.",
        renderer="sql",
        operators=(*FILES, REMOTE),
    ),
    Parameter(
        "data_interval",
        "str | None",
        None,
        "Timestamp or date column. Adds the predicate for the run's data interval, start included and end excluded. "
        "Fails if the interval is empty, as it is with Airflow's default timetable for `@daily` and cron strings.",
        operators=(*FILES, REMOTE),
    ),
    Parameter(
        "limit",
        "int | None",
        None,
        "Maximum number of rows. The scan stops when it has enough rows.",
        operators=(*FILES, REMOTE),
    ),
    Parameter(
        "filter_pushdown",
        "bool | None",
        True,
        "Whether the reader evaluates the predicate before it builds rows. Applies to Spark's readers and to the "
        "pushdown readers.",
        format_keys={
            "json": ("spark.sql.json.filterPushdown.enabled",),
            "csv": ("spark.sql.csv.filterPushdown.enabled",),
            "avro": ("spark.sql.avro.filterPushdown.enabled",),
            "orc": ("spark.sql.orc.filterPushdown",),
            "parquet": ("spark.sql.parquet.filterPushdown",),
        },
        operators=FILES,
    ),
    Parameter(
        "reader",
        "str",
        "auto",
        "Reader to use: `spark` for Spark's own reader, `pushdown` for the pushdown reader, `auto` to choose by "
        "estimated cost.",
        operators=FILES,
    ),
    Parameter(
        "on_schema_conflict",
        "str",
        "error",
        "Action if two files have types for one column that no common type holds without loss. `error` fails. `widen`"
        " applies Spark's type coercion. `null` keeps the type of the most files and returns NULL for the others.",
        operators=FILES,
    ),
    Parameter(
        "on_missing_column",
        "str",
        "null",
        "Action if a file lacks a column that the schema or another file has: `null` returns NULL, `error` fails.",
        operators=FILES,
    ),
    Parameter(
        "max_malformed",
        "int | None",
        None,
        "Maximum number of malformed JSON or CSV lines before the task fails. Spark's reader then parses every line, "
        "and the report shows the number of malformed lines.",
        operators=(SCAN,),
    ),
    Parameter(
        "implicit_names",
        "dict[str, str] | None",
        None,
        "New names of implicit columns, by their original names: filename, filepath, fqn, suffix, modified, size, and"
        " `dir` for the prefix of the directory columns.",
        operators=FILES,
        renderer="json",
    ),
    Parameter(
        "implicit_columns",
        "list[str] | None",
        None,
        "Additional implicit columns, as import paths `package.module:Class` of subclasses of `ImplicitColumns`.",
        operators=FILES,
        renderer="json",
    ),
    Parameter(
        "sarg_to_filter",
        "bool | None",
        None,
        "Whether Spark's ORC reader filters rows before it reads the other columns. The pushdown reader always does. "
        "By default, reader `auto` decides.",
        operators=(LAZY_ORC,),
        keys=("spark.hadoop.orc.sarg.to.filter",),
    ),
    Parameter(
        "use_selected",
        "bool",
        False,
        "Whether Spark skips its own evaluation of an exact filter. Needs reader `pushdown`.",
        operators=(LAZY_ORC,),
        replaced_keys=("spark.hadoop.orc.filter.use.selected",),
    ),
    Parameter(
        "partial_reads",
        "int | str",
        "auto",
        "Maximum number of separate reads of the other columns in a stripe, after which one read continues to its "
        "end. 0 means one read from the first match on. `auto` decides by the gaps between matches. Pushdown reader "
        "only.",
        operators=(LAZY_ORC,),
    ),
    Parameter(
        "min_seek_size",
        "int",
        DEFAULT_MIN_SEEK_SIZE,
        "Gaps of up to this many bytes between two reads are read, because a seek costs more. Pushdown reader only.",
        operators=(LAZY_ORC,),
    ),
    Parameter(
        "table",
        "str | None",
        None,
        "Table to read, as `schema.table` or `table`. Quote parts with dots in double quotes. Give either `table` or "
        "`query`.",
        operators=(REMOTE,),
    ),
    Parameter(
        "query",
        "str | None",
        None,
        "Query to read instead of a table, in the SQL of the database.",
        operators=(REMOTE,),
        renderer="sql",
    ),
    Parameter(
        "columns",
        "list[str] | None",
        None,
        "Columns to return, each with an optional alias (`AS name`), or `*` for all. By default, all columns of the "
        "table.",
        renderer="json",
        operators=(REMOTE,),
    ),
    Parameter(
        "filter_pushdown",
        "bool",
        True,
        "Whether the database evaluates the conjuncts that have identical semantics there. Otherwise only Spark "
        "filters.",
        operators=(REMOTE,),
    ),
    Parameter(
        "partition_column",
        "str | None",
        None,
        "Numeric or date column whose value ranges divide the table into partitions. By default, PostgreSQL tables "
        "are divided by pages and other tables are read in one partition.",
        operators=(REMOTE,),
    ),
    Parameter(
        "num_partitions",
        "int | None",
        None,
        "Number of partitions, each with its own connection. By default, the planner estimates it from the size of "
        "the result.",
        operators=(REMOTE,),
    ),
    Parameter(
        "lower_bound",
        "int | str | None",
        None,
        "Start of the value ranges of `partition_column`. By default, it comes from the database's statistics or the "
        "smallest value. Rows outside the bounds are still read.",
        operators=(REMOTE,),
    ),
    Parameter(
        "upper_bound",
        "int | str | None",
        None,
        "End of the value ranges of `partition_column`, like `lower_bound`.",
        operators=(REMOTE,),
    ),
    Parameter(
        "consistent",
        "bool",
        True,
        "Whether all partitions read the same snapshot of the table. PostgreSQL exports a snapshot. Other databases "
        "read the table in one partition.",
        operators=(REMOTE,),
    ),
    Parameter(
        "transport",
        "str",
        "auto",
        "Transport of the rows: `jdbc` for Spark's JDBC source, which needs the driver's jar on the class path, "
        "`arrow` for Python workers without a jar, or `auto` for the faster one that is available.",
        operators=(REMOTE,),
    ),
    Parameter(
        "fetch_size",
        "int",
        DEFAULT_FETCH_SIZE,
        "Number of rows that a connection fetches at a time.",
        operators=(REMOTE,),
    ),
    Parameter(
        "statement_timeout",
        "float | None",
        None,
        "Seconds after which the database statement is canceled and the task fails.",
        operators=(REMOTE,),
    ),
    Parameter(
        "wide_numbers",
        "str",
        "error",
        "Action for numeric columns that may have more than 38 digits: `error` fails on the first number that does "
        "not fit, `text` returns strings.",
        operators=(REMOTE,),
    ),
    Parameter(
        "zero_dates_as_null",
        "bool",
        False,
        "Whether MySQL's zero dates (2024-00-00) become NULL. By default, they are an error.",
        operators=(REMOTE,),
    ),
    Parameter(
        "output",
        "str | None",
        None,
        "Directory for the rows. Without it, the rows are only counted.",
        operators=(*FILES, REMOTE, JOIN),
        attribute="output_path",
    ),
    Parameter(
        "output",
        "str | None",
        None,
        "Directory in which each scan without an `output` or `output_table` of its own writes a directory with its "
        "name. Without any output, the rows of a scan are only counted.",
        operators=(MULTI_SCAN,),
        attribute="output_path",
    ),
    Parameter(
        "output_conn_id",
        "str | None",
        None,
        "Airflow connection of type postgres, mysql or sqlite, whose database has `output_table`. The credentials "
        "reach the job in a private file. Without it, `output_table` is a table of Spark's catalog.",
        secret=True,
    ),
    Parameter(
        "output_table",
        "str | None",
        None,
        "Table for the rows instead of `output`, as `schema.table` or `table`. It is created if it is missing. It is "
        "in the database of `output_conn_id`, or in Spark's catalog.",
    ),
    Parameter(
        "replace_where",
        "str | None",
        None,
        "Predicate in Spark SQL. In mode `overwrite_partitions`, the rows of `output_table` for which it is true are "
        "replaced, and every new row must satisfy it.",
        renderer="sql",
    ),
    Parameter(
        "merge_keys",
        "list[str] | None",
        None,
        "Columns that identify a row of `output_table` in mode `merge`.",
        renderer="json",
    ),
    Parameter(
        "output_format",
        "str",
        "parquet",
        "Format of the output: parquet, orc, avro, json, csv, text or xml. For a new table in Spark's catalog also "
        "iceberg or delta.",
    ),
    Parameter(
        "output_mode",
        "str",
        "errorifexists",
        "Action if the output exists: `overwrite` replaces it, `overwrite_partitions` replaces the partitions that "
        "the run writes or the rows of `replace_where`, `merge` replaces the rows of a table with the same key, "
        "`append` adds rows, `ignore` writes nothing, `errorifexists` fails.",
    ),
    Parameter(
        "output_options",
        "dict[str, object] | None",
        None,
        "Writer options with Spark's names (compression and so on).",
        renderer="json",
    ),
    Parameter("partition_by", "list[str] | None", None, "Partition columns of the output.", renderer="json"),
    Parameter(
        "checks",
        "dict[str, object] | None",
        None,
        "Conditions on the rows before they are committed: `min_rows`, `max_rows`, `not_null` (columns) and `unique` "
        "(columns, or lists of columns that form a key). If a check fails, the task fails and the output stays as it "
        "was.",
        renderer="json",
    ),
    Parameter(
        "nested_pruning",
        "bool | None",
        True,
        "Whether to read only the required struct members and to push predicates on struct members.",
        keys=(
            "spark.sql.optimizer.nestedSchemaPruning.enabled",
            "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources",
        ),
        switch_values={"spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": ("", "parquet,orc")},
    ),
    Parameter(
        "source_conn_id",
        "str | None",
        None,
        "Airflow connection of type aws, wasb, adls or google_cloud_platform with the credentials of the object store. "
        "They reach the job in a private file.",
        operators=(*FILES, MULTI_SCAN, JOIN),
        secret=True,
    ),
    Parameter(
        "spark_home",
        "str | None",
        None,
        "Spark installation whose bin/spark-submit starts the job. By default, it is located next to spark_python, "
        "then in SPARK_HOME, then on PATH.",
    ),
    Parameter(
        "spark_python",
        "str | None",
        None,
        "Python interpreter of the Spark environment. By default, AIRFLOW_PUSHDOWN_SPARK_PYTHON or PYSPARK_PYTHON of "
        "the worker.",
    ),
    Parameter(
        "exchange_dir",
        "str | None",
        None,
        "Directory or URI (s3a, hdfs, gs, abfss) that both the worker and the driver can access, for the job spec and "
        "the result in deploy mode cluster. By default, the extra exchange-dir of the Spark connection.",
    ),
    Parameter(
        "exchange_conn_id",
        "str | None",
        None,
        "Airflow connection with which the worker accesses exchange_dir, by default the extra exchange-conn-id of the "
        "Spark connection. The driver uses the credentials of the cluster.",
    ),
    Parameter(
        "deferrable",
        "bool | None",
        None,
        "Whether the task gives back its worker slot while its driver runs on a cluster. Needs deploy mode cluster "
        "and a triggerer. By default, Airflow's setting [operators] default_deferrable, in deploy mode cluster.",
        templated=False,
    ),
    Parameter(
        "class_archives",
        "str | None",
        None,
        "Directory on the worker for class data sharing archives, which shorten the start of Spark's JVM, or `off`. "
        "The first task creates the archive. By default, AIRFLOW_PUSHDOWN_CLASS_ARCHIVES of the worker, otherwise a "
        "private directory where the first task records its own classes. Not for deploy mode cluster.",
    ),
    Parameter(
        "assets",
        "bool",
        False,
        "Whether the source files become inlets of the task and the output an outlet. The asset events contain rows "
        "and bytes. Not for mapped tasks.",
        templated=False,
    ),
    Parameter("name", "str", "{{ ti.dag_id }}.{{ ti.task_id }}", "Name of the Spark application."),
)


def parameters_of(operator: str) -> tuple[Parameter, ...]:
    """Return the parameters of one operator, in the order of the table."""
    return tuple(parameter for parameter in PARAMETERS if operator in parameter.operators)


def template_fields_for(operator: str) -> tuple[str, ...]:
    """Return the templated attributes of an operator."""
    return tuple(parameter.field for parameter in parameters_of(operator) if parameter.templated)


def renderers_for(operator: str) -> dict[str, str]:
    """Return the renderers of an operator's templated attributes."""
    renderers = ((parameter.field, parameter.renderer) for parameter in parameters_of(operator) if parameter.templated)
    return {name: renderer for name, renderer in renderers if renderer}
