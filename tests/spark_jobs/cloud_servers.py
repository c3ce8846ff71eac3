"""Real servers with the protocols of Azure and of Google Cloud Storage, from npm and from the Go module proxy."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from pushdown_spark.relations.azure_settings import AzureSettings
from pushdown_spark.relations.google_settings import GoogleSettings
from pushdown_spark.relations.object_store import StoreSettings
from pushdown_spark.relations.storage import Storage

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "stores"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The public key of the emulator's only account."""
_SECONDS = 60


@dataclass(frozen=True)
class CloudStore(ABC):
    """A running server. `port` is its port on this machine."""

    port: int

    @property
    @abstractmethod
    def bucket(self) -> str:
        """The authority of the only bucket in the URIs of files."""

    @property
    @abstractmethod
    def scheme(self) -> str:
        """The scheme of the URIs of files."""

    @property
    @abstractmethod
    def settings(self) -> StoreSettings:
        """The settings of a client."""

    @property
    @abstractmethod
    def hadoop(self) -> Mapping[str, str]:
        """Hadoop's settings for the server, which `settings` are the translation of."""

    @property
    @abstractmethod
    def file_system(self) -> str:
        """Hadoop's class for the scheme."""

    @property
    def storage(self) -> Storage:
        """The storage of a worker."""
        return Storage({self.bucket: self.settings})

    def path(self, key: str) -> str:
        """Return the path of an object."""
        return f"{self.scheme}://{self.bucket}/{key}"

    def put(self, key: str, content: bytes) -> str:
        """Store an object and return its path."""
        path = self.settings.object_path(self.bucket, key)
        with self.settings.connect().open_output_stream(path, compression=None) as stream:
            stream.write(content)
        return self.path(key)

    def delete(self, key: str) -> None:
        """Delete an object."""
        self.settings.connect().delete_file(self.settings.object_path(self.bucket, key))


class Azurite(CloudStore):
    """Azure's own emulator."""

    bucket = "lake@devstoreaccount1.dfs.core.windows.net"
    scheme = "abfs"
    file_system = "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem"

    @property
    def settings(self) -> AzureSettings:
        return AzureSettings("devstoreaccount1", scheme="http", endpoint=f"127.0.0.1:{self.port}", key=AZURE_KEY)

    @property
    def hadoop(self) -> Mapping[str, str]:
        return {
            "fs.azure.account.key.devstoreaccount1.dfs.core.windows.net": AZURE_KEY,
            "fs.azure.abfs.endpoint": f"127.0.0.1:{self.port}",
            "fs.azure.always.use.https": "false",
        }


class GoogleServer(CloudStore):
    """A server with Google's protocol. It does not check credentials."""

    bucket = "lake"
    scheme = "gs"
    file_system = "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"

    @property
    def settings(self) -> GoogleSettings:
        return GoogleSettings(anonymous=True, scheme="http", endpoint=f"127.0.0.1:{self.port}")

    @property
    def hadoop(self) -> Mapping[str, str]:
        return {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.storage.root.url": f"http://127.0.0.1:{self.port}/"}


@contextmanager
def running(kind: type[CloudStore], directory: Path) -> Iterator[CloudStore]:
    """Run a server with its data in a directory. Skips the test if the server cannot be installed."""
    port = _free_port()
    command = _azurite(port, directory) if kind is Azurite else _google_server(port)
    with (directory / "log.txt").open("w") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        _wait(process, port, directory / "log.txt")
        store = kind(port)
        if kind is Azurite:
            store.settings.connect().create_dir("lake")
        else:
            address = f"http://127.0.0.1:{port}/storage/v1/b"
            urlopen(Request(address, b'{"name": "lake"}', {"Content-Type": "application/json"})).close()
        yield store
    finally:
        process.kill()
        process.wait()


def _azurite(port: int, directory: Path) -> list[str]:
    program = CACHE / "node_modules" / ".bin" / "azurite-blob"
    _install(program, ["npm", "install", "--silent", "--prefix", str(CACHE), _requirement("azurite")])
    listen = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(directory))
    return [str(program), *listen, "--skipApiVersionCheck", "--loose"]


def _google_server(port: int) -> list[str]:
    program = CACHE / "fake-gcs-server"
    _install(program, ["go", "install", _requirement("github.com")], GOBIN=str(CACHE))
    address = f"127.0.0.1:{port}"
    listen = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", address)
    return [str(program), *listen, "-backend", "memory"]


def _install(program: Path, command: list[str], **environment: str) -> None:
    if program.exists():
        return
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True, env=os.environ | environment, cwd=CACHE)


def _requirement(prefix: str) -> str:
    lines = (ROOT / "requirements" / "stores.txt").read_text(encoding="utf-8").split()
    return next(line for line in lines if line.startswith(prefix))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text()[-500:]}")
