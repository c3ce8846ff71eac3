"""`airflow-pushdown doctor`: checks of an installation, without starting Spark."""

from __future__ import annotations

from airflow_pushdown.doctor.diagnosis import Settings, diagnose
from airflow_pushdown.doctor.findings import CheckStatus, Finding

__all__ = ["CheckStatus", "Finding", "Settings", "diagnose"]
