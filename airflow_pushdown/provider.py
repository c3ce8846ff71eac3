"""The description of this package for Airflow, which reads it during its configuration. It imports nothing."""

from __future__ import annotations

_INTEGRATION = "Pushdown"


def get_provider_info() -> dict[str, object]:
    """Return the description of the provider, in the format of Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "airflow-pushdown",
        "name": "Pushdown",
        "description": "Spark jobs that skip data that cannot match before Spark parses it.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://pypi.org/project/airflow-pushdown/",
                "tags": ["software"],
            }
        ],
        "operators": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "airflow_pushdown.operators.join",
                    "airflow_pushdown.operators.multi_scan",
                    "airflow_pushdown.operators.orc",
                    "airflow_pushdown.operators.remote",
                    "airflow_pushdown.operators.scan",
                ],
            }
        ],
        "extra-links": [
            "airflow_pushdown.plugin.links.PushdownReportLink",
            "airflow_pushdown.plugin.links.SparkApplicationLink",
        ],
        "hooks": [{"integration-name": _INTEGRATION, "python-modules": ["airflow_pushdown.hooks.submit"]}],
    }
