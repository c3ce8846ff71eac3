"""The part of the operators that waits for a driver on a cluster, defers the task, and continues after a crash."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context

from airflow_pushdown.clusters.drivers import DriverPhase, driver_unreachable_error
from airflow_pushdown.exceptions import config_error
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.task_state import has_next_try, is_true_in_time, task_state
from airflow_pushdown.triggers.driver import DriverEvent, DriverTrigger
from airflow_pushdown.version_compat import AirflowTaskTimeout, conf

if TYPE_CHECKING:
    from pydantic import JsonValue

_RESUME_METHOD = "execute_complete"


class ClusterOperator(SparkSubmitOperator):
    """An operator whose driver may run on a cluster.

    The provider's operator submits the job, and stores the id of the driver for the next try. This class replaces its
    requests for the status, because the result of the job is in the exchange directory, and because a task may be
    deferred.

    :param deferrable: Whether the task gives back its worker slot while its driver runs on a cluster. Needs deploy mode
        cluster and a triggerer. By default, Airflow's setting [operators] default_deferrable, in deploy mode cluster.
    :param kwargs: Parameters of `SparkSubmitOperator` and `BaseOperator`.
    """

    def __init__(self, *, deferrable: bool | None = None, **kwargs: Any) -> None:  # noqa: ANN401 - the provider's
        super().__init__(**kwargs)
        self.deferrable = deferrable
        if deferrable and self._deploy_mode == "client":
            raise _needs_cluster("deploy_mode is client")
        if deferrable and self._yarn_rm_auth is not None:
            raise config_error(
                "deferrable: the triggerer cannot get the object yarn_rm_auth; use a connection with keytab and "
                "principal, or deferrable=False"
            )

    def submit_job(self, context: Context) -> str | None:
        """Submit the job, unless an earlier try died after it had submitted a driver and before it stored its id."""
        driver_id = self._submit_hook().earlier_driver() if self.durable else None
        if driver_id is None:
            submitted: str | None = super().submit_job(context)
            return submitted
        self._remember_driver(context, driver_id)
        return driver_id

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        """Return the phase of the driver of an earlier try, for the decision whether to submit another one."""
        return self._submit_hook().phase_of(str(external_id)).value

    def is_job_active(self, status: str) -> bool:
        """Return whether the driver of an earlier try still runs."""
        return status == DriverPhase.ACTIVE.value

    def is_job_succeeded(self, status: str) -> bool:
        """Return whether the job of an earlier try has a result that was not read yet."""
        return status == DriverPhase.SUCCEEDED.value

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        """Wait for the driver, or defer the task until it has ended."""
        driver_id = str(external_id)
        if self._submit_hook().is_deferred:
            self._defer_until_end(driver_id, context)
        self._submit_hook().wait_for_driver(driver_id)

    def _defer_until_end(self, driver_id: str, context: Context) -> NoReturn:
        hook = self._submit_hook()
        drivers = hook.drivers()
        if drivers is None:
            raise _needs_cluster(f"the deploy mode of the connection {self._conn_id!r} is not cluster")
        end_time = None
        if self.execution_timeout is not None:
            started = getattr(context["ti"], "start_date", None)
            begin = time.time() if started is None else started.timestamp()
            end_time = begin + self.execution_timeout.total_seconds()
        self.defer(
            trigger=DriverTrigger(
                kind=drivers.kind,
                settings=drivers.settings(),
                driver_id=driver_id,
                exchange=asdict(hook.shared_location),
                poll_seconds=max(float(self._status_poll_interval), drivers.shortest_interval),
                end_time=end_time,
                stores_progress=bool(self.do_xcom_push),
            ),
            method_name=_RESUME_METHOD,
        )

    def _take_event(self, payload: Mapping[str, object]) -> None:
        """Continue with the event of a trigger. Raises if the driver has not ended."""
        event = DriverEvent.from_payload(payload)
        hook = self._submit_hook()
        if event.status is not None:
            hook.take_status(event.driver_id, event.status)
            return
        hook.attach(event.driver_id)
        if not event.is_timeout:
            raise driver_unreachable_error(event.driver_id, event.problem)
        raise AirflowTaskTimeout(f"driver {event.driver_id} ran longer than execution_timeout and was ended")

    def _remember_driver(self, context: Context, driver_id: str) -> None:
        """Store the id of the driver for the next try. The provider's operator stores it only after the submission."""
        if self.durable and (store := _state_store(context)) is not None:
            store.set(self.external_id_key, driver_id)

    def _remembered_driver(self, context: Context) -> str | None:
        """Return the stored id of a driver, or None before Airflow 3.3."""
        store = _state_store(context)
        driver_id = None if store is None else store.get(self.external_id_key)
        return None if driver_id is None else str(driver_id)

    def _leaves_driver(self, context: Context) -> bool:
        """Return whether Airflow ends this try and starts another one, which can continue with the driver.

        If a scheduler dies, another scheduler starts the next try of its tasks. The earlier try may be ended before,
        during or after the start of the next one.
        """
        if not self.durable or _state_store(context) is None:
            return False
        ti = context["ti"]

        def ask() -> bool:
            try:
                state = task_state(ti.dag_id, ti.run_id, ti.task_id, ti.map_index)
            except LookupError:
                return False
            # Airflow shows the stored values of a task only to its current try.
            return has_next_try(state, is_current=self._remembered_driver(context) is not None)

        return is_true_in_time(ask, self.log)

    def _forget_driver(self, context: Context) -> None:
        """Delete the id of a driver whose result was read. Otherwise a cleared task would not run again."""
        if (store := _state_store(context)) is not None:
            store.delete(self.external_id_key)

    def _submit_hook(self) -> PushdownSubmitHook:
        """Return the hook of the provider's operator with its actual type."""
        return cast("PushdownSubmitHook", self._hook)

    def _follow_driver(self, hook: PushdownSubmitHook) -> None:
        """Decide who waits for the driver: a trigger, this task or spark-submit."""
        if self._should_defer(hook):
            hook.defer()
        elif self.durable and not hook.track_application():
            # The provider's operator would raise, because a retry cannot continue with the application.
            self.durable = False

    def _should_defer(self, hook: PushdownSubmitHook) -> bool:
        """Return whether the task is deferred while its driver runs. The default is Airflow's own setting.

        Raises `ConfigError` if that was requested for a driver that runs in the task.
        """
        if self.deferrable is None:
            return hook.is_cluster and conf.getboolean("operators", "default_deferrable", fallback=False)
        if self.deferrable and not hook.is_cluster:
            raise _needs_cluster(f"the deploy mode of the connection {self._conn_id!r} is client")
        return self.deferrable


def _state_store(context: Context) -> Any:  # noqa: ANN401 - a class of Airflow 3.3, which older releases lack
    return context.get("task_state_store")


def _needs_cluster(reason: str) -> Exception:
    return config_error(
        f"deferrable: only a driver on a cluster can run without the task, and {reason}; use deploy_mode='cluster', or "
        "deferrable=False"
    )
