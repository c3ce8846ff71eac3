"""Names of Airflow that are in other modules in its older releases, or private."""

from __future__ import annotations

from airflow.sdk import BaseOperator

try:
    from airflow.sdk.configuration import conf
except ImportError:
    from airflow.configuration import conf
try:
    from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
except ImportError:
    from airflow.exceptions import AirflowFailException, AirflowNotFoundException  # type: ignore[attr-defined, no-redef]
try:
    from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferralError
except ImportError:
    from airflow.exceptions import AirflowTaskTimeout, TaskDeferralError  # type: ignore[no-redef]
try:
    from airflow.sdk.plugins_manager import AirflowPlugin
except ImportError:
    from airflow.plugins_manager import AirflowPlugin  # type: ignore[assignment]

try:
    from airflow.sdk.observability.stats import Stats
except ImportError:
    from airflow.stats import Stats

_FROM_MAPPED = "_BaseOperator__from_mapped"
"""The attribute by which Airflow's own constructor recognizes such a task."""


def is_from_mapped(operator: BaseOperator) -> bool:
    """Return whether Airflow creates an operator from a mapped one."""
    return bool(getattr(operator, _FROM_MAPPED, False))


__all__ = [
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowPlugin",
    "AirflowTaskTimeout",
    "Stats",
    "TaskDeferralError",
    "conf",
    "is_from_mapped",
]
