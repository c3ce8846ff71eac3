"""Driver pods on Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from urllib3.exceptions import HTTPError

from airflow_pushdown.clusters.drivers import SHORT_TIMEOUT, TIMEOUT, ClusterUnreachableError, DriverPhase, DriverStatus
from airflow_pushdown.exceptions import config_error

RUN_LABEL = "airflow-pushdown-run"
"""The label of driver pods with the tag of their run."""
_PROVIDER = "apache-airflow-providers-cncf-kubernetes"


class KubernetesDrivers:
    """Driver pods, through the client of Airflow's Kubernetes provider. Their ids are `namespace:pod`."""

    kind: ClassVar[str] = "kubernetes"
    min_interval: ClassVar[float] = 5.0
    _PHASES: ClassVar[Mapping[str, DriverPhase]] = {
        "Succeeded": DriverPhase.SUCCEEDED,
        "Failed": DriverPhase.FAILED,
    }
    _NOT_FOUND: ClassVar[int] = 404

    def __init__(self, namespace: str = "") -> None:
        """Set the namespace of the pods to find."""
        self._namespace = namespace

    def status(self, driver_id: str) -> DriverStatus:
        """Return the status of a driver pod. The phase Unknown means that its node does not respond."""
        namespace, _, name = driver_id.partition(":")
        pod = self._request(lambda client: client.read_namespaced_pod(name, namespace, _request_timeout=TIMEOUT))
        if pod is None:
            return DriverStatus(DriverPhase.MISSING, "", "Kubernetes does not know the driver pod")
        phase = str(pod.status.phase or "Pending")  # type: ignore[attr-defined]
        reason = str(pod.status.message or "")  # type: ignore[attr-defined]
        return DriverStatus(self._PHASES.get(phase, DriverPhase.ACTIVE), phase, reason)

    def kill(self, driver_id: str) -> None:
        """Delete a driver pod, which also deletes its executors."""
        namespace, _, name = driver_id.partition(":")
        self._request(lambda client: client.delete_namespaced_pod(name, namespace, _request_timeout=SHORT_TIMEOUT))

    def find(self, tag: str, *, only_active: bool) -> list[str]:
        """Return the ids of the driver pods with the tag of a run as their label, the newest first."""
        selector = {"label_selector": f"{RUN_LABEL}={tag}", "_request_timeout": SHORT_TIMEOUT}
        response: Any = self._request(lambda client: client.list_namespaced_pod(self._namespace, **selector))
        if response is None:
            raise ClusterUnreachableError("Kubernetes: 404, not the response to a list of pods")
        pods = [pod for pod in response.items if not only_active or pod.status.phase not in self._PHASES]
        newest_first = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp, reverse=True)
        return [f"{self._namespace}:{pod.metadata.name}" for pod in newest_first]

    def settings(self) -> dict[str, object]:
        """Return the namespace. The client is configured by its environment."""
        return {"namespace": self._namespace}

    def _request(self, call: Callable[[Any], object]) -> object | None:
        """Return the result of a call with the client, or None if the pod does not exist."""
        try:
            from airflow.providers.cncf.kubernetes import kube_client  # type: ignore[import-not-found]
            from kubernetes.config import ConfigException  # type: ignore[import-not-found]
        except ImportError as error:
            raise config_error(f"conn_id: a Kubernetes master needs {_PROVIDER}; install it") from error
        try:
            return call(kube_client.get_kube_client())
        except kube_client.ApiException as error:
            if error.status == self._NOT_FOUND:
                return None
            raise ClusterUnreachableError(f"Kubernetes: {error.status} {error.reason}") from error
        except (OSError, HTTPError) as error:
            raise ClusterUnreachableError(f"Kubernetes: {error}") from error
        except ConfigException as error:
            raise config_error(
                f"conn_id: Airflow has no access to Kubernetes ({error}); set [kubernetes_executor] in_cluster, or "
                "config_file to a kubeconfig"
            ) from error
