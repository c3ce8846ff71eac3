"""A job to submit, as an operator describes it to the hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_pushdown.spark_submit.application import Application
from pushdown_spark.contract import JobSpec, SecretValues
from pushdown_spark.contract.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Submission:
    """The job to submit, its credentials, and the operator's parameters of the same names."""

    spec: JobSpec
    secrets: SecretValues = field(default_factory=SecretValues, repr=False)
    spark_home: str | None = None
    spark_python: str | None = None
    exchange_dir: str | None = None
    exchange_conn_id: str | None = None
    class_archives: str | None = None
    try_number: int = 1
    """The try of the task."""
    on_started: Callable[[Application], None] | None = None
    """Called with the Spark application when it starts, if its driver runs on this machine or on YARN."""
    on_submitted: Callable[[str], None] | None = None
    """Called with the id of a driver as soon as a cluster has accepted it."""
    leaves_driver: Callable[[], bool] | None = None
    """Returns whether a killed task leaves its driver to the next try, which continues with it."""
    on_progress: Callable[[Progress], None] | None = None
    """Called with the progress of the job every few seconds, if the task can read it."""
