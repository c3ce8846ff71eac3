"""Azure containers for Python: connection settings, and their translation from Hadoop's settings for ABFS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.secret_text import redact_line
from pushdown_spark.sources.stores.object_store import StoreSettings, check_keys

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "fs.azure."
"""The prefix of Hadoop's keys for Azure."""
FILE_SYSTEMS = frozenset(
    {
        "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
        "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
    }
)
"""Hadoop's file systems for the schemes abfs and abfss."""
PUBLIC_DOMAIN = "core.windows.net"
"""The domain of accounts outside of national clouds."""

_KNOWN_KEYS = frozenset(
    {
        *("account.key", "account.auth.type", "sas.fixed.token", "account.oauth.provider.type"),
        *("account.oauth2.client.id", "account.oauth2.client.secret", "account.oauth2.client.endpoint"),
        *("abfs.endpoint", "always.use.https"),
    }
)
"""Keys below `fs.azure.` that are translated."""

_INERT_PREFIXES = (
    *("abfs.latency.track", "account.expect.header", "account.hns.enabled", "account.operation.idle"),
    *("account.throttling", "analysis.period", "apache.http.client.", "append.", "atomic.rename.", "block."),
    *("buffer.dir", "client.correlationid", "cluster.name", "createRemoteFileSystemDuringInitialization"),
    *("custom.token.fetch.", "data.blocks.", "delete.", "disable.outputstream.flush", "enable.autothrottling"),
    *("enable.checksum.", "enable.conditional.create", "enable.delete.", "enable.flush", "enable.mkdir."),
    *("enable.paginated.delete", "enable.readahead", "enable.rename.", "enable.small.write.", "fns.account.service."),
    *("identity.transformer.", "infinite-lease.", "ingress.service.type", "io.", "lease.", "list.", "metrics."),
    *("networking.library", "oauth.token.fetch.retry.", "read.", "readahead", "rename.", "retry."),
    *("skipUserGroupMetadataDuringInitialization", "ssl.channel.mode", "tracing", "user.agent.prefix", "write."),
)
"""Prefixes of keys that do not change the bytes read: speed, retries, writing, listing, logging."""

_CLIENT_CREDENTIALS = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
_MANAGED_IDENTITY = "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider"
_TOKEN_ENDPOINT = re.compile(r"https://login\.microsoftonline\.com/([^/]+)/oauth2/(?:v2\.0/)?token")
_AUTHORITY = re.compile(r"(?P<container>[^@]+)@(?P<host>(?P<account>[^.]+)\.(?:dfs|blob)\.(?P<domain>.+))")
_OTHER_ACCOUNT = re.compile(r"\.[a-z0-9]+\.(?:dfs|blob)\.[a-z.]+$")
_SIGNATURE = re.compile(r"(sig=)[^&'\"\s]+")


@dataclass(frozen=True)
class ServicePrincipal:
    """An application that signs in with a secret."""

    tenant_id: str
    client_id: str
    client_secret: str = field(repr=False)


@dataclass(frozen=True)
class AzureSettings(StoreSettings):
    """The connection settings of a container. Without credentials, the worker uses the credentials of its machine.

    - `domain` follows `.blob.` and `.dfs.` in host names.
    - `endpoint` is the host and port of an emulator instead.
    """

    access_denied_signs: ClassVar[tuple[str, ...]] = ("AuthorizationFailure", " 403 ", " 401 ")
    expired_signs: ClassVar[tuple[str, ...]] = ("AuthenticationFailed", "failed to authenticate")

    account: str
    domain: str = PUBLIC_DOMAIN
    scheme: str = "https"
    endpoint: str | None = None
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    principal: ServicePrincipal | None = None

    def connect(self) -> pa.fs.AzureFileSystem:
        """Return a new client of the store."""
        # Imported here, because scans of local files do not need it.
        from pyarrow.fs import AzureFileSystem

        principal = self.principal
        return AzureFileSystem(
            self.account,
            account_key=self.key,
            sas_token=self.sas_token,
            tenant_id=principal.tenant_id if principal else None,
            client_id=principal.client_id if principal else None,
            client_secret=principal.client_secret if principal else None,
            blob_storage_authority=self.endpoint or f".blob.{self.domain}",
            dfs_storage_authority=self.endpoint or f".dfs.{self.domain}",
            blob_storage_scheme=self.scheme,
            dfs_storage_scheme=self.scheme,
        )

    def redact(self, text: str) -> str:
        """Return the message of a library on one line, with `***` for each secret and for signatures of requests."""
        secrets = (self.key or "", self.sas_token or "", self.principal.client_secret if self.principal else "")
        return _SIGNATURE.sub(r"\1***", redact_line(text, secrets))

    def object_path(self, bucket: str, key: str) -> str:
        """Return the path of an object, whose bucket is the container and the account."""
        return f"{bucket.partition('@')[0]}/{key}"


