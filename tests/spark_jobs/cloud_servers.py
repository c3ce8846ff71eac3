"""Real servers with the protocols of S3, Azure and Google Cloud Storage, from PyPI, npm and the Go module proxy."""

from __future__ import annotations

import hmac
import sys
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from pyspark.sql import SparkSession
from s3_server import REGION
from s3_server import ROOT as ROOT_KEYS
from store_servers import AZURE_ACCOUNT, AZURE_KEY, azurite, create_google_bucket, google_server, run_program

from e2e.ports import free_port
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles
from pushdown_spark.sources.stores.azure_settings import AzureSettings
from pushdown_spark.sources.stores.google_settings import GoogleSettings
from pushdown_spark.sources.stores.object_store import StoreSettings
from pushdown_spark.sources.stores.s3_settings import S3Settings
from pushdown_spark.sources.stores.storage import Storage


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
        return Storage({self.bucket: self.settings})

    def path(self, key: str) -> str:
        return f"{self.scheme}://{self.bucket}/{key}"

    def put(self, key: str, content: bytes) -> str:
        """Store an object and return its path."""
        path = self.settings.object_path(self.bucket, key)
        with self.settings.connect().open_output_stream(path, compression=None) as stream:
            stream.write(content)
        return self.path(key)

    def delete(self, key: str) -> None:
        self.settings.connect().delete_file(self.settings.object_path(self.bucket, key))


class Azurite(CloudStore):
    """Azure's own emulator."""

    bucket = f"lake@{AZURE_ACCOUNT}.dfs.core.windows.net"
    scheme = "abfs"
    file_system = "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem"

    @property
    def settings(self) -> AzureSettings:
        return AzureSettings(AZURE_ACCOUNT, scheme="http", endpoint=f"127.0.0.1:{self.port}", key=AZURE_KEY)

    def expiring_settings(self, seconds: int) -> AzureSettings:
        """Return the settings of a client whose access ends after some seconds."""
        expiry = f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
        version, services, kinds, permissions = "2020-02-10", "b", "sco", "rl"
        signed = (AZURE_ACCOUNT, permissions, services, kinds, "", expiry, "", "https,http", version, "")
        signature = hmac.digest(b64decode(AZURE_KEY), "\n".join(signed).encode(), "sha256")
        parameters = {"sv": version, "ss": services, "srt": kinds, "sp": permissions, "se": expiry}
        token = urlencode(parameters | {"spr": "https,http", "sig": b64encode(signature).decode()})
        return replace(self.settings, key=None, sas_token=f"?{token}")

    @property
    def hadoop(self) -> Mapping[str, str]:
        return {
            f"fs.azure.account.key.{AZURE_ACCOUNT}.dfs.core.windows.net": AZURE_KEY,
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


class S3Server(CloudStore):
    """A server with Amazon's protocol. It does not check credentials."""

    bucket = "lake"
    scheme = "s3a"
    file_system = "org.apache.hadoop.fs.s3a.S3AFileSystem"

    @property
    def settings(self) -> S3Settings:
        return S3Settings(REGION, "http", f"127.0.0.1:{self.port}", virtual=False, keys=ROOT_KEYS)

    @property
    def hadoop(self) -> Mapping[str, str]:
        return {
            "fs.s3a.access.key": ROOT_KEYS.access_key,
            "fs.s3a.secret.key": ROOT_KEYS.secret_key,
            "fs.s3a.session.token": ROOT_KEYS.token,
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
        }


@contextmanager
def run_server(kind: type[CloudStore], directory: Path) -> Iterator[CloudStore]:
    """Run a server with its data in a directory. Skips the test if the server cannot be installed."""
    port = free_port()
    command = {Azurite: azurite, GoogleServer: google_server, S3Server: _s3_server}[kind](port)
    with run_program(command, port, directory):
        store = kind(port)
        if kind is GoogleServer:
            create_google_bucket(port, "lake")
        elif kind is S3Server:
            urlopen(Request(f"http://127.0.0.1:{port}/lake", method="PUT")).close()
        else:
            store.settings.connect().create_dir("lake")
        yield store


@contextmanager
def mount(spark: SparkSession, store: CloudStore, folder: Path) -> Iterator[None]:
    """Let Hadoop show a local directory as `data` in the bucket, and give it the settings of the server.

    Hadoop keeps the opened file system, so that Spark lists and reads it without the classes for the store.
    """
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in store.hadoop.items():
        hadoop.set(key, value)
    for name in {store.bucket, store.bucket.rpartition("@")[2]}:
        hadoop.set(f"fs.viewfs.mounttable.{name}.link./data", folder.as_uri())
    hadoop.set(f"fs.{store.scheme}.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    try:
        assert HadoopFiles(spark).exists(store.path("data"))
    finally:
        hadoop.set(f"fs.{store.scheme}.impl", store.file_system)
    yield
    for key in store.hadoop:
        hadoop.unset(key)


def _s3_server(port: int) -> list[str]:
    return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
