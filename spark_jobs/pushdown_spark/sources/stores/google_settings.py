"""Buckets of Google Cloud Storage for Python: connection settings, and their translation from Hadoop's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.secret_text import redact_line
from pushdown_spark.sources.stores.object_store import StoreSettings, check_keys

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "fs.gs."
"""The prefix of Hadoop's keys for Google Cloud Storage."""
FILE_SYSTEMS = frozenset(
    {"org.apache.hadoop.fs.gs.GoogleHadoopFileSystem", "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"}
)
"""The file systems of Hadoop and of Google, which have the same keys."""

_RETRY_TIME = timedelta(minutes=1)
_KNOWN_KEYS = frozenset({"auth.type", "storage.root.url", "project.id", "impl"})
"""Keys below `fs.gs.` that are translated, or that do not matter to a read."""
_INERT_VALUES: Mapping[str, frozenset[str]] = {
    "requester.pays.mode": frozenset({"disabled"}),
    "inputstream.support.gzip.encoding.enable": frozenset({"false"}),
    "client.type": frozenset({"http_api_client", "storage_client"}),
}
"""Values that do not change how objects are read, by key. Other values of these keys do."""
_INERT_PREFIXES = (
    *("application.name.suffix", "batch.threads", "block.size", "bucket.delete.", "bidi.", "cloud.logging."),
    *("copy.", "create.", "fadvise.", "glob.", "grpc.", "hierarchical.namespace.", "http.", "implicit.dir."),
    *("inputstream.", "lazy.init.", "list.", "marker.file.", "max.", "metadata.cache.", "operation."),
    *("outputstream.", "performance.cache.", "permissions.", "reported.permissions", "rewrite.", "status."),
    *("storage.http.", "storage.service.path", "token.server.", "tracelog.", "working.dir", "write."),
)
"""Prefixes of keys that do not change the bytes read: speed, retries, writing, listing, logging."""


@dataclass(frozen=True)
class GoogleSettings(StoreSettings):
    """The connection settings of a bucket.

    Requests are anonymous, or have the credentials of the worker's machine: the file that
    `GOOGLE_APPLICATION_CREDENTIALS` names, or the service account of the machine. `endpoint` is the host and port of
    another server with the same protocol.
    """

    access_denied_signs: ClassVar[tuple[str, ...]] = ("PERMISSION_DENIED", "http_status_code=403")
    expired_signs: ClassVar[tuple[str, ...]] = ("UNAUTHENTICATED", "http_status_code=401")

    anonymous: bool = False
    scheme: str = "https"
    endpoint: str | None = None

    def connect(self) -> pa.fs.GcsFileSystem:
        """Return a new client of the store."""
        # Imported here, because scans of local files do not need it.
        from pyarrow.fs import GcsFileSystem

        return GcsFileSystem(
            anonymous=self.anonymous,
            scheme=self.scheme,
            endpoint_override=self.endpoint,
            retry_time_limit=_RETRY_TIME,
        )

    def redact(self, text: str) -> str:
        """Return the message of a library on one line. The settings have no secrets."""
        return redact_line(text, ())

    def version(self, file: pa.NativeFile) -> bytes:
        """Return the generation of an open object. Raises OSError for an object that the store would decompress."""
        metadata = file.metadata()
        if metadata.get("Content-Encoding"):
            raise OSError("the object has a content encoding, with which its bytes differ from its size")
        generation: bytes = metadata["generation"]
        return generation


def google_settings(entries: Mapping[str, str]) -> GoogleSettings:
    """Translate Hadoop's entries with the prefix `fs.gs.`.

    Raises UnsupportedError, which names the key, if only Hadoop can use them.
    """
    names = {key.removeprefix(PREFIX): value for key, value in entries.items() if value}
    check_keys(PREFIX, names, _KNOWN_KEYS, _INERT_PREFIXES, _INERT_VALUES)
    kind = names.get("auth.type", "COMPUTE_ENGINE").upper()
    if kind not in ("COMPUTE_ENGINE", "APPLICATION_DEFAULT", "UNAUTHENTICATED"):
        raise UnsupportedError(f"{PREFIX}auth.type is {kind}, with which only Hadoop can sign in")
    root = urlsplit(names.get("storage.root.url", ""))
    if root.path.strip("/") or root.query:
        raise UnsupportedError(f"{PREFIX}storage.root.url is not a plain host with an optional port")
    return GoogleSettings(kind == "UNAUTHENTICATED", root.scheme or "https", root.netloc or None)
