"""The links of a task: to its report, and to its Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from airflow.sdk import BaseOperatorLink

from airflow_pushdown.version_compat import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/pushdown"
"""The path of the plugin's pages on the api-server."""


class PushdownReportLink(BaseOperatorLink):
    """A link to the report of what the task pushed, read and skipped."""

    @property
    def name(self) -> str:
        """The text of the link."""
        return "Pushdown report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page of a task instance, which also covers tasks without a report."""
        return report_path(ti_key.dag_id, ti_key.task_id, ti_key.run_id, ti_key.map_index)


class SparkApplicationLink(BaseOperatorLink):
    """A link to the Spark UI of the running application, later to the history server."""

    @property
    def name(self) -> str:
        """The text of the link."""
        return "Spark application"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page on the history server, empty if unknown. Airflow calls this when the task has ended.

        While the application runs, the operator stores the address of its UI under the same XCom key.
        """
        return str(getattr(operator, "history_page", ""))


def report_path(dag_id: str, task_id: str, run_id: str, map_index: int | None) -> str:
    """Return the path of a task instance's page on the api-server, including the path of `[api] base_url`."""
    root = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    query = urlencode({"run_id": run_id, "map_index": -1 if map_index is None else map_index})
    return f"{root}{PREFIX}/report/{quote(dag_id, safe='')}/{quote(task_id, safe='')}?{query}"
