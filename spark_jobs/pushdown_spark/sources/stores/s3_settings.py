"""Buckets of S3 for Python: connection settings, and their translation from Hadoop's settings for S3A."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.secret_text import redact_line
from pushdown_spark.sources.stores.object_store import StoreSettings, check_keys

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "fs.s3a."
"""The prefix of Hadoop's keys for S3A."""
FILE_SYSTEMS = frozenset({"org.apache.hadoop.fs.s3a.S3AFileSystem"})
"""Hadoop's file system for S3. The schemes s3 and s3n may be mapped to it."""

_KNOWN_KEYS = frozenset(
    {
        *("access.key", "secret.key", "session.token", "aws.credentials.provider", "endpoint"),
        *("endpoint.region", "path.style.access", "connection.ssl.enabled", "proxy.host", "proxy.port"),
        *("proxy.username", "proxy.password", "proxy.ssl.enabled", "impl"),
    }
)
"""Keys below `fs.s3a.` that are translated."""

_INERT_VALUES: Mapping[str, frozenset[str]] = {
    "encryption.algorithm": frozenset({"aes256", "sse-kms", "dsse-kms"}),
    "server-side-encryption-algorithm": frozenset({"aes256", "sse-kms", "dsse-kms"}),
    "input.stream.type": frozenset({"default", "classic", "prefetch", "analytics"}),
    "requester.pays.enabled": frozenset({"false"}),
    "access.grants.enabled": frozenset({"false"}),
    "accesspoint.required": frozenset({"false"}),
    "endpoint.fips": frozenset({"false"}),
    "http.signer.enabled": frozenset({"false"}),
}
"""Values that do not change how objects are read, by key. Other values of these keys do.

The store decrypts what it encrypted. Only encryption keys that a request must have (SSE-C) or that the client uses
change a read.
"""

_INERT_PREFIXES = (
    *("access.grants.fallback.to.iam", "acl.default", "analytics.accelerator.", "assumed.role."),
    *("attempts.maximum", "audit.", "authoritative.path", "block.size", "bucket.", "buffer.dir"),
    *("bulk.delete.", "change.detection.", "checksum.", "committer.", "connection.", "create."),
    *("cross.region.access.enabled", "directory.", "downgrade.syncable.exceptions", "encryption.context"),
    *("encryption.key", "etag.checksum.enabled", "executor.capacity", "experimental.", "fast."),
    *("input.async.", "io.rate.limit", "list.version", "max.total.tasks", "multiobjectdelete.enable"),
    *("multipart.", "optimized.copy.", "paging.maximum", "performance.flags", "prefetch.", "readahead.range"),
    *("request.md5.header", "retry.", "select.", "server-side-encryption.key", "socket.", "ssl.channel.mode"),
    *("threads.", "user.agent.prefix", "vectored."),
)
"""Prefixes of keys that do not change the bytes read: speed, retries, writing, listing.

Roles have an effect only with their credentials provider, and encryption keys only with an algorithm that is rejected
anyway.
"""

_STATIC = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_ANONYMOUS = frozenset(
    {"org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider", "com.amazonaws.auth.AnonymousAWSCredentials"}
)
_ENVIRONMENT = frozenset(
    {
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
        "com.amazonaws.auth.EnvironmentVariableCredentialsProvider",
    }
)
_INSTANCE = "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
_AMBIENT = frozenset(
    {
        _INSTANCE,
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        "software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider",
        "software.amazon.awssdk.auth.credentials.InstanceProfileCredentialsProvider",
        "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
        "com.amazonaws.auth.EC2ContainerCredentialsProviderWrapper",
        "com.amazonaws.auth.InstanceProfileCredentialsProvider",
    }
)
_DEFAULT_PROVIDERS = f"{_TEMPORARY}, {_STATIC}, {min(_ENVIRONMENT, key=len)}, {_INSTANCE}"

_FALLBACK_REGION = "us-east-2"
"""The region that S3A signs with if neither the settings nor the endpoint name one."""
_AWS_HOST = re.compile(r"(?:^|\.)amazonaws\.com(?:\.cn)?$")
_AWS_REGION = re.compile(r"^(?:s3[.-]|.*\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")
_OTHER_REGION = re.compile(r"^(?:.+\.)?s3[.-]([a-z0-9-]+)\.")


