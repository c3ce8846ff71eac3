"""The one table from operator parameter to Spark key; signature, documentation and tests follow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pushdown_spark.contract import JoinOptions, OrcOptions, RemoteSourceSpec

SCAN = "PushdownScanOperator"
LAZY_ORC = "LazyOrcScanOperator"
JOIN = "PushdownJoinOperator"
REMOTE = "RemoteScanOperator"
FILES = (SCAN, LAZY_ORC)
OPERATORS = (*FILES, REMOTE, JOIN)

SOURCE_FORMATS: Mapping[str, str] = {LAZY_ORC: "orc", REMOTE: "remote"}
"""Operators whose sources all have one format."""

DEFAULT_MIN_SEEK_SIZE = OrcOptions().min_seek_size
DEFAULT_DP_THRESHOLD = JoinOptions().dp_threshold
DEFAULT_FETCH_SIZE: int = RemoteSourceSpec.model_fields["fetch_size"].default


class ParameterConflictError(ValueError):
    """A `conf` entry contradicts a parameter that was given explicitly, or a setting the jobs cannot do without."""


class UnsafeSettingError(ValueError):
    """A setting with which Spark would return wrong rows."""


@dataclass(frozen=True)
class Parameter:
    """One operator parameter.

    `default` is what holds when nothing is given; None for a mapped parameter leaves its keys alone. `keys` are the
    Spark keys it sets for every format, `format_keys` those it sets for one source format only; `texts` says what
    switches a key off and on that is no plain boolean. `replaced_keys` are keys that it stands for and never sets.
    `secret` marks a parameter that leads to credentials, which travel in a private file. `attribute` is the operator's
    attribute where it cannot have the parameter's name. `renderer` is how the web page of a task shows the rendered
    value.
    """

    name: str
    type: str
    default: object
    doc: str
    operators: tuple[str, ...] = OPERATORS
    keys: tuple[str, ...] = ()
    format_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    replaced_keys: tuple[str, ...] = ()
    required: bool = False
    templated: bool = True
    secret: bool = False
    attribute: str = ""
    renderer: str | None = None

    @property
    def field(self) -> str:
        """Name of the operator's attribute, which is also its name as a template field."""
        return self.attribute or self.name

    @property
    def mapped(self) -> bool:
        """Whether the parameter sets Spark keys."""
        return bool(self.keys or self.format_keys)

    @property
    def signature_default(self) -> object:
        """Default in the operator's signature: None for mapped parameters, so that "not given" can be told apart."""
        return None if self.mapped else self.default

    def text_for(self, key: str, given: object) -> str | None:
        """What `key` is set to when the parameter is `given`, None meaning that it is not given, or not set."""
        value = self.default if given is None else given
        if key in self.texts:
            return self.texts[key][bool(value)]
        return serialise(value)

    def spark_keys(self, source_format: str | None = None) -> tuple[str, ...]:
        """Spark keys set for a source of `source_format`, or for any source when it is None."""
        if source_format is not None:
            return self.keys + self.format_keys.get(source_format, ())
        return self.keys + tuple(key for keys in self.format_keys.values() for key in keys)


@dataclass(frozen=True)
class FixedSetting:
    """A Spark key that is set for every job whatever the parameters say."""

    key: str
    value: str
    reason: str


@dataclass(frozen=True)
class UnsafeSetting:
    """A Hadoop key that must not be `value` where files of `source_format` are read.

    It may come as a reader option under its own name, or as a `conf` entry behind `spark.hadoop.`.
    """

    hadoop_key: str
    value: str
    source_format: str
    reason: str

    @property
    def key(self) -> str:
        """The key as `conf` spells it."""
        return f"spark.hadoop.{self.hadoop_key}"


PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "source_conn_id",
        "str",
        None,
        "Airflow connection of type postgres, mysql or sqlite to the database, with its usual extras; it reaches the "
        "job in a private file.",
        operators=(REMOTE,),
        required=True,
        secret=True,
    ),
    Parameter(
        "sources",
        "dict[str, dict[str, object]]",
        None,
        "Sources by the names that the query has for them; of each `path`, `format`, and as wanted `schema`, "
        "`options`, `reader`, `filter_pushdown` and `orc`; of a remote table `source_conn_id`, `table` or `query`, and "
        "as wanted the other parameters of RemoteScanOperator that say how it is read.",
        operators=(JOIN,),
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
        "Whether inner joins are run in the order that is cheapest by what is known of the sources, and small "
        "relations are broadcast.",
        operators=(JOIN,),
    ),
    Parameter(
        "join_reorder_dp_threshold",
        "int",
        DEFAULT_DP_THRESHOLD,
        "Up to how many relations all orders are compared; beyond, one is built step by step.",
        operators=(JOIN,),
    ),
    Parameter(
        "join_reorder_min_bytes",
        "int | None",
        None,
        "Sources with fewer bytes altogether are joined as written, 0 for none; if not given, those are where looking "
        "for an order would take more than a twentieth of the query's time by estimate.",
        operators=(JOIN,),
    ),
    Parameter(
        "star_schema_detection",
        "bool",
        False,
        "Whether a table of facts and its dimensions are recognised and joined before everything else.",
        operators=(JOIN,),
    ),
    Parameter(
        "path",
        "str | list[str]",
        None,
        "Files, directories or globs to scan, local or on an object store.",
        required=True,
        renderer="json",
        operators=FILES,
    ),
    Parameter(
        "format",
        "str",
        None,
        "Format of the files: json, csv, avro, orc, parquet or text.",
        operators=(SCAN,),
        required=True,
    ),
    Parameter(
        "schema",
        "str | None",
        None,
        "Schema of the files as Spark DDL; without it Spark infers one.",
        renderer="sql",
        operators=FILES,
    ),
    Parameter(
        "options",
        "dict[str, object] | None",
        None,
        "Reader options under Spark's names (header, sep, mode, dateFormat, mergeSchema and so on).",
        renderer="json",
        operators=FILES,
    ),
    Parameter(
        "columns",
        "list[str] | None",
        None,
        "Columns to return: names, struct members (a.b, a(b, c)), array elements (a[0]), map entries (a['k']), `*`, "
        "and the implicit columns filename, filepath, fqn, suffix, modified, size and dir0 to dirN, each with "
        "`AS name` if wanted; without it all columns of the schema.",
        renderer="json",
        operators=FILES,
    ),
    Parameter(
        "where",
        "str | None",
        None,
        "Predicate in Spark SQL; only rows it keeps are returned.",
        renderer="sql",
        operators=(*FILES, REMOTE),
    ),
    Parameter(
        "limit",
        "int | None",
        None,
        "Return at most this many rows and stop reading once they are found.",
        operators=(*FILES, REMOTE),
    ),
    Parameter(
        "filter_pushdown",
        "bool | None",
        True,
        "Whether the predicate reaches the files before rows are built, in Spark's readers and in ours.",
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
        "Which reader to use: `spark` for Spark's own, `pushdown` for ours, `auto` to decide from a sample.",
        operators=FILES,
    ),
    Parameter(
        "on_schema_conflict",
        "str",
        "error",
        "What to do where files hold a column in types that no type holds without loss: `error`, `widen` as far as "
        "Spark's coercion goes, or `null` for the files whose type fewer files have.",
        operators=FILES,
    ),
    Parameter(
        "on_missing_column",
        "str",
        "null",
        "What a column is in a file that lacks it though the schema or another file has it: `null`, or an `error`.",
        operators=FILES,
    ),
    Parameter(
        "max_malformed",
        "int | None",
        None,
        "How many malformed lines of JSON or CSV the task may meet before it fails; every line is then parsed by "
        "Spark's reader, and the report has their number.",
        operators=(SCAN,),
    ),
    Parameter(
        "implicit_names",
        "dict[str, str] | None",
        None,
        "Other names for implicit columns, by their own: filename, filepath, fqn, suffix, modified, size, and `dir` "
        "for the prefix of the directories.",
        operators=FILES,
        renderer="json",
    ),
    Parameter(
        "implicit_columns",
        "list[str] | None",
        None,
        "Further implicit columns: import paths `package.module:Class` of classes derived from `ImplicitColumns`.",
        operators=FILES,
        renderer="json",
    ),
    Parameter(
        "sarg_to_filter",
        "bool | None",
        None,
        "Whether Spark's ORC reader filters rows before it reads the other columns, as ours always does; without it "
        "reader `auto` decides.",
        operators=(LAZY_ORC,),
        keys=("spark.hadoop.orc.sarg.to.filter",),
    ),
    Parameter(
        "use_selected",
        "bool",
        False,
        "Whether the rows that the filter selects are taken as they are where it is exact, with no second look by "
        "Spark; needs reader `pushdown`.",
        operators=(LAZY_ORC,),
        replaced_keys=("spark.hadoop.orc.filter.use.selected",),
    ),
    Parameter(
        "partial_reads",
        "int | str",
        "auto",
        "How many separate reads of the other columns a stripe may have before one read to its end, 0 for one read "
        "from the first match on; `auto` decides by the gaps between matches. Our reader only.",
        operators=(LAZY_ORC,),
    ),
    Parameter(
        "min_seek_size",
        "int",
        DEFAULT_MIN_SEEK_SIZE,
        "Gaps of up to this many bytes between two reads are read too, since a seek costs more. Our reader only.",
        operators=(LAZY_ORC,),
    ),
    Parameter(
        "table",
        "str | None",
        None,
        "The table to read, `schema.table` or `table`; parts with dots stand in double quotes. Give this or `query`.",
        operators=(REMOTE,),
    ),
    Parameter(
        "query",
        "str | None",
        None,
        "A query in the database's own SQL to read in place of a table.",
        operators=(REMOTE,),
        renderer="sql",
    ),
    Parameter(
        "columns",
        "list[str] | None",
        None,
        "Columns to return, each with `AS name` if wanted, `*` for all; without it all columns of the table.",
        renderer="json",
        operators=(REMOTE,),
    ),
    Parameter(
        "filter_pushdown",
        "bool",
        True,
        "Whether the database gets the part of the predicate that means the same there; else Spark alone filters.",
        operators=(REMOTE,),
    ),
    Parameter(
        "partition_column",
        "str | None",
        None,
        "Number or date by whose ranges the table is read in partitions; without it PostgreSQL's tables are cut by "
        "pages and others read in one piece.",
        operators=(REMOTE,),
    ),
    Parameter(
        "num_partitions",
        "int | None",
        None,
        "How many partitions, each a connection; without it the size of the answer decides.",
        operators=(REMOTE,),
    ),
    Parameter(
        "lower_bound",
        "int | str | None",
        None,
        "From where on the ranges of `partition_column` are cut; without it the database's statistics or its smallest "
        "value tell. No row is left out.",
        operators=(REMOTE,),
    ),
    Parameter(
        "upper_bound",
        "int | str | None",
        None,
        "Up to where the ranges of `partition_column` are cut, like `lower_bound`.",
        operators=(REMOTE,),
    ),
    Parameter(
        "consistent",
        "bool",
        True,
        "Whether all partitions see the table at one moment: through an exported snapshot in PostgreSQL, elsewhere by "
        "reading it in one piece.",
        operators=(REMOTE,),
    ),
    Parameter(
        "transport",
        "str",
        "auto",
        "What carries the rows: `jdbc`, Spark's own source with the driver's jar on its class path, `arrow`, Python "
        "workers without a jar, or `auto`, the faster of them that is possible.",
        operators=(REMOTE,),
    ),
    Parameter(
        "fetch_size",
        "int",
        DEFAULT_FETCH_SIZE,
        "Rows that a connection holds at a time.",
        operators=(REMOTE,),
    ),
    Parameter(
        "statement_timeout",
        "float | None",
        None,
        "Seconds after which a statement is ended and the task fails.",
        operators=(REMOTE,),
    ),
    Parameter(
        "wide_numbers",
        "str",
        "error",
        "What numbers become that may have more than 38 digits: an `error` where one has, or `text`.",
        operators=(REMOTE,),
    ),
    Parameter(
        "zero_dates_as_null",
        "bool",
        False,
        "Whether dates that only MySQL has (2024-00-00) are NULL; else they are an error.",
        operators=(REMOTE,),
    ),
    Parameter(
        "output",
        "str | None",
        None,
        "Where to write the rows; without it they are only counted.",
        attribute="output_path",
    ),
    Parameter("output_format", "str", "parquet", "Format to write: parquet, orc, avro, json, csv, text or xml."),
    Parameter(
        "output_mode",
        "str",
        "errorifexists",
        "What to do when the output exists: `overwrite` replaces all of it, `overwrite_partitions` the partitions that "
        "the run produces, `append` adds to it; `ignore` and `errorifexists` leave it.",
    ),
    Parameter(
        "output_options",
        "dict[str, object] | None",
        None,
        "Writer options under Spark's names (compression and so on).",
        renderer="json",
    ),
    Parameter(
        "partition_by", "list[str] | None", None, "Columns that become directories of the output.", renderer="json"
    ),
    Parameter(
        "checks",
        "dict[str, object] | None",
        None,
        "What must hold for the rows before they are committed: `min_rows`, `max_rows`, `not_null` (columns) and "
        "`unique` (columns, or lists of columns that are a key together). Otherwise the task fails and leaves the "
        "output as it was.",
        renderer="json",
    ),
    Parameter(
        "nested_pruning",
        "bool | None",
        True,
        "Whether only the struct members that are asked for are read, and predicates on them are pushed.",
        keys=(
            "spark.sql.optimizer.nestedSchemaPruning.enabled",
            "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources",
        ),
        texts={"spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": ("", "parquet,orc")},
    ),
    Parameter(
        "source_conn_id",
        "str | None",
        None,
        "Airflow connection of type aws with credentials for the object store; they reach the job in a private file.",
        operators=(*FILES, JOIN),
        secret=True,
    ),
    Parameter(
        "spark_home",
        "str | None",
        None,
        "Spark installation whose bin/spark-submit starts the job; else it is looked for beside spark_python, in "
        "SPARK_HOME and on PATH.",
    ),
    Parameter(
        "spark_python",
        "str | None",
        None,
        "Python of the Spark environment; else AIRFLOW_PUSHDOWN_SPARK_PYTHON or PYSPARK_PYTHON of the worker.",
    ),
    Parameter(
        "exchange_dir",
        "str | None",
        None,
        "Directory for the job's description and result that worker and driver both see, for deploy mode cluster.",
    ),
    Parameter(
        "class_archives",
        "str | None",
        None,
        "Directory on the worker for archives of Spark's classes, with which jobs start a third sooner; the first "
        "task makes one, in up to a minute. Else AIRFLOW_PUSHDOWN_CLASS_ARCHIVES of the worker; not for deploy mode "
        "cluster.",
    ),
    Parameter(
        "assets",
        "bool",
        False,
        "Whether the files that are read become inlets of the task and the output an outlet, whose asset events tell "
        "rows and bytes; not for mapped tasks.",
        templated=False,
    ),
    Parameter("name", "str", "{{ ti.dag_id }}.{{ ti.task_id }}", "Name of the Spark application."),
)

