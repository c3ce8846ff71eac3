"""Turn the Hadoop keys of S3A into what reaches the same bucket from Python, or name the key that cannot be carried."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pushdown_spark.relations.object_store import KeyPair, Proxy, S3Settings
from pushdown_spark.runtime.filesystem import HadoopSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "fs.s3a."
_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_CREDENTIAL_FILES = "hadoop.security.credential.provider.path"

_CARRIED = frozenset(
    {
        "access.key",
        "secret.key",
        "session.token",
        "aws.credentials.provider",
        "endpoint",
        "endpoint.region",
        "path.style.access",
        "connection.ssl.enabled",
        "proxy.host",
        "proxy.port",
        "proxy.username",
        "proxy.password",
        "proxy.ssl.enabled",
        "impl",
    }
)
"""Keys below `fs.s3a.` that have a counterpart here."""

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
"""Values of keys that would otherwise change how an object is read, where they do not. Whatever the store encrypts by
itself it also decrypts by itself; only keys that a request must bring along (SSE-C) or that the client holds matter."""

_INERT = (
    "access.grants.fallback.to.iam",
    "acl.default",
    "analytics.accelerator.",
    "assumed.role.",
    "attempts.maximum",
    "audit.",
    "authoritative.path",
    "block.size",
    "bucket.",
    "buffer.dir",
    "bulk.delete.",
    "change.detection.",
    "checksum.",
    "committer.",
    "connection.",
    "create.",
    "cross.region.access.enabled",
    "directory.",
    "downgrade.syncable.exceptions",
    "encryption.context",
    "encryption.key",
    "etag.checksum.enabled",
    "executor.capacity",
    "experimental.",
    "fast.",
    "input.async.",
    "io.rate.limit",
    "list.version",
    "max.total.tasks",
    "multiobjectdelete.enable",
    "multipart.",
    "optimized.copy.",
    "paging.maximum",
    "performance.flags",
    "prefetch.",
    "readahead.range",
    "request.md5.header",
    "retry.",
    "select.",
    "server-side-encryption.key",
    "socket.",
    "ssl.channel.mode",
    "threads.",
    "user.agent.prefix",
    "vectored.",
)
"""Beginnings of keys that change nothing about the bytes read: pace, retries, writing, listing. Roles count only where
their provider is asked for, and encryption keys only with an algorithm that is refused anyway."""

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
"""What S3A signs with where neither key nor endpoint names a region."""
_AWS_HOST = re.compile(r"(?:^|\.)amazonaws\.com(?:\.cn)?$")
_AWS_REGION = re.compile(r"^(?:s3[.-]|.*\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")
_OTHER_REGION = re.compile(r"^(?:.+\.)?s3[.-]([a-z0-9-]+)\.")


class _CannotCarryError(Exception):
    """A key that only Hadoop can follow; the message says which."""


@dataclass(frozen=True, repr=False)
class HadoopKeys:
    """The entries that decide how S3A reaches buckets, and the environment of the driver's JVM.

    `entries` holds whole keys that somebody set, without Hadoop's defaults.
    """

    entries: Mapping[str, str]
    environment: Callable[[str], str | None]

    @classmethod
    def of(cls, spark: SparkSession, options: Mapping[str, str]) -> HadoopKeys:
        """The entries that Spark's own reader would use for a source with these options."""
        hadoop = HadoopSettings(spark)
        entries = {f"fs.{scheme}.impl": hadoop.value(f"fs.{scheme}.impl") for scheme in ("s3", "s3n", "s3a")}
        entries[_CREDENTIAL_FILES] = hadoop.value(_CREDENTIAL_FILES)
        entries |= hadoop.explicit(_PREFIX)
        entries |= {key: value for key, value in options.items() if key.startswith(("fs.s3", _CREDENTIAL_FILES))}
        return cls({key: value.strip() for key, value in entries.items()}, hadoop.environment)

    def settings(self, scheme: str, bucket: str) -> S3Settings | str:
        """How to reach a bucket, or in words which key stands against it."""
        try:
            return self._settings(scheme, bucket)
        except _CannotCarryError as problem:
            return f"{scheme}://{bucket.rpartition('@')[2]}: {problem}"

    def _settings(self, scheme: str, bucket: str) -> S3Settings:
        if self.entries.get(f"fs.{scheme}.impl", "") != _S3A:
            raise _CannotCarryError(f"fs.{scheme}.impl is not Hadoop's S3A")
        if "@" in bucket or bucket.endswith("--x-s3"):
            raise _CannotCarryError("this kind of bucket name is understood by Hadoop alone")
        if self.entries.get(_CREDENTIAL_FILES):
            raise _CannotCarryError(f"{_CREDENTIAL_FILES} is set, and only Hadoop opens credential files")
        return _Translation(self._of_bucket(bucket), self.environment).settings()

    def _of_bucket(self, bucket: str) -> dict[str, str]:
        """The entries below `fs.s3a.` as they are for one bucket; blank ones count as not set."""
        mine = f"{_PREFIX}bucket.{bucket}."
        common = {key.removeprefix(_PREFIX): value for key, value in self.entries.items() if key.startswith(_PREFIX)}
        own = {key.removeprefix(mine): value for key, value in self.entries.items() if key.startswith(mine)}
        own = {key: value for key, value in own.items() if key != "impl" and not key.startswith("bucket.")}
        return {key: value for key, value in (common | own).items() if value}


