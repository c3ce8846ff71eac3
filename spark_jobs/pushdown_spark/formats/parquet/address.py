"""Addresses of files for DataFusion, which opens objects of S3 stores itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.relations.object_store import StoreSettings
from pushdown_spark.relations.s3_settings import S3Settings
from pushdown_spark.relations.storage import Storage

if TYPE_CHECKING:
    # Only workers import it.
    from datafusion import SessionContext


@dataclass(frozen=True)
class Address:
    """The URL of a file for DataFusion, and the store that it registers for an object."""

    url: str
    bucket: str = ""
    settings: S3Settings | None = None

    @classmethod
    def of(cls, path: str, storage: Storage) -> Address:
        """Return the address of a file in a storage."""
        location = storage.bucket_of(path)
        if location is None:
            return cls(f"file://{quote(path)}")
        bucket, key = location
        assert isinstance(bucket.settings, S3Settings), "see `check_store`"
        return cls(f"s3://{bucket.name}/{quote(key)}", bucket.name, bucket.settings)

    def register(self, context: SessionContext) -> None:
        """Register the store of an object."""
        from datafusion.object_store import AmazonS3

        if self.settings is None:
            return
        store, keys = self.settings, self.settings.keys
        assert keys is not None, "see `check_store`"
        context.register_object_store(
            "s3://",
            AmazonS3(
                self.bucket,
                region=store.region,
                access_key_id=keys.access_key,
                secret_access_key=keys.secret_key,
                session_token=keys.token or None,
                endpoint=None if store.endpoint is None else f"{store.scheme}://{store.endpoint}",
                allow_http=store.scheme == "http",
            ),
            self.bucket,
        )


def check_store(settings: StoreSettings) -> None:
    """Raise UnsupportedError if DataFusion cannot open a store."""
    if not isinstance(settings, S3Settings):
        raise UnsupportedError("the Parquet reader opens objects of S3 only")
    if settings.keys is None:
        raise UnsupportedError("DataFusion needs an access key for S3")
    if settings.proxy is not None:
        raise UnsupportedError("DataFusion uses no proxy for S3")
    if settings.virtual and settings.endpoint is not None:
        raise UnsupportedError("DataFusion addresses buckets by path; set fs.s3a.path.style.access=true")
