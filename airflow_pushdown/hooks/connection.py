"""The Airflow connection to Spark. It extends the connection handling of the Spark provider's hook."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from airflow.sdk import BaseHook

from airflow_pushdown.clusters.drivers import ClusterUnreachableError, Drivers
from airflow_pushdown.clusters.kubernetes import RUN_LABEL, KubernetesDrivers
from airflow_pushdown.clusters.standalone import StandaloneDrivers, rest_addresses
from airflow_pushdown.clusters.yarn import TAGS_KEY, WAIT_KEY, YarnDrivers, configured_addresses
from airflow_pushdown.exceptions import PushdownTaskError, config_error
from airflow_pushdown.exchange.exchange import ExchangeLocation
from airflow_pushdown.hooks.job_runner import JobRunner
from airflow_pushdown.hooks.provider_hook import ProviderHook
from airflow_pushdown.spark_submit.application import HISTORY_EXTRA
from airflow_pushdown.version_compat import AirflowNotFoundException

EXCHANGE_EXTRA, EXCHANGE_CONNECTION_EXTRA = "exchange-dir", "exchange-conn-id"
"""Extras of a Spark connection with the defaults of the parameters `exchange_dir` and `exchange_conn_id`."""
_KNOWN_EXTRAS = frozenset(
    {
        "queue",
        "deploy-mode",
        "spark-binary",
        "namespace",
        "principal",
        "keytab",
        "rest-scheme",
        "rest-port",
        "yarn_resourcemanager_webapp_address",
        HISTORY_EXTRA,
        EXCHANGE_EXTRA,
        EXCHANGE_CONNECTION_EXTRA,
    }
)
_KUBERNETES_WAIT_KEY = "spark.kubernetes.submission.waitAppCompletion"
"""Spark's setting whether spark-submit waits for the end of a driver pod."""
_MASTERS = ("local", "spark", "yarn", "k8s")
"""The beginnings of the masters that spark-submit accepts."""