@dataclass(frozen=True, repr=False)
class _Translation:
    """One bucket's entries, without their common prefix."""

    entries: Mapping[str, str]
    environment: Callable[[str], str | None]

    def settings(self) -> S3Settings:
        for key in sorted(self.entries):
            self._check(key)
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

    def _check(self, key: str) -> None:
        value = self.entries[key].lower()
        if key in _CARRIED or value in _INERT_VALUES.get(key, ()):
            return
        if key in _INERT_VALUES or not key.startswith(_INERT):
            raise _CannotCarryError(f"{_PREFIX}{key} is set, and only Hadoop follows it")

    def _flag(self, key: str, default: bool) -> bool:
        """A switch as Hadoop reads it: anything but the two words is the default."""
        return {"true": True, "false": False}.get(self.entries.get(key, "").lower(), default)

    def _endpoint(self) -> tuple[str, str | None]:
        scheme = "https" if self._flag("connection.ssl.enabled", True) else "http"
        text = self.entries.get("endpoint")
        if text is None:
            return scheme, None
        parts = urlsplit(text if "://" in text else f"{scheme}://{text}")
        plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        if not plain or parts.path.strip("/") or parts.query:
            raise _CannotCarryError(f"{_PREFIX}endpoint is no plain host with an optional port")
        return parts.scheme, parts.netloc

    def _region(self, endpoint: str | None) -> str:
        if region := self.entries.get("endpoint.region"):
            return region
        host = _host(endpoint or "amazonaws.com")
        if not _AWS_HOST.search(host):
            named = _OTHER_REGION.match(host)
            return named.group(1) if named else _FALLBACK_REGION
        named = _AWS_REGION.match(host)
        if named is None:
            raise _CannotCarryError(f"{_PREFIX}endpoint.region is not set, and only Hadoop looks up a bucket's region")
        return named.group(1)

    def _credentials(self) -> tuple[KeyPair | None, bool]:
        """The first provider that has credentials: keys, or none and whether the worker's machine is to offer some."""
        names = [name.strip() for name in self.entries.get("aws.credentials.provider", _DEFAULT_PROVIDERS).split(",")]
        for name in filter(None, names):
            if name in _ANONYMOUS:
                return None, False
            if name in _AMBIENT:
                return None, True
            if keys := self._keys(name):
                return keys, False
        raise _CannotCarryError(
            f"{_PREFIX}aws.credentials.provider finds no credentials in {_PREFIX}access.key or others"
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
        raise _CannotCarryError(f"{_PREFIX}aws.credentials.provider names {provider}, which only Hadoop can ask")

    def _proxy(self) -> Proxy | None:
        host = self.entries.get("proxy.host")
        if host is None:
            return None
        scheme = "https" if self._flag("proxy.ssl.enabled", False) else "http"
        port = self.entries.get("proxy.port", "443" if scheme == "https" else "80")
        if not port.isdecimal():
            raise _CannotCarryError(f"{_PREFIX}proxy.port is no number")
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
