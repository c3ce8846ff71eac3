"""The addresses of the plugin's pages and of Airflow's own, and the links of a task."""

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
REPORT_TAB, RUNS_TAB, OVERVIEW = "pushdown-report", "pushdown-runs", "pushdown"
"""The last parts of the addresses of the tabs and of the page in Airflow's UI."""
PROGRESS_KEY = "_pushdown_progress"
"""The XCom key of a running job's progress. No scan of a job can have this name."""
NOT_MAPPED = "{MAP_INDEX}"
"""What Airflow's UI leaves in the address of a tab if the task is not mapped."""


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
        """Return the page on the history server, or an empty string. Airflow calls this when the task has ended.

        While the application runs, the operator stores the address of its UI under the same XCom key.
        """
        return str(getattr(operator, "history_page", ""))


def root_path() -> str:
    """Return the path of `[api] base_url`, or an empty string if Airflow is at the root of its host."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


def report_path(dag_id: str, task_id: str, run_id: str, map_index: int | None) -> str:
    """Return the path of a task instance's page on the api-server, including the path of `[api] base_url`."""
    query = urlencode({"run_id": run_id, "map_index": -1 if map_index is None else map_index})
    return f"{root_path()}{PREFIX}/report/{_quote(dag_id)}/{_quote(task_id)}?{query}"


def runs_path(dag_id: str) -> str:
    """Return the path of the page that lists the reports of a DAG."""
    return f"{root_path()}{PREFIX}/runs/{_quote(dag_id)}"


def airflow_dag_path(dag_id: str, tab: str = "") -> str:
    """Return the path of a DAG in Airflow's UI."""
    return f"{root_path()}/dags/{_quote(dag_id)}{_plugin(tab)}"


def airflow_run_path(dag_id: str, run_id: str) -> str:
    """Return the path of a DAG run in Airflow's UI."""
    return f"{root_path()}/dags/{_quote(dag_id)}/runs/{_quote(run_id)}"


def airflow_task_path(dag_id: str, task_id: str, run_id: str, map_index: int, tab: str = "") -> str:
    """Return the path of a task instance in Airflow's UI."""
    map_path = f"/mapped/{map_index}" if map_index >= 0 else ""
    return f"{airflow_run_path(dag_id, run_id)}/tasks/{_quote(task_id)}{map_path}{_plugin(tab)}"


def views() -> list[dict[str, object]]:
    """Return the tabs and the page that Airflow's UI shows. The UI fills in the names in braces."""
    root = root_path()
    icons = {"icon": _icon("#52525b"), "icon_dark_mode": _icon("#a1a1aa")}
    return [
        {
            "name": "Pushdown report",
            "href": f"{root}{PREFIX}/tab/report/{{DAG_ID}}/{{RUN_ID}}/{{TASK_ID}}/{NOT_MAPPED}",
            "destination": "task_instance",
            "url_route": REPORT_TAB,
            **icons,
        },
        {
            "name": "Pushdown",
            "href": f"{root}{PREFIX}/tab/runs/{{DAG_ID}}",
            "destination": "dag",
            "url_route": RUNS_TAB,
            **icons,
        },
        {
            "name": "Pushdown",
            "href": f"{root}{PREFIX}/tab/overview",
            "destination": "nav",
            "category": "browse",
            "url_route": OVERVIEW,
            **icons,
        },
    ]


def _icon(color: str) -> str:
    """Return a funnel as an image of some hundred bytes."""
    path = f'<path d="M2 3h12l-4.6 5.6v4.6L6.6 14V8.6z" fill="none" stroke="{color}" stroke-width="1.4"/>'
    return "data:image/svg+xml," + quote(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">{path}</svg>')


def _plugin(tab: str) -> str:
    return f"/plugin/{tab}" if tab else ""


def _quote(name: str) -> str:
    return quote(name, safe="")
