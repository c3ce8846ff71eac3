"""The parameter table: every operator parameter with its type, default and Spark keys.

Parameters that are fields of a spec have its defaults. The docstrings of the operators describe the parameters. Tests
compare the signatures, the docstrings and the generated pages of the operators with this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum

from pydantic import BaseModel

from pushdown_spark.contract import JoinOptions, OrcOptions, OutputSpec, RemoteSourceSpec, SourceSpec

SCAN = "PushdownScanOperator"
LAZY_ORC = "LazyOrcScanOperator"
MULTI_SCAN = "PushdownMultiScanOperator"
JOIN = "PushdownJoinOperator"
REMOTE = "RemoteScanOperator"
FILES = (SCAN, LAZY_ORC)
OPERATORS = (*FILES, MULTI_SCAN, REMOTE, JOIN)

SOURCE_FORMATS: Mapping[str, str] = {LAZY_ORC: "orc", REMOTE: "remote"}
"""The source format of operators that have only one."""


def default_of(spec: type[BaseModel], field: str) -> object:
    """Return the default of a field of a spec.

    >>> default_of(SourceSpec, "reader"), default_of(OrcOptions, "min_seek_size")
    ('auto', 16384)
    """
    default = spec.model_fields[field].default
    return default.value if isinstance(default, StrEnum) else default


DEFAULT_MIN_SEEK_SIZE: int = OrcOptions.model_fields["min_seek_size"].default
DEFAULT_DP_THRESHOLD: int = JoinOptions.model_fields["dp_threshold"].default
DEFAULT_FETCH_SIZE: int = RemoteSourceSpec.model_fields["fetch_size"].default


@dataclass(frozen=True)
class Parameter:
    """One operator parameter."""

    name: str
    type: str
    default: object
    """The effective default. A parameter with Spark keys whose default is None sets them only if it is given."""
    _: KW_ONLY
    operators: tuple[str, ...] = OPERATORS
    keys: tuple[str, ...] = ()
    """The Spark keys that the parameter sets for every format."""
    format_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The Spark keys that it sets for one source format only."""
    switch_values: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The values for False and True of keys that are not boolean."""
    replaced_keys: tuple[str, ...] = ()
    """The Spark keys that the parameter replaces and never sets."""
    required: bool = False
    is_templated: bool = True
    attribute: str = ""
    """The operator's attribute if it cannot have the parameter's name."""
    renderer: str | None = None
    """The renderer of the templated value in Airflow's web pages."""

    @property
    def field(self) -> str:
        """The operator's attribute, which is also the name of the template field."""
        return self.attribute or self.name

    @property
    def sets_spark_keys(self) -> bool:
        """Whether the parameter sets Spark keys."""
        return bool(self.keys or self.format_keys)

    @property
    def signature_default(self) -> object:
        """The default in the operator's signature. With Spark keys, it is None, to recognize explicit values."""
        return None if self.sets_spark_keys else self.default

    def spark_keys(self, source_format: str | None = None) -> tuple[str, ...]:
        """Return the Spark keys that are set for a source format, or for any format if it is None."""
        if source_format is not None:
            return self.keys + self.format_keys.get(source_format, ())
        return self.keys + tuple(key for keys in self.format_keys.values() for key in keys)


