"""Addresses of files for DataFusion, which opens objects of stores itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote

from pushdown_spark.errors import UnsafeInputError, UnsupportedError
from pushdown_spark.sources.stores.azure_settings import PUBLIC_DOMAIN, AzureSettings
from pushdown_spark.sources.stores.google_settings import GoogleSettings
from pushdown_spark.sources.stores.object_store import StoreSettings
from pushdown_spark.sources.stores.s3_settings import S3Settings
from pushdown_spark.sources.stores.storage import Storage

if TYPE_CHECKING:
    # Only workers import it.
    from datafusion import SessionContext
    from datafusion.object_store import AmazonS3, GoogleCloud, MicrosoftAzure

_GOOGLE_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
"""The environment variable with the file of a service account, which pyarrow reads, too."""


@dataclass(frozen=True)
class FileAddress:
    """The URL of a file for DataFusion, and the store that it registers for an object."""

    url: str
    bucket: str = ""
    settings: S3Settings | AzureSettings | GoogleSettings | None = None

    @classmethod
    def of(cls, path: str, storage: Storage) -> FileAddress:
        """Return the address of a file in a storage."""
        location = storage.bucket_of(path)
        if location is None:
            return cls(f"file://{quote(path)}")
        bucket, key = location
        if isinstance(bucket.settings, AzureSettings):
            container = bucket.name.partition("@")[0]
            return cls(f"az://{container}/{quote(key)}", container, bucket.settings)
        if isinstance(bucket.settings, GoogleSettings):
            return cls(f"gs://{bucket.name}/{quote(key)}", bucket.name, bucket.settings)
        assert isinstance(bucket.settings, S3Settings), "see `check_store`"
        return cls(f"s3://{bucket.name}/{quote(key)}", bucket.name, bucket.settings)

    def register(self, context: SessionContext) -> None:
        """Register the store of an object."""
        if isinstance(self.settings, AzureSettings):
            context.register_object_store("az://", _azure_store(self.bucket, self.settings), self.bucket)
        elif isinstance(self.settings, GoogleSettings):
            context.register_object_store("gs://", _google_store(self.bucket, self.settings), self.bucket)
        elif self.settings is not None:
            context.register_object_store("s3://", _s3_store(self.bucket, self.settings), self.bucket)


def _s3_store(bucket: str, settings: S3Settings) -> AmazonS3:
    from datafusion.object_store import AmazonS3

    keys = settings.keys
    assert keys is not None, "see `check_store`"
    return AmazonS3(
        bucket,
        region=settings.region,
        access_key_id=keys.access_key,
        secret_access_key=keys.secret_key,
        session_token=keys.token or None,
        endpoint=None if settings.endpoint is None else f"{settings.scheme}://{settings.endpoint}",
        allow_http=settings.scheme == "http",
    )


def _azure_store(container: str, settings: AzureSettings) -> MicrosoftAzure:
    from datafusion.object_store import MicrosoftAzure

    if settings.endpoint is not None:
        # DataFusion has no argument for the address of an emulator.
        os.environ["AZURITE_BLOB_STORAGE_URL"] = f"{settings.scheme}://{settings.endpoint}"
    principal = settings.principal
    return MicrosoftAzure(
        container,
        account=settings.account,
        access_key=settings.key,
        sas_query_pairs=None if settings.sas_token is None else parse_qsl(settings.sas_token.lstrip("?")),
        tenant_id=principal.tenant_id if principal else None,
        client_id=principal.client_id if principal else None,
        client_secret=principal.client_secret if principal else None,
        use_emulator=settings.endpoint is not None,
    )


def _google_store(bucket: str, settings: GoogleSettings) -> GoogleCloud:
    """Return a bucket. Raises UnsafeInputError without the file of a service account, unless access is anonymous."""
    from datafusion.object_store import GoogleCloud

    if settings.anonymous:
        with _anonymous_key_file(settings) as path:
            return GoogleCloud(bucket, path)
    return GoogleCloud(bucket, _service_account_file())


@contextmanager
def _anonymous_key_file(settings: GoogleSettings) -> Iterator[str]:
    """Write a key file without a key, which is how DataFusion takes anonymous access and the address of a store."""
    document: dict[str, object] = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    if settings.endpoint is not None:
        document["gcs_base_url"] = f"{settings.scheme}://{settings.endpoint}"
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        yield file.name


def _service_account_file() -> str:
    """Return the path of the file with this process's credentials, in the only form that DataFusion reads."""
    path = os.environ.get(_GOOGLE_KEY_FILE, "")
    try:
        kind = json.loads(Path(path).read_text(encoding="utf-8")).get("type")
    except (OSError, ValueError, AttributeError) as problem:
        raise UnsafeInputError(f"{_GOOGLE_KEY_FILE} names no readable key file on this machine") from problem
    if kind != "service_account":
        raise UnsafeInputError(f"{_GOOGLE_KEY_FILE} does not name the key of a service account")
    return path


def check_store(settings: StoreSettings) -> None:
    """Raise UnsupportedError if DataFusion cannot open a store."""
    if isinstance(settings, AzureSettings):
        _check_azure(settings)
        return
    if isinstance(settings, GoogleSettings):
        _check_google(settings)
        return
    if not isinstance(settings, S3Settings):
        raise UnsupportedError("DataFusion does not read HDFS")
    if settings.keys is None:
        raise UnsupportedError("DataFusion needs an access key for S3")
    if settings.proxy is not None:
        raise UnsupportedError("DataFusion uses no proxy for S3")
    if settings.virtual and settings.endpoint is not None:
        raise UnsupportedError("DataFusion addresses buckets by path; set fs.s3a.path.style.access=true")


def _check_azure(settings: AzureSettings) -> None:
    if not (settings.key or settings.sas_token or settings.principal):
        raise UnsupportedError("DataFusion needs an account key, a SAS token or an application for Azure")
    if settings.endpoint is None and (settings.domain != PUBLIC_DOMAIN or settings.scheme != "https"):
        raise UnsupportedError(f"DataFusion opens containers over HTTPS in {PUBLIC_DOMAIN} only")


def _check_google(settings: GoogleSettings) -> None:
    if settings.anonymous:
        return
    if settings.endpoint is not None:
        raise UnsupportedError("DataFusion opens another server with Google's protocol only anonymously")
    try:
        _service_account_file()
    except UnsafeInputError as problem:
        raise UnsupportedError(f"DataFusion needs the key of a service account for Google: {problem}") from problem
