"""The links beside a task of ours: to its report, and to its Spark application while it runs and after."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/pushdown"
"""Below which path of the api-server the plugin's pages lie."""


class PushdownReportLink(BaseOperatorLink):
    """To the page that shows what the task pushed, read and skipped."""

    @property
    def name(self) -> str:
        """The text of the link."""
        return "Pushdown report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of one task instance; it says so itself when there is no report yet."""
        return report_path(ti_key.dag_id, ti_key.task_id, ti_key.run_id, ti_key.map_index)


class SparkApplicationLink(BaseOperatorLink):
    """To Spark's own pages: those of the running application, later those of the history server."""

    @property
    def name(self) -> str:
        """The text of the link."""
        return "Spark application"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The history server's page, for which Airflow asks when the task has ended; empty where none is known.

        While the application runs, the operator leaves the address of its own pages in the same place.
        """
        return str(getattr(operator, "history_page", ""))


def report_path(dag_id: str, task_id: str, run_id: str, map_index: int | None) -> str:
    """The page of a task instance, as a path on the api-server; `[api] base_url` tells below which path that is."""
    root = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    query = urlencode({"run_id": run_id, "map_index": -1 if map_index is None else map_index})
    return f"{root}{PREFIX}/report/{quote(dag_id, safe='')}/{quote(task_id, safe='')}?{query}"