FIXED_SETTINGS: tuple[FixedSetting, ...] = (
    FixedSetting(
        "spark.sql.python.filterPushdown.enabled",
        "true",
        "with it off, Spark refuses our Python data sources, which take filters",
    ),
)

SPARK_USES_SELECTED = UnsafeSetting(
    "orc.filter.use.selected",
    "true",
    "orc",
    "measured on Spark 4.3.0: with orc.filter.use.selected Spark's ORC reader returns no rows at all",
)
UNSAFE_SETTINGS: tuple[UnsafeSetting, ...] = (SPARK_USES_SELECTED,)

SUBMIT_DEFAULTS: Mapping[str, str] = {"spark.log.level": "WARN"}
"""Given to spark-submit unless `conf` has the key: at INFO the report drowns in Spark's own lines."""


def rows_for(operator: str) -> tuple[Parameter, ...]:
    """The rows of one operator, in the order of the table."""
    return tuple(row for row in PARAMETERS if operator in row.operators)


def template_fields_for(operator: str) -> tuple[str, ...]:
    """Attributes of `operator` that the table says are templated."""
    return tuple(row.field for row in rows_for(operator) if row.templated)


def renderers_for(operator: str) -> dict[str, str]:
    """How rendered fields of `operator` are shown, by attribute."""
    return {row.field: row.renderer for row in rows_for(operator) if row.templated and row.renderer}