class SparkConnectionHook(ProviderHook):
    """A hook that resolves a connection to Spark. A missing connection raises instead of meaning YARN."""

    _job: JobRunner
    """The spark-submit of this hook. Subclasses set it."""

    def __init__(self, *, conn_id: str = "spark_default", **options: Any) -> None:  # noqa: ANN401 - the provider's
        """Resolve the connection. Raises `ConfigError` with the name of the invalid parameter."""
        self.history_extra: object = None
        self._default_exchange_dir: str | None = None
        self._default_exchange_conn_id: str | None = None
        self._run_tag: str | None = None
        self.is_deferred = False
        try:
            super().__init__(conn_id=conn_id, **options)
        except NameError as error:
            # The provider's hook refers to a module that it could not import.
            raise config_error(
                f"conn_id: connection {conn_id!r} names a Kubernetes master; install "
                "apache-airflow-providers-cncf-kubernetes"
            ) from error
        if not self.master.startswith(_MASTERS):
            raise config_error(
                f"conn_id: connection {conn_id!r} has the master {self.master!r}; set its host to a master of Spark, "
                "such as 'local[2]', 'spark://host:7077' or 'yarn'"
            )

    def exchange_location(self, exchange_dir: str | None, run_key: str, conn_id: str | None) -> ExchangeLocation:
        """Return where a run exchanges files. The extras of the connection replace missing parameters."""
        return ExchangeLocation(
            exchange_dir or self._default_exchange_dir, run_key, conn_id or self._default_exchange_conn_id
        )

    def defer(self) -> None:
        """Let spark-submit end when the cluster has accepted the driver, because the task is deferred until its end.

        Raises `ConfigError` if the namespace of the driver pod is not known.
        """
        self.is_deferred = True
        self.polls_yarn = self.is_yarn and self.is_cluster
        self.polls_kubernetes = self.is_kubernetes and self.is_cluster
        if self.polls_kubernetes and not self.namespace:
            raise config_error(
                f"conn_id: connection {self.conn_id!r} has no namespace, in which the trigger follows the driver pod; "
                "set its extra 'namespace', or spark.kubernetes.namespace in conf"
            )

    def track_application(self) -> bool:
        """Let the task wait for an application on YARN instead of spark-submit, so that a retry can continue with it.

        Return whether that is possible. On other clusters, nothing changes.
        """
        if not (self.is_yarn and self.is_cluster):
            return True
        if self.conf.get(WAIT_KEY, "false").strip().lower() == "false" and self._resource_managers:
            self.polls_yarn = True
        return self.polls_yarn

    def wait_in_spark_submit(self) -> None:
        """Let spark-submit wait for a driver on a cluster if the task itself does not wait."""
        if self.is_cluster and self.drivers() is None:
            self.conf[WAIT_KEY if self.is_yarn else _KUBERNETES_WAIT_KEY] = "true"

    def drivers(self) -> Drivers | None:
        """Return the drivers of the cluster, or None if spark-submit itself waits for the driver."""
        is_waiting = self.is_yarn and self.is_cluster and not self.polls_yarn
        return None if is_waiting else self.reachable_drivers()

    def reachable_drivers(self) -> Drivers | None:
        """Return the drivers of the cluster even if spark-submit waits, or None if no address is known."""
        if self.is_standalone_cluster:
            return StandaloneDrivers(rest_addresses(self.master, self.rest_scheme, self.rest_port))
        if self.is_yarn and self.is_cluster and self._resource_managers:
            return self._yarn_drivers
        if self.polls_kubernetes:
            return KubernetesDrivers(str(self.namespace))
        return None

    def on_kill(self) -> None:
        """Stop the driver on a cluster.

        Applications of YARN are killed through the REST API of the resource manager, because workers rarely have
        Hadoop's commands. The provider's hook starts `yarn`. On Kubernetes, it deletes the pod whose name it has read.
        """
        if self.reachable_drivers() is None:
            super().on_kill()
            return
        self.end_submission()
        self.end_applications()
        self.run_post_submit_commands()

    def end_submission(self) -> None:
        """End spark-submit, which could submit a driver after the drivers of the run were ended."""
        self._job.end()

    def end_applications(self) -> None:
        """End the run's drivers on YARN or Kubernetes that have not ended, also those that an earlier try has left."""
        drivers = self.reachable_drivers()
        if drivers is None:
            return
        try:
            for driver_id in self.tagged_drivers(only_active=True):
                self.log.info("Driver %s of this run is ended", driver_id)
                drivers.kill(driver_id)
        except (ClusterUnreachableError, PushdownTaskError) as error:
            self.log.warning("Drivers of this run may still run on the cluster: %s", error)

    def tagged_drivers(self, *, only_active: bool) -> list[str]:
        """Return the ids of the run's drivers on YARN or Kubernetes by the tag of the run, the newest first.

        With `only_active`, only those that have not ended. Raises `ClusterUnreachableError`.
        """
        drivers = self.reachable_drivers()
        return [] if self._run_tag is None or drivers is None else drivers.find(self._run_tag, only_active=only_active)

    def tag_applications(self, tag: str) -> None:
        """Give the application on YARN, or the driver pod on Kubernetes, a tag in addition to those of the user."""
        self._run_tag = tag
        if self.is_yarn:
            self.conf[TAGS_KEY] = ",".join(filter(None, (self.conf.get(TAGS_KEY), tag)))
        elif self.is_kubernetes:
            self.conf[f"spark.kubernetes.driver.label.{RUN_LABEL}"] = tag

    @cached_property
    def _resource_managers(self) -> list[str]:
        """The address of the resource manager in the connection, otherwise those in Hadoop's configuration."""
        try:
            return [super().resource_manager()]
        except ValueError:
            return configured_addresses()

    @cached_property
    def _yarn_drivers(self) -> YarnDrivers:
        """The drivers on YARN. The task keeps them, so that a kill begins with the resource manager that responds."""
        return YarnDrivers(self._resource_managers, self.uses_kerberos, self.yarn_auth)

    def resource_manager(self) -> str:
        """Return an address of a resource manager, which the provider's hook requires to follow applications."""
        return self._resource_managers[0] if self._resource_managers else super().resource_manager()

    def read_connection(self) -> dict[str, Any]:
        """Return the values of the connection, but raise for a missing or invalid one."""
        conn_id = self.conn_id
        try:
            extras = BaseHook.get_connection(conn_id).extra_dejson
        except AirflowNotFoundException as error:
            raise config_error(
                f"conn_id: there is no Airflow connection {conn_id!r}; create it with conn_type spark and the master "
                "as its host"
            ) from error
        self._check_extras(conn_id, extras)
        self.history_extra = extras.get(HISTORY_EXTRA)
        self._default_exchange_dir = extras.get(EXCHANGE_EXTRA)
        self._default_exchange_conn_id = extras.get(EXCHANGE_CONNECTION_EXTRA)
        try:
            return super().read_connection()
        except ValueError as error:
            raise config_error(f"conn_id: connection {conn_id!r}: {error}") from error

    def _check_extras(self, conn_id: str, extras: Mapping[str, object]) -> None:
        """Raise for misspelled extras and a port that is not a number, and log a warning for unknown extras."""
        for name in sorted(set(extras) - _KNOWN_EXTRAS):
            meant = name.replace("_", "-")
            if meant in _KNOWN_EXTRAS:
                raise config_error(f"conn_id: connection {conn_id!r} has the extra {name!r}; it is spelled {meant!r}")
            self.log.warning("Connection %s: extra %s is not used", conn_id, name)
        port = extras.get("rest-port", "0")
        if not str(port).isdecimal():
            raise config_error(
                f"conn_id: connection {conn_id!r} has the extra 'rest-port' {port!r}; set a number, or remove it"
            )
