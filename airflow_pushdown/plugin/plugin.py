"""The plugin that Airflow loads from the entry point. Every Airflow process imports it, so it imports little."""

from __future__ import annotations

from airflow_pushdown.plugin.links import PREFIX, views
from airflow_pushdown.version_compat import AirflowPlugin


class PushdownPlugin(AirflowPlugin):
    """The plugin that adds the report pages to the api-server, and tabs and a page with them to Airflow's UI."""

    name = "airflow_pushdown"

    @property
    def fastapi_apps(self) -> list[dict[str, object]]:  # type: ignore[override] # a list there
        """The application with the pages. Only the api-server, which may use the database, imports it."""
        from airflow_pushdown.plugin.app import application

        return [{"app": application(), "url_prefix": PREFIX, "name": self.name}]

    @property
    def external_views(self) -> list[dict[str, object]]:  # type: ignore[override] # a list there
        """The tabs and the page in Airflow's UI. The address of Airflow is known when the api-server asks."""
        return views()
