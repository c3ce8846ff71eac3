"""The hook of Airflow's Spark provider, with public names for its private members.

Releases of the provider may change private members. No other module of this package uses them, and a test checks that
the installed provider has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from subprocess import Popen
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook


class ProviderHook(SparkSubmitHook):
    """The provider's hook. It resolves a connection, builds a command, and extracts ids from the output."""

    @property
    def conn_id(self) -> str:
        """The id of the connection."""
        return str(self._conn_id)

    @property
    def master(self) -> str:
        """The master of the connection, for example `spark://host:7077`."""
        return str(self._connection["master"])

    @property
    def binary(self) -> str:
        """The name or path of spark-submit in the connection."""
        return str(self._connection["spark_binary"])

    @property
    def namespace(self) -> str | None:
        """The namespace of the driver pod on Kubernetes."""
        namespace: str | None = self._connection["namespace"]
        return namespace

    @property
    def rest_scheme(self) -> str:
        """The scheme of the REST server of a standalone master."""
        return str(self._connection["rest_scheme"])

    @property
    def rest_port(self) -> int:
        """The port of the REST server of a standalone master."""
        return int(self._connection["rest_port"])

    @property
    def uses_kerberos(self) -> bool:
        """Whether the connection has a principal with a keytab."""
        return bool(self._connection["keytab"] and self._connection["principal"])

    @property
    def yarn_auth(self) -> Any:  # noqa: ANN401 - an object of requests
        """The user's authentication for the resource manager, or None."""
        return self._yarn_rm_auth

    @property
    def is_cluster(self) -> bool:
        """Whether the driver runs on the cluster."""
        return bool(self._connection["deploy_mode"] == "cluster")

    @property
    def is_standalone_cluster(self) -> bool:
        """Whether the driver runs on a Spark standalone cluster."""
        return bool(self._should_track_driver_status)

    @property
    def is_yarn(self) -> bool:
        """Whether the master is YARN."""
        return bool(self._is_yarn)

    @property
    def is_kubernetes(self) -> bool:
        """Whether the master is Kubernetes."""
        return bool(self._is_kubernetes)

    @property
    def polls_yarn(self) -> bool:
        """Whether the task asks YARN for the state of the application, while spark-submit does not wait."""
        return bool(self._should_track_yarn_application_via_rm_api())

    @polls_yarn.setter
    def polls_yarn(self, value: bool) -> None:
        self._yarn_track_via_rm_api = value

    @property
    def polls_kubernetes(self) -> bool:
        """Whether the task asks Kubernetes for the state of the driver pod, while spark-submit does not wait."""
        return bool(self._should_track_driver_via_k8s_api())

    @polls_kubernetes.setter
    def polls_kubernetes(self, value: bool) -> None:
        self._track_driver_via_k8s_api = value

    @property
    def conf(self) -> dict[str, str]:
        """The settings of the command, which may be changed."""
        conf: dict[str, str] = self._conf
        return conf

    @property
    def properties_file(self) -> str | None:
        """The user's properties file."""
        file: str | None = self._properties_file
        return file

    @property
    def driver_class_path(self) -> str | None:
        """The user's additional class path of the driver."""
        path: str | None = self._driver_class_path
        return path

    @property
    def env_vars(self) -> Mapping[str, object] | None:
        """The user's environment variables of the job."""
        variables: Mapping[str, object] | None = self._env_vars
        return variables

    @property
    def submit_variables(self) -> Mapping[str, object] | None:
        """Those of `env_vars` that spark-submit itself gets, as soon as the command is built."""
        variables: Mapping[str, object] | None = self._env
        return variables

    @property
    def poll_interval(self) -> float:
        """The seconds between two requests for the status of a driver."""
        return float(self._status_poll_interval)

    @property
    def driver_id(self) -> str | None:
        """The id of the driver on the cluster, as the provider's operator stores it, or None if it is not known."""
        if self._is_kubernetes:
            pod = self._kubernetes_driver_pod
            return f"{self.namespace}:{pod}" if pod else None
        return self._yarn_application_id if self._is_yarn else self._driver_id

    @property
    def driver_exit_code(self) -> int | None:
        """The exit code of a driver pod in the output of spark-submit."""
        return self._spark_exit_code

    def attach(self, driver_id: str) -> None:
        """Use a driver that another try or process has submitted."""
        if self._is_kubernetes:
            self.attach_pod(driver_id.partition(":")[2])
        elif self._is_yarn:
            self._yarn_application_id = driver_id
        else:
            self._driver_id = driver_id

    def attach_pod(self, pod: str) -> None:
        """Use a driver pod on Kubernetes."""
        self._kubernetes_driver_pod = pod

    def detach(self) -> None:
        """Forget the driver of an earlier try, because the provider's hook keeps the first id that it has seen."""
        self._kubernetes_driver_pod = self._yarn_application_id = self._driver_id = None

    def set_arguments(self, arguments: Sequence[str]) -> None:
        """Set the arguments of the program."""
        self._application_args = list(arguments)

    def take_process(self, process: Popen[bytes]) -> None:
        """Set the spark-submit that runs. Without it, `on_kill` does not stop a driver on a cluster."""
        self._submit_sp = process

    def take_line(self, line: str) -> None:
        """Log a line of spark-submit, and extract the ids of driver and application."""
        self._process_spark_submit_log(iter((line,)))

    def check_yarn_polling(self) -> None:
        """Raise `ValueError` if the task cannot ask YARN for the state of the application."""
        self._validate_yarn_track_via_rm_api_config()

    def run_post_submit_commands(self) -> None:
        """Run the user's commands for the end of a submission, once."""
        self._run_post_submit_commands()

    # The provider calls the following private methods, which subclasses replace under public names.

    def read_connection(self) -> dict[str, Any]:
        """Return the values of the connection."""
        values: dict[str, Any] = super()._resolve_connection()
        return values

    def submit_program(self) -> str:
        """Return the spark-submit to run."""
        return str(super()._get_spark_binary_path()[0])

    def build_command(self, application: str) -> list[str]:
        """Return the command of spark-submit for a program."""
        command: list[str] = super()._build_spark_submit_command(application)
        return command

    def mask(self, words: Sequence[str]) -> str:
        """Return a command for the log."""
        return str(super()._mask_cmd(list(words)))

    def resource_manager(self) -> str:
        """Return the address of YARN's resource manager. Raises `ValueError` if the connection has none."""
        return str(super()._get_yarn_rm_base_url())

    def _resolve_connection(self) -> dict[str, Any]:
        return self.read_connection()

    def _get_spark_binary_path(self) -> list[str]:
        return [self.submit_program()]

    def _build_spark_submit_command(self, application: str) -> list[str]:
        return self.build_command(application)

    def _mask_cmd(self, connection_cmd: str | list[str]) -> str:
        return self.mask([connection_cmd] if isinstance(connection_cmd, str) else connection_cmd)

    def _get_yarn_rm_base_url(self) -> str:
        return self.resource_manager()
