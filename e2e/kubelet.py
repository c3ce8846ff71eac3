"""A kubelet that runs the containers of pods as processes of this machine, without isolation."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]

from e2e.kubernetes import NAMESPACE, KubernetesApi
from e2e.ports import HOST
from e2e.processes import Program, Programs

_POLL_SECONDS = 0.2
_SERVICE = re.compile(rf"[\w-]+\.{NAMESPACE}\.svc")
"""The name of a service, which the DNS of a cluster resolves."""


@dataclass
class Kubelet:
    """The processes of pods.

    `entrypoint` and `environment` are those of the only image. `secrets` are the entries of secrets by the names of
    both, so that the API server does not have them.
    """

    api: KubernetesApi
    programs: Programs
    run: Path
    entrypoint: Sequence[str]
    environment: Mapping[str, str]
    secrets: Mapping[tuple[str, str], str]
    _running: dict[str, Program] = field(default_factory=dict)
    _started: set[str] = field(default_factory=set)
    _stopped: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Run pods during the block."""
        thread = threading.Thread(target=self._serve, name="kubelet")
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    @property
    def started(self) -> list[str]:
        """The names of all pods that have run."""
        return sorted(self._started)

    def is_running(self, pod: str) -> bool:
        """Return whether the process of a pod runs."""
        return pod in self._running

    def kill(self, pod: str) -> None:
        """Kill the process of a pod with SIGKILL, as the kernel does without memory."""
        self._running[pod].process.kill()

    def log(self, pod: str) -> str:
        """Return what the process of a pod has printed."""
        return (self.programs.logs / f"{pod}.log").read_text(encoding="utf-8", errors="replace")

    def _serve(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            # A pod may be deleted at any time.
            with contextlib.suppress(httpx.HTTPError):
                self._follow(self.api.pods())
        for program in self._running.values():
            _end(program)

    def _follow(self, pods: Mapping[str, Mapping[str, Any]]) -> None:
        """Start new pods, end deleted ones, and report those whose process has ended."""
        for name in [name for name in self._running if name not in pods]:
            _end(self._running.pop(name))
        for name, program in list(self._running.items()):
            if (code := program.process.poll()) is not None:
                del self._running[name]
                self.api.set_phase(name, "Failed" if code else "Succeeded")
        for name, pod in pods.items():
            if name not in self._started:
                # Spark creates the config maps of a pod after the pod. Until then, each round tries again.
                self._start(name, pod)

    def _start(self, name: str, pod: Mapping[str, Any]) -> None:
        (container,) = pod["spec"]["containers"]
        mounts = self._mounts(name, pod, container)
        variables = {entry["name"]: self._value(name, entry) for entry in container.get("env", ())}
        words = [_on_this_machine(word, mounts) for word in container["args"]]
        program = self.programs.start(
            name,
            [*self.entrypoint, *words],
            **{**self.environment, **{key: _on_this_machine(value, mounts) for key, value in variables.items()}},
        )
        self._started.add(name)
        self._running[name] = program
        self.api.set_phase(name, "Running")

    def _mounts(self, name: str, pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Path]:
        """Create the directories of a pod's volumes. Return them by their paths in the container."""
        config_maps = {
            volume["name"]: volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume
        }
        mounts = {}
        for mount in container.get("volumeMounts", ()):
            directory = self.run / name / mount["name"]
            directory.mkdir(parents=True, exist_ok=True)
            mounts[mount["mountPath"]] = directory
            if mount["name"] in config_maps:
                path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{config_maps[mount['name']]}"
                files: Mapping[str, str] = self.api.request("GET", path).get("data") or {}  # type: ignore[assignment]
                for file, text in files.items():
                    (directory / file).write_text(_SERVICE.sub(HOST, text), encoding="utf-8")
        return mounts

    def _value(self, pod: str, entry: Mapping[str, Any]) -> str:
        """Return the value of a variable: a text, a field of the pod, or an entry of a secret."""
        source = entry.get("valueFrom") or {}
        if "secretKeyRef" in source:
            return self.secrets[source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]]
        if "fieldRef" in source:
            return {"status.podIP": HOST, "metadata.name": pod}[source["fieldRef"]["fieldPath"]]
        return str(entry.get("value", ""))


def _on_this_machine(text: str, mounts: Mapping[str, Path]) -> str:
    """Return a text with the paths of this machine instead of those in the container."""
    for path, directory in mounts.items():
        text = text.replace(path, str(directory))
    return text


def _end(program: Program) -> None:
    """End a process and its descendants."""
    for process in reversed(program.tree()):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    program.process.wait()
