"""The API server of Kubernetes on this machine, with etcd. Tests set the phases of pods, or let a kubelet run them."""

from __future__ import annotations

import json
import secrets
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from e2e.ports import HOST, free_port
from e2e.processes import Programs, wait_for

NAMESPACE = "default"
_START_SECONDS = 180.0


@dataclass
class KubernetesApi:
    """The configuration and the processes of an API server. `binaries` has the programs kube-apiserver and etcd."""

    programs: Programs
    run: Path
    binaries: Path
    port: int = field(default_factory=free_port)
    etcd_port: int = field(default_factory=free_port)
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def master(self) -> str:
        """The master URL for submissions."""
        return f"k8s://https://{HOST}:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """The configuration of clients."""
        return self.run / "kubeconfig.json"

    @property
    def audit_log(self) -> Path:
        """The file with every request, one JSON document a line."""
        return self.run / "audit.jsonl"

    @property
    def certificate(self) -> Path:
        """The certificate of the API server, which signs itself."""
        return self.run / "certificates" / "apiserver.crt"

    @property
    def token_file(self) -> Path:
        """The file with the token of the administrator."""
        return self.run / "token"

    def start(self) -> None:
        """Start etcd and the API server, and wait until the default namespace exists."""
        self._write_files()
        peer = f"http://{HOST}:{free_port()}"
        client = f"http://{HOST}:{self.etcd_port}"
        self.programs.start(
            "etcd",
            [
                *(str(self.binaries / "etcd"), "--data-dir", str(self.run / "etcd")),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"default={peer}"),
            ],
        )
        self.programs.start(
            "kube-apiserver",
            [
                *(str(self.binaries / "kube-apiserver"), "--etcd-servers", client),
                *(
                    "--bind-address",
                    HOST,
                    "--secure-port",
                    str(self.port),
                    "--cert-dir",
                    str(self.run / "certificates"),
                ),
                *("--token-auth-file", str(self.run / "tokens.csv"), "--authorization-mode", "RBAC"),
                *("--service-account-issuer", f"https://{HOST}:{self.port}"),
                *("--service-account-key-file", str(self.run / "service-account.pem")),
                *("--service-account-signing-key-file", str(self.run / "service-account.pem")),
                # Without controllers, namespaces have no service accounts.
                *("--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount"),
                *("--audit-policy-file", str(self.run / "audit-policy.json"), "--audit-log-path", str(self.audit_log)),
            ],
        )
        wait_for("the API server", self._is_up, _START_SECONDS, self.programs.check)

    def request(self, method: str, path: str, body: object = None, **headers: str) -> dict[str, object]:
        """Send a request to the API and return its answer. Raises `httpx.HTTPStatusError`."""
        response = httpx.request(
            method,
            f"https://{HOST}:{self.port}{path}",
            json=body,
            headers={"Authorization": f"Bearer {self._token}", **headers},
            verify=ssl.create_default_context(cafile=str(self.certificate)),
            timeout=30,
        )
        response.raise_for_status()
        answer: dict[str, object] = response.json()
        return answer

    def pods(self) -> dict[str, dict[str, dict[str, object]]]:
        """Return the pods of the namespace by their names."""
        items = self.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in items}  # type: ignore[attr-defined]

    def set_phase(self, pod: str, phase: str) -> None:
        """Set the phase of a pod, as a kubelet does."""
        self.request(
            "PATCH",
            f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/status",
            {"status": {"phase": phase}},
            **{"Content-Type": "application/merge-patch+json"},
        )

    def requests(self) -> list[dict[str, object]]:
        """Return every request that the API server has answered, with its body."""
        return [json.loads(line) for line in self.audit_log.read_text(encoding="utf-8").splitlines()]

    def _is_up(self) -> bool:
        try:
            self.request("GET", f"/api/v1/namespaces/{NAMESPACE}")
        except (httpx.HTTPError, OSError):
            return False
        return True

    def _write_files(self) -> None:
        key = rsa.generate_private_key(65537, 2048)
        (self.run / "service-account.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (self.run / "tokens.csv").write_text(f'{self._token},admin,1,"system:masters"\n', encoding="utf-8")
        self.token_file.write_text(self._token, encoding="utf-8")
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]}
        (self.run / "audit-policy.json").write_text(json.dumps(policy), encoding="utf-8")
        cluster = {
            "server": f"https://{HOST}:{self.port}",
            "certificate-authority": str(self.certificate),
        }
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "admin", "namespace": NAMESPACE}}],
            "current-context": "local",
        }
        self.kubeconfig.write_text(json.dumps(configuration), encoding="utf-8")
