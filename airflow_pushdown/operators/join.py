"""The operator that runs one query over several sources and orders its joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import TypeAdapter

from airflow_pushdown.assets import as_list
from airflow_pushdown.exceptions import config_error
from airflow_pushdown.hooks.credentials import airflow_connection
from airflow_pushdown.hooks.databases import database_connection
from airflow_pushdown.operators.base import PushdownBaseOperator, Question, all_renderers, all_template_fields
from airflow_pushdown.operators.values import entries, naming_parameters
from airflow_pushdown.parameters import DEFAULT_DP_THRESHOLD, JOIN
from pushdown_spark.contract import AnySourceSpec, JoinOptions, QuerySpec, RemoteSourceSpec, SecretValues, SourceSpec

_SOURCES = TypeAdapter(dict[str, dict[str, object]])
_CONNECTION = "source_conn_id"


class PushdownJoinOperator(PushdownBaseOperator):
    """Run one SQL query over several sources: each is read as little as the query allows, joins in a good order.

    All parameters are keyword-only and may be mapped with `.partial().expand()`. On top of those below, every parameter
    of `SparkSubmitOperator` is taken with its name and meaning. The task returns what was pushed down to each source,
    what was left to Spark, and the joins before and after; it pushes the same to XCom when the job fails.

    :param sources: Sources by the names that the query has for them; of each `path`, `format`, and as wanted `schema`,
        `options`, `reader`, `filter_pushdown` and `orc`; of a remote table `source_conn_id`, `table` or `query`, and as
        wanted the other parameters of RemoteScanOperator that say how it is read. (templated)
    :param query: The query over the sources, in Spark SQL. (templated)
    :param join_reorder: Whether inner joins are run in the order that is cheapest by what is known of the sources, and
        small relations are broadcast. (templated)
    :param join_reorder_dp_threshold: Up to how many relations all orders are compared; beyond, one is built step by
        step. (templated)
    :param join_reorder_min_bytes: Sources with fewer bytes altogether are joined as written, 0 for none; if not given,
        those are where looking for an order would take more than a twentieth of the query's time by estimate.
        (templated)
    :param star_schema_detection: Whether a table of facts and its dimensions are recognised and joined before
        everything else. (templated)
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

    table_name: ClassVar[str] = JOIN
    template_fields: Sequence[str] = all_template_fields(JOIN)
    template_fields_renderers: ClassVar[dict[str, str]] = all_renderers(JOIN)
    ui_color = "#e8d9cf"

    def __init__(
        self,
        *,
        sources: dict[str, dict[str, object]],
        query: str,
        join_reorder: bool = True,
        join_reorder_dp_threshold: int = DEFAULT_DP_THRESHOLD,
        join_reorder_min_bytes: int | None = None,
        star_schema_detection: bool = False,
        **kwargs: Any,  # noqa: ANN401 - the parameters of the base operators, under their own names
    ) -> None:
        super().__init__(**kwargs)
        self.sources = sources
        self.query = query
        self.join_reorder = join_reorder
        self.join_reorder_dp_threshold = join_reorder_dp_threshold
        self.join_reorder_min_bytes = join_reorder_min_bytes
        self.star_schema_detection = star_schema_detection
        self._declare_assets(_paths(self.sources))

    def question(self) -> Question:
        """The sources, and one query over them."""
        with naming_parameters({"": "sources"}):
            declared = _SOURCES.validate_python(self.sources)
        if not declared:
            raise config_error("sources: give at least one source, by the name that the query has for it")
        sources = {name: _source(name, given) for name, given in declared.items()}
        with naming_parameters(
            {
                "reorder": "join_reorder",
                "dp_threshold": "join_reorder_dp_threshold",
                "min_bytes": "join_reorder_min_bytes",
                "star_schema": "star_schema_detection",
            }
        ):
            joins = JoinOptions.model_validate(
                {
                    "reorder": self.join_reorder,
                    "dp_threshold": self.join_reorder_dp_threshold,
                    "min_bytes": self.join_reorder_min_bytes,
                    "star_schema": self.star_schema_detection,
                }
            )
        with naming_parameters({"": "query"}):
            query = QuerySpec(sql=TypeAdapter(str).validate_python(self.query), joins=joins)
        return Question(sources=sources, query=query)

    def _source_secrets(self) -> SecretValues:
        """Credentials of the object store, and how to reach the databases of remote sources."""
        remote = {
            name: database_connection(airflow_connection(f"sources.{name}.{_CONNECTION}", str(given[_CONNECTION])))
            for name, given in self.sources.items()
            if _CONNECTION in given
        }
        return super()._source_secrets().model_copy(update={"remote": remote})


def _paths(sources: object) -> list[object]:
    """The paths of all sources that have any; what is given is not checked before the task runs."""
    given = sources.values() if isinstance(sources, Mapping) else ()
    return [path for source in given if isinstance(source, Mapping) for path in as_list(source.get("path"))]


def _source(name: str, given: Mapping[str, object]) -> AnySourceSpec:
    """One source; options may be of any type, and a path may be one text or a list of them."""
    fields = {field: value for field, value in given.items() if field != _CONNECTION}
    if _CONNECTION in given:
        names = {field: f"sources.{name}.{field}" for field in (*RemoteSourceSpec.model_fields, *fields)}
        with naming_parameters({"": f"sources.{name}", **names}):
            return RemoteSourceSpec.model_validate(fields)
    if isinstance(fields.get("path"), str):
        fields["path"] = (fields["path"],)
    if "options" in fields:
        fields["options"] = entries(f"sources.{name}.options", fields["options"])
    with naming_parameters(
        {field: f"sources.{name}.{field}" for field in (*SourceSpec.model_fields, "schema", *fields)}
    ):
        return SourceSpec.model_validate(fields)
