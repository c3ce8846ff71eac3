"""The plugin as Airflow finds it by its entry point; light, since every process of Airflow imports it."""

from __future__ import annotations

from airflow.sdk.plugins_manager import AirflowPlugin

from airflow_pushdown.plugin.links import PREFIX


class PushdownPlugin(AirflowPlugin):
    """Adds the report pages to the api-server."""

    name = "airflow_pushdown"

    @property
    def fastapi_apps(self) -> list[dict[str, object]]:  # type: ignore[override] # a list there
        """The application with the pages; imported on demand, since only the api-server may use the database."""
        from airflow_pushdown.plugin.app import application

        return [{"app": application(), "url_prefix": PREFIX, "name": self.name}]
