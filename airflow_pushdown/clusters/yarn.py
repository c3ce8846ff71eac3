"""Submissions to YARN: the settings of an application, and the address of the resource manager."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from airflow_pushdown.exchange.webhdfs import hadoop_settings

TAGS_KEY = "spark.yarn.tags"
"""Spark's setting with the tags of an application."""
WAIT_KEY = "spark.yarn.submit.waitAppCompletion"
"""Spark's setting whether spark-submit waits for the end of an application."""


def run_tag(spec_location: str) -> str:
    """Return the tag of all drivers of a run, by which they are found although their ids are not known.

    The same DAG may run in several deployments of Airflow on one cluster. Their runs have different exchange files.
    """
    return f"airflow-pushdown-{hashlib.sha256(spec_location.encode()).hexdigest()[:32]}"


def configured_addresses() -> list[str]:
    """Return the addresses of the resource managers in Hadoop's configuration on this worker."""
    settings = hadoop_settings(os.environ)
    names = [name.strip() for name in settings.get("yarn.resourcemanager.ha.rm-ids", "").split(",")]
    return [address for name in names if (address := _address(settings, f".{name}" if name else ""))]


def _address(settings: Mapping[str, str], suffix: str) -> str | None:
    """Return the address of one resource manager. `suffix` is that of its own settings."""
    uses_tls = settings.get("yarn.http.policy") == "HTTPS_ONLY"
    key = f"yarn.resourcemanager.webapp.{'https.' if uses_tls else ''}address"
    host = settings.get(f"yarn.resourcemanager.hostname{suffix}") or settings.get("yarn.resourcemanager.hostname", "")
    address = settings.get(f"{key}{suffix}") or settings.get(key)
    if not address and host:
        address = f"{host}:{8090 if uses_tls else 8088}"
    if not address:
        return None
    return f"{'https' if uses_tls else 'http'}://{address.replace('${yarn.resourcemanager.hostname}', host)}"