def serialise(value: object) -> str | None:
    """`value` as Spark wants it: booleans in lower case, everything else as text, None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def serialise_all(values: Mapping[str, object] | None) -> dict[str, str]:
    """Every entry of `values` as Spark wants it; entries that are None are dropped."""
    texts = ((str(key), serialise(value)) for key, value in (values or {}).items())
    return {key: text for key, text in texts if text is not None}


def session_conf(
    operator: str, given: Mapping[str, object], conf: Mapping[str, str], source_formats: frozenset[str]
) -> dict[str, str]:
    """Spark keys that the job sets on its session.

    `given` holds the values of mapped parameters by name, None where not given; `conf` the user's own entries. An entry
    that agrees with the parameter, or meets one that was not given, stays as it is. Raises `ParameterConflictError`,
    naming parameter and key, where an entry contradicts a parameter that was given, or a fixed setting.
    """
    result: dict[str, str] = {}
    for row in rows_for(operator):
        for key in _keys_for_formats(row, source_formats):
            value = _resolve(row, given.get(row.name), key, conf)
            if value is not None:
                result[key] = value
        for key in row.replaced_keys:
            _resolve(row, given.get(row.name), key, conf)
    for setting in FIXED_SETTINGS:
        if setting.key in conf and not _same(conf[setting.key], setting.value):
            raise ParameterConflictError(
                f"conf: {setting.key}={conf[setting.key]} cannot be honoured ({setting.reason}); drop it"
            )
        result[setting.key] = setting.value
    return result


def refuse_unsafe_settings(conf: Mapping[str, str], options: Mapping[str, str], source_format: str) -> None:
    """Raise `UnsafeSettingError` if `conf` or the reader's `options` would make Spark's reader return wrong rows."""
    for setting in UNSAFE_SETTINGS:
        said = {("conf", key): text for key, text in conf.items() if key == setting.key}
        said |= {("options", key): text for key, text in options.items() if key.lower() == setting.hadoop_key}
        for (place, key), text in said.items():
            if source_format == setting.source_format and _same(text, setting.value):
                raise UnsafeSettingError(f"{place}: {key}={text} is refused ({setting.reason}); drop it")


def effective_value(name: str, given: bool | None, conf: Mapping[str, str], source_format: str) -> bool | None:
    """What a mapped on/off parameter comes to for one source: given, else what `conf` says, else its default."""
    row = next(row for row in PARAMETERS if row.name == name)
    if given is not None:
        return given
    said = [conf[key] for key in row.spark_keys(source_format) if key in conf]
    if said:
        return all(_same(value, "true") for value in said)
    return None if row.default is None else bool(row.default)


def _keys_for_formats(row: Parameter, source_formats: frozenset[str]) -> tuple[str, ...]:
    """Keys of `row` that matter for sources of these formats, each once."""
    return tuple(dict.fromkeys(key for name in sorted(source_formats) for key in row.spark_keys(name)))


def _resolve(row: Parameter, given: object, key: str, conf: Mapping[str, str]) -> str | None:
    """The value of `key`: the parameter's if given and not contradicted, else the user's, else the default."""
    wanted = row.text_for(key, given)
    if key not in conf or (wanted is not None and _same(conf[key], wanted)):
        return wanted
    if given is not None:
        raise ParameterConflictError(
            f"{row.name}={given} contradicts conf entry {key}={conf[key]}; give only one of them"
        )
    return conf[key]


def _same(left: str, right: str) -> bool:
    """Whether two conf values mean the same to Spark, which reads booleans in any case."""
    return left.strip().lower() == right.strip().lower()