PARAMETERS: tuple[Parameter, ...] = (
    Parameter("source_conn_id", "str", None, operators=(REMOTE,), required=True),
    Parameter("sources", "dict[str, dict[str, object]]", None, operators=(JOIN,), required=True, renderer="json"),
    Parameter("scans", "dict[str, dict[str, object]]", None, operators=(MULTI_SCAN,), required=True, renderer="json"),
    Parameter("query", "str", None, operators=(JOIN,), required=True, renderer="sql"),
    Parameter("join_reorder", "bool", default_of(JoinOptions, "reorder"), operators=(JOIN,)),
    Parameter("join_reorder_dp_threshold", "int", DEFAULT_DP_THRESHOLD, operators=(JOIN,)),
    Parameter("join_reorder_min_bytes", "int | None", None, operators=(JOIN,)),
    Parameter("star_schema_detection", "bool", default_of(JoinOptions, "star_schema"), operators=(JOIN,)),
    Parameter("path", "str | list[str] | None", None, renderer="json", operators=FILES),
    Parameter("table", "str | None", None, operators=FILES),
    Parameter("format", "str | None", None, operators=(SCAN,)),
    Parameter("schema", "str | None", None, renderer="sql", operators=FILES),
    Parameter("options", "dict[str, object] | None", None, renderer="json", operators=FILES),
    Parameter("columns", "list[str] | None", None, renderer="json", operators=FILES),
    Parameter("where", "str | None", None, renderer="sql", operators=(*FILES, REMOTE)),
    Parameter("data_interval", "str | None", None, operators=(*FILES, REMOTE)),
    Parameter("limit", "int | None", None, operators=(*FILES, REMOTE)),
    Parameter(
        "filter_pushdown",
        "bool | None",
        default_of(SourceSpec, "filter_pushdown"),
        format_keys={
            "json": ("spark.sql.json.filterPushdown.enabled",),
            "csv": ("spark.sql.csv.filterPushdown.enabled",),
            "avro": ("spark.sql.avro.filterPushdown.enabled",),
            "orc": ("spark.sql.orc.filterPushdown",),
            "parquet": ("spark.sql.parquet.filterPushdown",),
        },
        operators=FILES,
    ),
    Parameter("reader", "str", default_of(SourceSpec, "reader"), operators=FILES),
    Parameter("on_schema_conflict", "str", default_of(SourceSpec, "on_schema_conflict"), operators=FILES),
    Parameter("on_missing_column", "str", default_of(SourceSpec, "on_missing_column"), operators=FILES),
    Parameter("max_malformed", "int | None", None, operators=(SCAN,)),
    Parameter("implicit_names", "dict[str, str] | None", None, operators=FILES, renderer="json"),
    Parameter("implicit_columns", "list[str] | None", None, operators=FILES, renderer="json"),
    Parameter("sarg_to_filter", "bool | None", None, operators=(LAZY_ORC,), keys=("spark.hadoop.orc.sarg.to.filter",)),
    Parameter(
        "use_selected",
        "bool",
        default_of(OrcOptions, "use_selected"),
        operators=(LAZY_ORC,),
        replaced_keys=("spark.hadoop.orc.filter.use.selected",),
    ),
    Parameter("partial_reads", "int | str", "auto", operators=(LAZY_ORC,)),
    Parameter("min_seek_size", "int", DEFAULT_MIN_SEEK_SIZE, operators=(LAZY_ORC,)),
    Parameter("table", "str | None", None, operators=(REMOTE,)),
    Parameter("query", "str | None", None, operators=(REMOTE,), renderer="sql"),
    Parameter("columns", "list[str] | None", None, renderer="json", operators=(REMOTE,)),
    Parameter("filter_pushdown", "bool", default_of(RemoteSourceSpec, "filter_pushdown"), operators=(REMOTE,)),
    Parameter("partition_column", "str | None", None, operators=(REMOTE,)),
    Parameter("num_partitions", "int | None", None, operators=(REMOTE,)),
    Parameter("lower_bound", "int | str | None", None, operators=(REMOTE,)),
    Parameter("upper_bound", "int | str | None", None, operators=(REMOTE,)),
    Parameter("consistent", "bool", default_of(RemoteSourceSpec, "consistent"), operators=(REMOTE,)),
    Parameter("transport", "str", default_of(RemoteSourceSpec, "transport"), operators=(REMOTE,)),
    Parameter("fetch_size", "int", DEFAULT_FETCH_SIZE, operators=(REMOTE,)),
    Parameter("statement_timeout", "float | None", None, operators=(REMOTE,)),
    Parameter("wide_numbers", "str", default_of(RemoteSourceSpec, "wide_numbers"), operators=(REMOTE,)),
    Parameter("zero_dates_as_null", "bool", default_of(RemoteSourceSpec, "zero_dates_as_null"), operators=(REMOTE,)),
    Parameter("output", "str | None", None, attribute="output_path"),
    Parameter("output_conn_id", "str | None", None),
    Parameter("output_table", "str | None", None),
    Parameter("replace_where", "str | None", None, renderer="sql"),
    Parameter("merge_keys", "list[str] | None", None, renderer="json"),
    Parameter("output_format", "str", default_of(OutputSpec, "format")),
    Parameter("output_mode", "str", default_of(OutputSpec, "mode")),
    Parameter("output_options", "dict[str, object] | None", None, renderer="json"),
    Parameter("partition_by", "list[str] | None", None, renderer="json"),
    Parameter("checks", "dict[str, object] | None", None, renderer="json"),
    Parameter(
        "nested_pruning",
        "bool | None",
        True,
        keys=(
            "spark.sql.optimizer.nestedSchemaPruning.enabled",
            "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources",
        ),
        switch_values={"spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": ("", "parquet,orc")},
    ),
    Parameter("source_conn_id", "str | None", None, operators=(*FILES, MULTI_SCAN, JOIN)),
    Parameter("spark_home", "str | None", None),
    Parameter("spark_python", "str | None", None),
    Parameter("exchange_dir", "str | None", None),
    Parameter("exchange_conn_id", "str | None", None),
    Parameter("deferrable", "bool | None", None, is_templated=False),
    Parameter("class_archives", "str | None", None),
    Parameter("assets", "bool", False, is_templated=False),
    Parameter("name", "str", "{{ ti.dag_id }}.{{ ti.task_id }}"),
)


def parameters_of(operator: str) -> tuple[Parameter, ...]:
    """Return the parameters of one operator, in the order of the table."""
    return tuple(parameter for parameter in PARAMETERS if operator in parameter.operators)