@dataclass(frozen=True, repr=False)
class KeyPair:
    """Credentials. `token` is empty for long-term credentials."""

    access_key: str
    secret_key: str
    token: str = ""

    def __repr__(self) -> str:
        return "KeyPair(hidden)"


@dataclass(frozen=True, repr=False)
class Proxy:
    """A proxy in front of the store. User and password are empty if it requires no authentication."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = ""

    def options(self) -> dict[str, str | int]:
        """Return the proxy as pyarrow's options."""
        options: dict[str, str | int] = {"scheme": self.scheme, "host": self.host, "port": self.port}
        return options | ({"username": self.user, "password": self.password} if self.user else {})

    def __repr__(self) -> str:
        return f"Proxy({self.scheme}://{self.host}:{self.port})"


@dataclass(frozen=True)
class S3Settings(StoreSettings):
    """The connection settings of a bucket in a store with Amazon's S3 protocol.

    - `endpoint` is host and port, or None for AWS.
    - `virtual` selects virtual-hosted addressing, which puts the bucket's name into the host name.
    - `keys` sign the requests. Without keys, requests are anonymous.
    - `ambient` signs them with the credentials of the worker's machine instead: environment variables, profile,
      container or instance role.
    """

    access_denied_signs: ClassVar[tuple[str, ...]] = (
        "ACCESS_DENIED",
        "INVALID_ACCESS_KEY_ID",
        "SIGNATURE_DOES_NOT_MATCH",
        "INVALID_SIGNATURE",
        "status 403",
    )
    # Amazon's responses to HeadObject do not say what is wrong.
    expired_signs: ClassVar[tuple[str, ...]] = ("ExpiredToken", "status 400) during HeadObject")

    region: str
    scheme: str = "https"
    endpoint: str | None = None
    virtual: bool = True
    keys: KeyPair | None = None
    ambient: bool = False
    proxy: Proxy | None = None

    def connect(self) -> pa.fs.S3FileSystem:
        """Return a new client of the store."""
        # Imported here, because the import slows the start of every worker and scans of local files do not need it.
        from pyarrow.fs import S3FileSystem

        keys = self.keys
        return S3FileSystem(
            access_key=keys.access_key if keys else None,
            secret_key=keys.secret_key if keys else None,
            session_token=(keys.token or None) if keys else None,
            anonymous=keys is None and not self.ambient,
            region=self.region,
            scheme=self.scheme,
            endpoint_override=self.endpoint,
            force_virtual_addressing=self.virtual,
            proxy_options=self.proxy.options() if self.proxy else None,
        )

    def redact(self, text: str) -> str:
        """Return the message of a library on one line, with `***` for each secret."""
        keys, proxy = self.keys, self.proxy
        secrets = (keys.token, keys.secret_key, keys.access_key) if keys else ()
        return redact_line(text, (*secrets, proxy.password if proxy else ""))


def s3_settings(entries: Mapping[str, str], bucket: str, environment: Callable[[str], str | None]) -> S3Settings:
    """Translate Hadoop's entries with the prefix `fs.s3a.` for a bucket.

    `environment` returns the value of an environment variable of the driver's JVM, or None if it is not set. Raises
    UnsupportedError, which names the key, if only Hadoop can use the entries.
    """
    if "@" in bucket or bucket.endswith("--x-s3"):
        raise UnsupportedError("only Hadoop supports this kind of bucket name")
    return _S3Translation(_bucket_entries(entries, bucket), environment).settings()


