"""The scan of `slow_scans` with a driver on the cluster: the task waits for it, or is deferred, or has a timeout.

The workers of two DAGs die when the cluster has accepted the driver, and do not store its id. The next try follows
before the driver starts, or when it runs.
"""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta

from airflow.sdk import DAG, Context

from airflow_pushdown.operators import RemoteScanOperator
from airflow_pushdown.spark_submit.application import Application

DATA = os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", "/nowhere")
FIRST_TRY = 1


class DyingWorkerOperator(RemoteScanOperator):
    """A scan whose worker dies in the first try when the cluster has accepted the driver, and does not store its id."""

    def _remember_driver(self, context: Context, driver_id: str) -> None:
        if context["ti"].try_number > FIRST_TRY:
            super()._remember_driver(context, driver_id)
        elif not driver_id.startswith("application_"):
            os.kill(os.getpid(), signal.SIGKILL)

    def _link_to(self, context: Context, started: Application) -> None:
        """Die when YARN has accepted the application. It gives out the id before that."""
        if context["ti"].try_number == FIRST_TRY:
            os.kill(os.getpid(), signal.SIGKILL)
        super()._link_to(context, started)


def after(**delay: int) -> dict[str, object]:
    """Return the parameters of a task with one retry after a time."""
    return {"retries": 1, "retry_delay": timedelta(**delay)}


TIME_LIMIT = {"retries": 0, "execution_timeout": timedelta(seconds=150)}
MODES: dict[str, tuple[type[RemoteScanOperator], dict[str, object]]] = {
    "driver_wait": (RemoteScanOperator, {"deferrable": False, **after(seconds=1)}),
    "driver_defer": (RemoteScanOperator, {"deferrable": True, **after(seconds=1)}),
    "driver_timeout_wait": (RemoteScanOperator, {"deferrable": False, **TIME_LIMIT}),
    "driver_timeout_defer": (RemoteScanOperator, {"deferrable": True, **TIME_LIMIT}),
    "driver_lost_early": (DyingWorkerOperator, after(seconds=0)),
    "driver_lost_late": (DyingWorkerOperator, after(seconds=60)),
}

for name, (operator, options) in MODES.items():
    with DAG(name, schedule=None, start_date=datetime(2026, 1, 1), catchup=False):
        operator(
            task_id="scan",
            conn_id="spark_cluster",
            source_conn_id="flights_db",
            table="slow_rows",
            where="number > 10",
            fetch_size=10,
            # Rows that the driver itself fetches have no progress.
            num_partitions=1,
            output=f"{DATA}/output/{name}/{{{{ ds }}}}",
            **options,
        )
