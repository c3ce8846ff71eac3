"""Programs with the protocols of Azure and Google Cloud Storage, from npm and the Go module proxy."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "stores"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The public key of the emulator's only account."""
_SECONDS = 60


@contextmanager
def run_program(command: Sequence[str], port: int, directory: Path) -> Iterator[None]:
    """Run a server during the block, with its data in a directory. Raises `RuntimeError` if it does not start."""
    with (directory / "log.txt").open("w") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        _wait(process, port, directory / "log.txt")
        yield
    finally:
        process.kill()
        process.wait()


def azurite(port: int) -> list[str]:
    """Return the command of Azure's own emulator. Skips the test if it cannot be installed."""
    program = CACHE / "node_modules" / ".bin" / "azurite-blob"
    install(program, ["npm", "install", "--silent", "--prefix", str(CACHE), _requirement("azurite")])
    listen = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", ".")
    return [str(program), *listen, "--skipApiVersionCheck", "--loose"]


def google_server(port: int) -> list[str]:
    """Return the command of a server with Google's protocol. Skips the test if it cannot be installed."""
    program = CACHE / "fake-gcs-server"
    install(program, ["go", "install", _requirement("github.com")], GOBIN=str(CACHE))
    address = f"127.0.0.1:{port}"
    listen = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", address)
    return [str(program), *listen, "-backend", "memory"]


def create_google_bucket(port: int, name: str) -> None:
    """Create a bucket on the server with Google's protocol."""
    address = f"http://127.0.0.1:{port}/storage/v1/b"
    urlopen(Request(address, f'{{"name": "{name}"}}'.encode(), {"Content-Type": "application/json"})).close()


def install(program: Path, command: list[str], **environment: str) -> None:
    """Create a file in the cache with a command, unless it exists. Skips the test without the command."""
    if program.exists():
        return
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True, env=os.environ | environment, cwd=CACHE)


def _requirement(prefix: str) -> str:
    lines = (ROOT / "requirements" / "stores.txt").read_text(encoding="utf-8").split()
    return next(line for line in lines if line.startswith(prefix))


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text()[-500:]}")