def _bucket_entries(entries: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Return the entries of one bucket without the prefix `fs.s3a.`. Blank entries count as not set."""
    common = {key.removeprefix(PREFIX): value for key, value in entries.items()}
    bucket_prefix = f"bucket.{bucket}."
    own = {key.removeprefix(bucket_prefix): value for key, value in common.items() if key.startswith(bucket_prefix)}
    own = {key: value for key, value in own.items() if key != "impl" and not key.startswith("bucket.")}
    return {key: value for key, value in (common | own).items() if value}


@dataclass(frozen=True, repr=False)
class _S3Translation:
    """The translation of one bucket's entries, whose keys have no prefix."""

    entries: Mapping[str, str]
    environment: Callable[[str], str | None]

    def settings(self) -> S3Settings:
        check_keys(PREFIX, self.entries, _KNOWN_KEYS, _INERT_PREFIXES, _INERT_VALUES)
        scheme, endpoint = self._endpoint()
        keys, ambient = self._credentials()
        return S3Settings(
            region=self._region(endpoint),
            scheme=scheme,
            endpoint=None if endpoint is None or _AWS_HOST.search(_host(endpoint)) else endpoint,
            virtual=not (self._flag("path.style.access", False) or (endpoint and _is_address(_host(endpoint)))),
            keys=keys,
            ambient=ambient,
            proxy=self._proxy(),
        )

    def _flag(self, key: str, default: bool) -> bool:
        """Return a boolean as Hadoop reads it: values other than true and false are the default."""
        return {"true": True, "false": False}.get(self.entries.get(key, "").lower(), default)

    def _endpoint(self) -> tuple[str, str | None]:
        scheme = "https" if self._flag("connection.ssl.enabled", True) else "http"
        endpoint = self.entries.get("endpoint")
        if endpoint is None:
            return scheme, None
        parts = urlsplit(endpoint if "://" in endpoint else f"{scheme}://{endpoint}")
        is_plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        if not is_plain or parts.path.strip("/") or parts.query:
            raise UnsupportedError(f"{PREFIX}endpoint is not a plain host with an optional port")
        return parts.scheme, parts.netloc

    def _region(self, endpoint: str | None) -> str:
        if region := self.entries.get("endpoint.region"):
            return region
        host = _host(endpoint or "amazonaws.com")
        if not _AWS_HOST.search(host):
            match = _OTHER_REGION.match(host)
            return match.group(1) if match else _FALLBACK_REGION
        match = _AWS_REGION.match(host)
        if match is None:
            raise UnsupportedError(f"{PREFIX}endpoint.region is not set, and only Hadoop looks up a bucket's region")
        return match.group(1)

    def _credentials(self) -> tuple[KeyPair | None, bool]:
        """Return the keys of the first provider that has credentials, and whether workers use ambient credentials."""
        names = [name.strip() for name in self.entries.get("aws.credentials.provider", _DEFAULT_PROVIDERS).split(",")]
        for name in filter(None, names):
            if name in _ANONYMOUS:
                return None, False
            if name in _AMBIENT:
                return None, True
            if keys := self._keys(name):
                return keys, False
        raise UnsupportedError(
            f"no provider of {PREFIX}aws.credentials.provider has credentials; set {PREFIX}access.key and secret.key"
        )

    def _keys(self, provider: str) -> KeyPair | None:
        access, secret = self.entries.get("access.key", ""), self.entries.get("secret.key", "")
        token = self.entries.get("session.token", "")
        if provider == _TEMPORARY:
            return KeyPair(access, secret, token) if access and secret and token else None
        if provider == _STATIC:
            return KeyPair(access, secret) if access and secret else None
        if provider in _ENVIRONMENT:
            access, secret, token = (
                self.environment(name) or ""
                for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
            )
            return KeyPair(access, secret, token) if access and secret else None
        raise UnsupportedError(f"{PREFIX}aws.credentials.provider names {provider}, which only Hadoop can use")

    def _proxy(self) -> Proxy | None:
        host = self.entries.get("proxy.host")
        if host is None:
            return None
        scheme = "https" if self._flag("proxy.ssl.enabled", False) else "http"
        port = self.entries.get("proxy.port", "443" if scheme == "https" else "80")
        if not port.isdecimal():
            raise UnsupportedError(f"{PREFIX}proxy.port is not a number")
        user, password = self.entries.get("proxy.username", ""), self.entries.get("proxy.password", "")
        return Proxy(scheme, host, int(port), user, password)


def _host(endpoint: str) -> str:
    return urlsplit(f"//{endpoint}").hostname or ""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
