"""Checks of the product in containers: `python -m e2e.compose`. Requires docker with compose.

The secrets of the run are in `.e2e/compose-*/env`, which is deleted with the containers and volumes. The logs of a
failed run are kept next to it.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from e2e import ROOT
from e2e.ports import free_port
from e2e.signals import interrupt_on_signals

_PASSWORDS = (
    "POSTGRES_PASSWORD",
    "SHOP_PASSWORD",
    "AIRFLOW_ADMIN_PASSWORD",
    "AIRFLOW_JWT_SECRET",
    "AIRFLOW_API_SECRET_KEY",
    "OBJECT_STORE_PASSWORD",
    "SPARK_SECRET",
)
_PORTS = ("AIRFLOW_PORT", "SPARK_MASTER_UI_PORT", "SPARK_HISTORY_PORT")
_HEALTHY_SECONDS = "900"
# 48 bytes are 64 characters, the key length of HMAC with SHA-512, with which Airflow signs its tokens.
_SECRET_BYTES = 48


class Composition:
    """The containers, networks and volumes of one run."""

    def __init__(self, run: Path) -> None:
        """Set the directory of the run. Its name is the name of the compose project."""
        self._run = run
        self._command = [
            *("docker", "compose", "--project-name", run.name, "--file", str(ROOT / "docker-compose.yaml")),
            *("--env-file", str(run / "env")),
        ]

    def call(self, *arguments: str) -> int:
        """Run a compose command and return its exit code."""
        return subprocess.run(  # noqa: S603 - docker with our own arguments
            [*self._command, *arguments], cwd=ROOT, check=False
        ).returncode

    def keep_logs(self) -> Path:
        """Write the logs of all services to a file and return its path."""
        path = self._run.with_name(f"{self._run.name}.log")
        with path.open("wb") as output:
            command = [*self._command, "logs", "--no-color", "--timestamps"]
            subprocess.run(  # noqa: S603 - docker with our own arguments
                command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False
            )
        return path

    def take_down(self) -> None:
        """Remove the containers, networks and volumes of the run."""
        self.call("down", "--volumes", "--remove-orphans", "--timeout", "20")


def main(_arguments: Sequence[str] = ()) -> int:
    """Run the checks in containers. Return 0 if they pass."""
    if shutil.which("docker") is None:
        print("docker was not found; `make e2e-local` runs the same checks without containers", file=sys.stderr)
        return 1
    interrupt_on_signals()
    try:
        return run_checks()
    except KeyboardInterrupt:
        print("\ne2e was interrupted; all containers were removed", file=sys.stderr)
        return 130


def run_checks() -> int:
    """Start the containers, run the checks, and always remove the containers. Return 0 if the checks pass."""
    (ROOT / ".e2e").mkdir(exist_ok=True)
    start = time.monotonic()
    with ExitStack() as stack:
        run = Path(tempfile.mkdtemp(prefix="compose-", dir=ROOT / ".e2e"))
        run = run.rename(run.with_name(run.name.lower()))
        stack.callback(shutil.rmtree, run)
        _write_secrets(run / "env")
        composition = Composition(run)
        stack.callback(composition.take_down)
        code = composition.call("up", "--build", "--detach", "--wait", "--wait-timeout", _HEALTHY_SECONDS)
        if code == 0:
            print(f"healthy after {time.monotonic() - start:.0f} s", flush=True)
            code = composition.call("run", "--rm", "checks")
        if code:
            print(f"\ne2e failed; the logs of the services are in {composition.keep_logs()}", file=sys.stderr)
            return 1
    print(f"e2e passed, {time.monotonic() - start:.0f} s")
    return 0


def _write_secrets(path: Path) -> None:
    """Write an environment file with free ports and new secrets. Only its owner can read it."""
    values = {name: secrets.token_urlsafe(_SECRET_BYTES) for name in _PASSWORDS}
    values["AIRFLOW_FERNET_KEY"] = base64.urlsafe_b64encode(os.urandom(32)).decode()
    values.update((name, str(free_port())) for name in _PORTS)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in values.items())


if __name__ == "__main__":
    sys.exit(main())