def azure_settings(entries: Mapping[str, str], scheme: str, authority: str) -> AzureSettings:
    """Translate Hadoop's entries with the prefix `fs.azure.` for `container@account.dfs.core.windows.net`.

    Raises UnsupportedError, which names the key, if only Hadoop can use them.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise UnsupportedError("the authority is not container@account.dfs.DOMAIN")
    return _AzureTranslation(
        _account_entries(entries, match["host"]), scheme, match["account"], match["domain"]
    ).settings()


def _account_entries(entries: Mapping[str, str], host: str) -> dict[str, str]:
    """Return the entries of one account without prefix and suffix.

    Entries of the account take precedence over entries for all accounts.
    """
    common: dict[str, str] = {}
    own: dict[str, str] = {}
    for key, value in entries.items():
        name = key.removeprefix(PREFIX)
        if name.endswith(f".{host}"):
            own[name.removesuffix(f".{host}")] = value
        elif not _OTHER_ACCOUNT.search(name):
            common[name] = value
    return {name: value for name, value in (common | own).items() if value}


@dataclass(frozen=True, repr=False)
class _AzureTranslation:
    """The translation of one account's entries, whose keys have no prefix and no suffix."""

    entries: Mapping[str, str]
    scheme: str
    account: str
    domain: str

    def settings(self) -> AzureSettings:
        check_keys(PREFIX, self.entries, _KNOWN_KEYS, _INERT_PREFIXES)
        is_plain = self.scheme == "abfs" and self.entries.get("always.use.https", "").lower() == "false"
        settings = AzureSettings(
            account=self.account,
            domain=self.domain,
            scheme="http" if is_plain else "https",
            endpoint=self.entries.get("abfs.endpoint"),
        )
        return self._with_credentials(settings)

    def _with_credentials(self, settings: AzureSettings) -> AzureSettings:
        kind = self.entries.get("account.auth.type", "SharedKey").lower()
        if kind == "sharedkey":
            return replace(settings, key=self._entry("account.key"))
        if kind == "sas":
            return replace(settings, sas_token="?" + self._entry("sas.fixed.token").lstrip("?"))
        if kind == "oauth":
            return replace(settings, principal=self._principal())
        raise UnsupportedError(f"{PREFIX}account.auth.type is {kind}, which only Hadoop supports")

    def _principal(self) -> ServicePrincipal | None:
        provider = self._entry("account.oauth.provider.type")
        if provider == _MANAGED_IDENTITY and "account.oauth2.client.id" not in self.entries:
            return None
        if provider != _CLIENT_CREDENTIALS:
            raise UnsupportedError(f"{PREFIX}account.oauth.provider.type names {provider}, which only Hadoop can use")
        tenant = _TOKEN_ENDPOINT.fullmatch(self._entry("account.oauth2.client.endpoint"))
        if tenant is None:
            raise UnsupportedError(f"{PREFIX}account.oauth2.client.endpoint is not the token address of a tenant")
        client_id, secret = (self._entry(f"account.oauth2.client.{name}") for name in ("id", "secret"))
        return ServicePrincipal(tenant[1], client_id, secret)

    def _entry(self, name: str) -> str:
        if name not in self.entries:
            raise UnsupportedError(f"{PREFIX}{name} is not set")
        return self.entries[name]
