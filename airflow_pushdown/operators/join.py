"""The operator for one SQL query over several sources, with join reordering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import TypeAdapter

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.operators.base_operator import (
    JobRequest,
    PushdownBaseOperator,
    all_renderers,
    all_template_fields,
)
from airflow_pushdown.operators.declared_sources import declared_paths, declared_source, source_connections
from airflow_pushdown.operators.values import naming_parameters
from airflow_pushdown.parameters import DEFAULT_DP_THRESHOLD, JOIN
from pushdown_spark.contract import JoinOptions, QuerySpec, SecretValues

_SOURCES = TypeAdapter(dict[str, dict[str, object]])
_JOIN_OPTIONS = {
    "reorder": "join_reorder",
    "dp_threshold": "join_reorder_dp_threshold",
    "min_bytes": "join_reorder_min_bytes",
    "star_schema": "star_schema_detection",
}
"""The fields of `JoinOptions` with the parameters that set them."""


class PushdownJoinOperator(PushdownBaseOperator):
    """Run one SQL query over several sources, with pushdown to each source and joins in a cheap order.

    All parameters are keyword-only and can be mapped with `.partial().expand()`. The operator also accepts every
    parameter of `SparkSubmitOperator` except `application`, `application_args` and `java_class`. The task returns a
    report of the pushed conjuncts and the residual predicate of each source, and the join trees before and after
    reordering. If the job fails, the task pushes the report to XCom before it raises the error.

    :param sources: Sources by the names that the query uses. A file source has `path` and `format`, and optionally
        `schema`, `options`, `reader`, `filter_pushdown`, `orc`, `on_schema_conflict`, `on_missing_column`,
        `max_malformed`, `implicit_names` and `implicit_columns`. A table of Spark's catalog has `table`, and optionally
        `options`, `reader`, `filter_pushdown`, `orc`, `implicit_names` and `implicit_columns`. A database source has
        `source_conn_id` and `table` or `query`, and optionally the read parameters of RemoteScanOperator. (templated)
    :param query: The query over the sources, in Spark SQL. (templated)
    :param join_reorder: Whether to reorder inner joins by estimated cost and to broadcast small relations. (templated)
    :param join_reorder_dp_threshold: Maximum number of relations for exhaustive enumeration of join orders. Larger
        joins use a greedy search. (templated)
    :param join_reorder_min_bytes: Minimum total size of the sources in bytes for join reordering. 0 always reorders if
        that is cheaper. By default, joins keep the written order if collecting statistics would take more than a
        twentieth of the estimated query time. (templated)
    :param star_schema_detection: Whether to detect a fact table and its dimensions and to join them first. (templated)
    :param kwargs: Parameters of `PushdownBaseOperator` and of Airflow's operators.
    """

    operator_name: ClassVar[str] = JOIN
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
        self._declare_assets(declared_paths(self.sources))
        self._check_literals(PushdownJoinOperator)

    def job_request(self) -> JobRequest:
        """Return the sources and one query over them."""
        with naming_parameters({"": "sources"}):
            declarations = _SOURCES.validate_python(self.sources)
        if not declarations:
            raise config_error("sources: declare at least one source, under the name that the query uses")
        sources = {name: declared_source(f"sources.{name}", declaration) for name, declaration in declarations.items()}
        with naming_parameters(_JOIN_OPTIONS):
            joins = JoinOptions.model_validate({field: getattr(self, name) for field, name in _JOIN_OPTIONS.items()})
        with naming_parameters({"": "query"}):
            query = QuerySpec(sql=TypeAdapter(str).validate_python(self.query), joins=joins)
        return JobRequest(sources=sources, query=query)

    def _source_secrets(self) -> SecretValues:
        """Return the credentials of the object store and the connections to the databases."""
        return super()._source_secrets().model_copy(update={"remote": source_connections("sources", self.sources)})
