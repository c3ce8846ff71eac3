"""Addresses of files for DataFusion, which opens objects of S3 and Azure stores itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.relations.azure_settings import PUBLIC_DOMAIN, AzureSettings
from pushdown_spark.relations.object_store import StoreSettings
from pushdown_spark.relations.s3_settings import S3Settings
from pushdown_spark.relations.storage import Storage

if TYPE_CHECKING:
    # Only workers import it.
    from datafusion import SessionContext
    from datafusion.object_store import AmazonS3, MicrosoftAzure


@dataclass(frozen=True)
class Address:
    """The URL of a file for DataFusion, and the store that it registers for an object."""

    url: str
    bucket: str = ""
    settings: S3Settings | AzureSettings | None = None

    @classmethod
    def of(cls, path: str, storage: Storage) -> Address:
        """Return the address of a file in a storage."""
        location = storage.bucket_of(path)
        if location is None:
            return cls(f"file://{quote(path)}")
        bucket, key = location
        if isinstance(bucket.settings, AzureSettings):
            container = bucket.name.partition("@")[0]
            return cls(f"az://{container}/{quote(key)}", container, bucket.settings)
        assert isinstance(bucket.settings, S3Settings), "see `check_store`"
        return cls(f"s3://{bucket.name}/{quote(key)}", bucket.name, bucket.settings)

    def register(self, context: SessionContext) -> None:
        """Register the store of an object."""
        if isinstance(self.settings, AzureSettings):
            context.register_object_store("az://", _azure_store(self.bucket, self.settings), self.bucket)
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


def check_store(settings: StoreSettings) -> None:
    """Raise UnsupportedError if DataFusion cannot open a store."""
    if isinstance(settings, AzureSettings):
        _check_azure(settings)
        return
    if not isinstance(settings, S3Settings):
        raise UnsupportedError("the Parquet reader opens objects of S3 and Azure only")
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
